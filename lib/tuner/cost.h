/*
 * What things cost on this comm: messages over its links, bytes in memory, cores that ranks share.
 * Measured by a few ranks over the real links (calibrate.h), or read from a file, and the same on every
 * rank, to the bit: all ranks must choose alike. Whole numbers throughout, for the same reason.
 */
#ifndef RD_COST_H
#define RD_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/collective.h"

/* X(bytes): the sizes of messages at which links are measured, ascending; between two the cost lies
   on the straight line. */
#define RD_COST_POINTS(X) X(0) X(1 << 10) X(4 << 10) X(16 << 10) X(64 << 10) X(128 << 10)
#define RD_COST_POINT_COUNT 6

/* X(name, text): whom a link leads to. */
#define RD_LINK_CLASSES(X) \
	X(RD_NEAR, "near") /* a rank on the same host */ \
	X(RD_FAR, "far") /* a rank on another */

enum rd_link_class {
#define RD_LINK_CLASS_ENUM(name, text) name,
	RD_LINK_CLASSES(RD_LINK_CLASS_ENUM)
#undef RD_LINK_CLASS_ENUM
		RD_LINK_CLASS_COUNT
};

/* X(name, text): what a reduction's cost depends on most. */
#define RD_TYPE_CLASSES(X) \
	X(RD_WHOLE, "whole") /* integers, f32 and f64 */ \
	X(RD_HALF, "half") /* f16, bf16 and f8, which are combined in f32 */

enum rd_type_class {
#define RD_TYPE_CLASS_ENUM(name, text) name,
	RD_TYPE_CLASSES(RD_TYPE_CLASS_ENUM)
#undef RD_TYPE_CLASS_ENUM
		RD_TYPE_CLASS_COUNT
};

/* Bounds of what is read, which rd_costs_bound() keeps what is measured within. */
#define RD_COST_NS_MAX UINT32_C(4000000000)
#define RD_COST_PS_MAX UINT32_C(1000000) /* a byte */
#define RD_COST_CORES_MAX 65536

/*
 * Bounds of what is reckoned from them, whatever the costs are and however many the bytes: a step
 * takes this long at most, and a call. A schedule has far fewer than 2^22 steps, so that no sum leaves
 * 64 bits.
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
	/* Of each message where many follow each other: how long it keeps the busier of the two. */
	uint32_t busy_ns[RD_COST_POINT_COUNT];
	/* 1: from so many bytes on a message is sent from where it lies (rd_link_ops.send); 0: all
	   are written into the link's own room. */
	uint32_t posts, posts_min;
	/* 1: what is sent so is lent: the receiver reads it there. Then the costs above are those
	   of messages that are not, and calls are priced so: what lending is worth they tell
	   themselves (single_copy.h). */
	uint32_t single_copy;
	uint32_t lent_ns[RD_COST_POINT_COUNT]; /* as way_ns, of a message that is */
};

struct rd_costs {
	struct rd_link_cost links[RD_LINK_CLASS_COUNT];
	uint32_t copy_ps; /* a byte, in cache */
	uint32_t reduce_ps[RD_TYPE_CLASS_COUNT]; /* a byte of the result, in cache */
	uint32_t switch_ns; /* from one rank to the next on a core that they share */
	uint32_t cores; /* of a host */
	/* As copy_ps and reduce_ps, beyond a core's own caches, and never less: for calls in which
	   a rank has more bytes of input and output than those hold. */
	uint32_t memory_copy_ps;
	uint32_t memory_reduce_ps[RD_TYPE_CLASS_COUNT];
	uint32_t cache_bytes;
};

/* Plausible numbers for a machine that nobody has measured: memory costs as much as a cache. */
void rd_costs_default(struct rd_costs *costs);

/* What a message of so many bytes takes on its way, and of its sender and receiver, in ns. */
struct rd_message_cost {
	int64_t send_ns, recv_ns; /* of the two ranks */
	int64_t flight_ns; /* between them */
};

struct rd_message_cost rd_message_cost(const struct rd_link_cost *link, uint64_t size);
/* What it takes to read so many bytes of a peer's memory; -1: the link does not. */
int64_t rd_reading_ns(const struct rd_link_cost *link, uint64_t size);

/* The costs as text, "NAME NUMBER...\n" a line; returns the length it would have, as snprintf. */
int rd_costs_print(const struct rd_costs *costs, char *text, size_t size);
/* What takes so many picoseconds a byte; RD_STEP_NS_MAX at most. */
int64_t rd_bytes_ns(uint64_t size, uint32_t byte_ps);

/* Moves each number that is out of its bounds to the nearest that is not, and memory to no less
   than a cache. */
void rd_costs_bound(struct rd_costs *costs);

/* Reads what rd_costs_print() wrote, all of it, each number within its bounds: false, and `wrong`
   says what is wrong, in line *line of the text, from 1 on; 0: not in any one line. The lines of
   memory may be missing: it costs as much as a cache, then, and never less. */
bool rd_costs_read(
	struct rd_costs *costs, const char *text, int *line, char *wrong, size_t wrong_size);

#endif
