/*
 * The costs on this comm: messages over its links, bytes in memory, cores that ranks share. A few
 * ranks measure them over the real links (calibrate.h), or a file holds them. They are the same on
 * every rank, to the bit, since all ranks must choose alike. All numbers are whole for the same
 * reason.
 */
#ifndef RD_COST_H
#define RD_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/collective.h"

/* X(bytes): message sizes at which links are measured, ascending. Costs between two sizes are
   interpolated linearly. */
#define RD_COST_POINTS(X) X(0) X(1 << 10) X(4 << 10) X(16 << 10) X(64 << 10) X(128 << 10)
#define RD_COST_POINT_COUNT 6

/* X(name, text): the peer of a link. */
#define RD_LINK_CLASSES(X) \
	X(RD_NEAR, "near") /* a rank on the same host */ \
	X(RD_FAR, "far") /* a rank on another */

enum rd_link_class {
#define RD_LINK_CLASS_ENUM(name, text) name,
	RD_LINK_CLASSES(RD_LINK_CLASS_ENUM)
#undef RD_LINK_CLASS_ENUM
		RD_LINK_CLASS_COUNT
};

/* X(name, text): the classes of types by which the cost of a reduction differs most. */
#define RD_TYPE_CLASSES(X) \
	X(RD_WHOLE, "whole") /* integers, f32 and f64 */ \
	X(RD_HALF, "half") /* f16, bf16 and f8, which are combined in f32 */

enum rd_type_class {
#define RD_TYPE_CLASS_ENUM(name, text) name,
	RD_TYPE_CLASSES(RD_TYPE_CLASS_ENUM)
#undef RD_TYPE_CLASS_ENUM
		RD_TYPE_CLASS_COUNT
};

/* Bounds of costs that are read; rd_costs_bound() moves measured costs into them. */
#define RD_COST_NS_MAX UINT32_C(4000000000)
#define RD_COST_PS_MAX UINT32_C(1000000) /* a byte */
#define RD_COST_CORES_MAX 65536
#define RD_COST_RAILS_MAX 64

/*
 * Bounds of the times computed from any costs, for any number of bytes: the longest step, and the
 * longest call. A schedule has far fewer than 2^22 steps, so that no sum leaves 64 bits.
 */
#define RD_STEP_NS_MAX (INT64_C(1) << 38)
#define RD_CALL_NS_MAX (INT64_MAX / 8)

/* a times b, or RD_CALL_NS_MAX where that is less. */
static inline int64_t rd_ns_product(uint64_t a, uint64_t b)
{
	uint64_t product;

	if (__builtin_mul_overflow(a, b, &product) || product > RD_CALL_NS_MAX)
		return RD_CALL_NS_MAX;
	return (int64_t)product;
}

struct rd_link_cost {
	/* From the moment a rank begins to send until its peer has the bytes in its own memory. */
	uint32_t way_ns[RD_COST_POINT_COUNT];
	/* In a long sequence of messages: the time of each on the busier of the two ranks. */
	uint32_t busy_ns[RD_COST_POINT_COUNT];
	/* Where both ranks send at once: the time of a message sent and one received. 0: unknown,
	   then as if each cost what the busier rank's does. */
	uint32_t both_ns[RD_COST_POINT_COUNT];
	/* Through the kernel where ranks share cores: the work of a message on each rank while the
	   other does nothing. 0: not measured, then as busy_ns and both_ns yield. */
	uint32_t send_ns[RD_COST_POINT_COUNT], recv_ns[RD_COST_POINT_COUNT];
	/* posts is 1: from posts_min bytes on, a message is sent from the user's memory
	   (rd_link_ops.send). 0: all messages are written into the link's slots. */
	uint32_t posts, posts_min;
	/* 1: the receiver may read that message in the sender's memory (single copy). The costs
	   above are those of messages through slots, and so are predictions. single_copy.h learns
	   the gain of single copy from the calls themselves. */
	uint32_t single_copy;
	/* 1: the sender writes messages of RD_PAST_LEAST bytes and more past its caches into room
	   that both ranks share (rd_link.shares_room), unless the comm is oversubscribed. */
	uint32_t past_caches;
	/* Network ports over which the channels spread: channel c uses rail c modulo rails. The
	   costs above are those of one channel. */
	uint32_t rails;
	/* Measured: thousandths of their time over one rail that messages take over all at once.
	   Less than its share of the bytes: the busiest rail's share counts. */
	uint32_t striped;
};

struct rd_costs {
	struct rd_link_cost links[RD_LINK_CLASS_COUNT];
	uint32_t copy_ps; /* a byte, in cache */
	uint32_t reduce_ps[RD_TYPE_CLASS_COUNT]; /* a byte of the result, in cache */
	uint32_t switch_ns; /* from one rank to the next on a core that they share */
	uint32_t cores; /* of a host */
	/* As copy_ps and reduce_ps, beyond a core's own caches, and never less. For calls in
	   which a rank has more bytes of input and output than those caches hold. */
	uint32_t memory_copy_ps;
	uint32_t memory_reduce_ps[RD_TYPE_CLASS_COUNT];
	uint32_t cache_bytes;
	/* The same beyond the caches that a host's cores share, with the bytes that go back to
	   memory, and never less. They count for a share of the bytes: the buffers of all ranks of
	   a host in shared_cache_bytes, 1 at most. 0: unknown, then for none. */
	uint32_t beyond_copy_ps;
	uint32_t beyond_reduce_ps[RD_TYPE_CLASS_COUNT];
	uint32_t shared_cache_bytes;
};

/* Sets defaults for a machine that was not measured: memory costs as much as a cache. */
void rd_costs_default(struct rd_costs *costs);

/* The cost in ns of a message: to its sender, to its receiver, between them, and on a cable. */
struct rd_message_cost {
	int64_t send_ns, recv_ns; /* of the two ranks */
	/* Between them. Negative, but not below -send_ns, where a message by itself takes less than
	   two that cross. */
	int64_t flight_ns;
	/* On the cables of two hosts, for its bytes: each carries one message at a time. */
	int64_t cable_ns;
};

struct rd_message_cost rd_message_cost(const struct rd_link_cost *link, uint64_t size);
/* Thousandths of a message's cost that remain where the messages of a call go over `channels`
   channels by turns. */
uint32_t rd_rails_share(const struct rd_link_cost *link, int channels);

/* Prints the costs as text, "NAME NUMBER...\n" a line. Returns the length it would have, as
   snprintf. */
int rd_costs_print(const struct rd_costs *costs, char *text, size_t size);
/* The time of `size` bytes at byte_ps picoseconds a byte; RD_STEP_NS_MAX at most. */
int64_t rd_bytes_ns(uint64_t size, uint32_t byte_ps);

/* Moves each number that is out of its bounds to the nearest bound, and raises the cost of
   memory to that of a cache. */
void rd_costs_bound(struct rd_costs *costs);

/* Reads the text of rd_costs_print(), all of it, each number within its bounds. False: `wrong`
   holds the reason, and *line the line of the text, from 1 on (0: no single line). The lines of
   memory may be missing: memory then costs as much as a cache. It never costs less. So may both_ns,
   send_ns, recv_ns, and those of rails: there is one then. */
bool rd_costs_read(
	struct rd_costs *costs, const char *text, int *line, char *wrong, size_t wrong_size);

#endif
