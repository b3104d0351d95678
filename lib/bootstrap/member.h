/* Data that the ranks of a comm exchange over their control connections. */
#ifndef RD_MEMBER_H
#define RD_MEMBER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "rondo/place.h"
#include "rondo/transport.h"
#include "net/socket.h"

#define RD_TRANSPORTS_MAX 8
#define RD_SIGNATURE_WORDS 3

/* Both random: rank 0 draws them. Only the ranks of the comm know the key. */
struct rd_comm_id {
	uint64_t number; /* not 0 */
	unsigned char key[RD_COMM_KEY_SIZE];
};

/* A transport's data on how to reach a rank. Each rank sends its own and receives all others'. */
struct rd_card {
	char transport[16]; /* "": no more cards */
	uint16_t size;
	unsigned char bytes[RD_CARD_MAX];
};

/* Where a rank can be met after a failure, and for groups (listener.h). */
struct rd_lineage_address {
	int32_t origin; /* the rank in the first comm of the lineage */
	char address[RD_NUMERIC_ADDRESS]; /* numeric; "": the one at which rank 0 is reached */
	uint32_t port;
};

struct rd_member {
	struct rd_place place;
	struct rd_lineage_address lineage;
};

/* A rank as it joins. */
struct rd_identity {
	struct rd_member member;
	struct rd_card cards[RD_TRANSPORTS_MAX];
};

#define RD_RANK_NAME_SIZE (RD_HOST_SIZE + 64)
/* "rank 2 (host a, pid 17)". */
static inline const char *rd_place_name(
	const struct rd_place *place, int rank, char name[RD_RANK_NAME_SIZE])
{
	snprintf(name, RD_RANK_NAME_SIZE, "rank %d (host %s, pid %d)", rank, place->host_name,
		place->pid);
	return name;
}

/* The state of this rank's calls, for the coordinator's QUERY. The comm writes it, and the control
   thread reads it. */
struct rd_activity {
	_Atomic uint32_t calls; /* collective calls begun (issued, for streams) */
	_Atomic uint32_t done; /* of those, finished */
	_Atomic int32_t collective; /* enum rd_collective of the latest call; -1: none yet */
	uint64_t digest; /* of the collective calls; read when the rank leaves */
	_Atomic uintptr_t called_at; /* return address of the latest call; 0: unknown */
	_Atomic bool queues; /* calls that are done here may still run on a device */
	_Atomic int32_t waiting_for; /* peer it waits for; -1: none */
	_Atomic uintptr_t waits_at; /* return address of the call that waits; 0: unknown */
	/* By rd_clock_ms(): when that wait began, and when the comm last saw it go on. The wait is
	   over where the latter is 0, or older than RD_WAIT_SEEN_MS. */
	_Atomic int64_t waiting_since_ms, waiting_seen_ms;
	/* The collective in which this rank last slept: a struct rd_signature, and its number,
	   which is 0 while the signature changes. */
	_Atomic uint32_t slept_in;
	_Atomic uint64_t slept_call[RD_SIGNATURE_WORDS];
};

/* Longer than a sleep of comm/wait.c. */
#define RD_WAIT_SEEN_MS 1000
/* For how long the rank's call has waited for its present peer; 0: it does not wait. */
static inline uint32_t rd_activity_waited_ms(const struct rd_activity *activity, int64_t now_ms)
{
	/* Written last. */
	int64_t seen_ms = atomic_load(&activity->waiting_seen_ms);
	int64_t since_ms = atomic_load(&activity->waiting_since_ms);

	return now_ms - seen_ms > RD_WAIT_SEEN_MS || now_ms < since_ms
		       ? 0
		       : (uint32_t)(now_ms - since_ms);
}

/* The coordinator investigates a call that waits longer, and a line is logged. */
#define RD_SLOW_MS 3000

/* The least limits of links: of one rank, or of all ranks. */
struct rd_link_limits {
	uint64_t piece_size; /* bytes of the longest message */
	bool maps; /* peers' memory can be mapped */
	/* Rails over which the channels to each peer spread, on the same host and on others;
	   RD_NO_RAILS: there are no such peers. */
	uint32_t near_rails, far_rails;
	uint32_t cores; /* that the ranks of this host share; of all ranks: rank 0's */
};

#define RD_NO_RAILS UINT32_MAX

#endif
