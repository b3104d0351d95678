/*
 * The simulator: N ranks in one thread, with virtual time. It runs the real executor over links
 * whose messages arrive after delays drawn from a seed, and can kill a rank at a chosen moment. The
 * same seed gives the same run, to the byte.
 *
 * Plans of direct access reach the memory of the other ranks as it is. Once a rank is done, its
 * memory is taken out of reach: what others still read there is noise, and what they write is lost.
 */
#ifndef RD_SIMULATOR_H
#define RD_SIMULATOR_H

#include <stdbool.h>

#include "exec/exec.h"

struct rd_simulation {
	int size;
	int channels;
	size_t piece_size;
	int slots;            /* messages that a link direction holds; plans need two */
	bool zero_copy;       /* links offer send(), and read the memory as late as possible: at
	                         arrival; and land messages where the receiver wants them */
	uint64_t seed;
	uint64_t latency_ns;  /* least time a message takes */
	uint64_t jitter_ns;   /* more, drawn for each message and each rank's start; a link keeps
	                         its order */
	double byte_ns;       /* time a byte occupies a link direction */
	int dead_rank;        /* -1: none dies */
	uint64_t death_ns;    /* when it stops for good; links to it fail one latency later */
};

struct rd_simulated {
	uint64_t end_ns;      /* virtual time when the last rank was done */
	uint64_t messages, bytes;
	int *errors;          /* [size]: each rank's result: 0 or the error its exec returned */
	int *culprits;        /* [size]: the peer it names, or -1 */
};

/*
 * Runs one call on every rank: calls[rank], plans[rank]. Returns 0 when every rank is done or
 * failed, or RONDO_TIMEOUT with a reason (who waits for whom) when nothing can ever move again; that
 * is then also the error of each rank that was waiting. The dead rank's own is RONDO_DIED, unless it
 * was done. A rank that fails closes its links, so that those who wait for it end as well.
 * `simulated` must be finished in any case.
 */
int rd_simulate(const struct rd_simulation *simulation, const struct rd_plan *const *plans,
	const struct rd_call *calls, struct rd_simulated *simulated);
void rd_simulated_finish(struct rd_simulated *simulated);

#endif
