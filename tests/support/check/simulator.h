/*
 * The simulator: N ranks in one thread, with virtual time. It runs the real executor over links
 * whose messages arrive after delays drawn from a seed. It can kill a rank at a chosen moment. The
 * same seed gives the same run, to the byte.
 *
 * Plans of direct access use the memory of the other ranks itself. Once a rank is done, the
 * simulator withdraws its memory: later reads get noise, and later writes are lost.
 */
#ifndef RD_SIMULATOR_H
#define RD_SIMULATOR_H

#include <stdbool.h>

#include "exec/exec.h"

struct rd_simulation {
	int size;
	int channels;
	size_t piece_size;
	int slots; /* messages that a link direction holds; plans need two */
	/* links have send(), read the memory as late as possible (at arrival), and land messages
	   at the receiver's address */
	bool zero_copy;
	bool repeated; /* the call repeats one: short steps run first (exec/short.h) */
	/* 1 is set in it: messages are written past the caches. 2 is: where the call repeats one,
	   links copy all messages, and need the sender until they arrive (link->unsent) */
	uint64_t seed;
	uint64_t latency_ns; /* least time a message takes */
	/* more time, drawn for each message and each rank's start; a link keeps its order */
	uint64_t jitter_ns;
	double byte_ns; /* time a byte occupies a link direction */
	int dead_rank; /* -1: none dies */
	uint64_t death_ns; /* when it stops for good; its links fail one latency later */
};

struct rd_simulated {
	uint64_t end_ns; /* virtual time when the last rank was done */
	uint64_t messages, bytes;
	int *errors; /* [size]: each rank's result: 0 or the error of its exec */
	int *culprits; /* [size]: the peer it names, or -1 */
};

/*
 * Runs one call on every rank: calls[rank], plans[rank]. Returns 0 when every rank is done or has
 * failed.
 *
 * Returns RONDO_TIMEOUT when nothing can ever move again; the reason names each rank that waits.
 * Each rank that was waiting then has that error too. The dead rank's own error is RONDO_DIED,
 * unless it was done. A rank that fails closes its links, so that the ranks that wait for it end
 * as well. rd_simulated_finish() must follow in any case.
 */
int rd_simulate(const struct rd_simulation *simulation, const struct rd_plan *const *plans,
	const struct rd_call *calls, struct rd_simulated *simulated);
void rd_simulated_finish(struct rd_simulated *simulated);

#endif
