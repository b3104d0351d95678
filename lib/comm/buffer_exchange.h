/*
 * Buffer exchanges: ranks agree whether a call may address all buffers directly. It needs links
 * that can map memory, on all ranks, and a call that is large enough. The call then begins with an
 * exchange of cards, one cache line from each rank to each. A card holds the places of that rank's
 * buffers in memory from rondo_mem_alloc(), or marks them as elsewhere. All ranks therefore decide
 * alike.
 */
#ifndef RD_BUFFER_EXCHANGE_H
#define RD_BUFFER_EXCHANGE_H

#include "exec/short.h"
#include "device/region.h"
#include "plan/peer_set.h"

struct rd_prepared;
struct rondo_comm;

/* A card: where a rank's buffers are. Offsets are bytes; id 0: in no region. One cache line. */
struct rd_buffers {
	uint64_t in_id, in_offset;
	uint64_t out_id, out_offset;
};

/* The region of a peer that was mapped last: calls use the same few again and again. */
struct rd_peer_region {
	uint64_t id;
	char *base;
	size_t size;
};

struct rd_buffer_exchange {
	struct rd_plan *plan;
	const struct rd_plan *plans[RD_CHANNELS_MAX]; /* the same plan on every channel */
	struct rd_peer_set peers, all_peers; /* of the plan; all other ranks */
	bool meshed; /* links to all are open. The same on every rank */
	uint64_t *send_marks;
	struct rd_exec exec;
	struct rd_short brief; /* the same exchange again */
	struct rd_short_step steps[RD_SHORT_STEPS]; /* of it, if it has many */
	struct rd_buffers mine, *all, *mapped; /* [size]: as mapped: when the peers' were */
	const struct rd_prepared *served; /* the call of the last exchange; NULL: not mapped */
	struct rd_peer_buffers *peer_buffers; /* [size] */
	struct rd_peer_region *ins, *outs; /* [size] */

	/* For calls of each size, by the power of two of their bytes: exchanges in a row that found
	   a buffer outside regions, RD_EXCHANGE_TRIES at most, and the number of the call that made
	   the last one. The same on every rank. `power`: of the last exchange. */
	uint8_t failed_in_a_row[64], power;
	uint32_t last[64];

	uint64_t version; /* of the process's regions, when `in` and `out` were found */
	struct rd_region in, out; /* our own, used last; id 0: none */
	uint64_t *offered; /* ids that were offered to peers */
	int offered_count, offered_capacity;
};

/* Allocates what an exchange needs, once. Call after rd_connect(), where comm->maps is set. Returns
   0 or an error. */
int rd_buffer_exchange_make(struct rondo_comm *comm);
void rd_buffer_exchange_destroy(struct rondo_comm *comm);

/* *pays: direct access gains enough in a call like this to pay for a buffer exchange. The same on
   every rank. Returns 0 or an error. */
int rd_buffer_exchange_pays(struct rondo_comm *comm, const struct rd_call *call, bool *pays);
/* Returns whether this call, of this number, begins with an exchange, if one pays for it: not each
   does after RD_EXCHANGE_TRIES failed ones in a row, of its size. The same on every rank. */
bool rd_buffer_exchange_is_due(
	const struct rondo_comm *comm, const struct rd_call *call, uint32_t number);

/* Returns whether the next call, which equals the last one of `last`, may begin with the last
   exchange again. */
bool rd_buffer_exchange_repeats(const struct rondo_comm *comm, const struct rd_prepared *last);
/* Makes the last exchange again. True: all buffers lie where they did. Else it is not done, or has
   found others: the call continues in exchange->exec. */
bool rd_buffer_exchange_again(struct rondo_comm *comm, uint32_t number);

/* With links to exchange->peers open: begins the exchange and returns its exec, which the caller
   runs to its end. */
struct rd_exec *rd_buffer_exchange_begin(struct rondo_comm *comm, const struct rd_call *call);

/* After an exchange: all buffers lie in regions, and links to exchange->all_peers have to be
   opened. Then the exchange begins again. */
bool rd_buffer_exchange_needs_all(const struct rondo_comm *comm, const struct rd_call *call);
/* They are open. */
void rd_buffer_exchange_has_all(struct rondo_comm *comm);
/* Ends the exchange. *peers_mapped: all buffers can be addressed, the same on every rank.
   Returns 0 or an error. */
int rd_buffer_exchange_end(struct rondo_comm *comm, const struct rd_call *call, bool *peers_mapped);

#endif
