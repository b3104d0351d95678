/*
 * Plans in virtual time, without bytes. Each step occupies its rank for its cost, as in a replay
 * (tuner/replay.h), with which the times agree where nothing is shared, slow or dead. Every rank
 * has a core of its own.
 *
 * Over a network, a message occupies each link of its route for its bytes' time. A link serves
 * messages as they come, one after the other. A message goes on to the next link after the
 * latency, while its last bytes still come (cut-through). Light links (routes.h) delay nothing.
 *
 * Times are picoseconds: a short message takes less than a nanosecond on a link.
 */
#ifndef PLAN_SIMULATE_H
#define PLAN_SIMULATE_H

#include "network.h"
#include "packed.h"
#include "tuner/step_cost.h"

#define SIMULATION_PS_MAX (INT64_MAX / 8)

/* Sees a step's work. `step` counts the rank's steps without FLUSH. */
typedef void simulation_watch(
	void *context, int rank, uint64_t piece, int step, int64_t begin_ps, int64_t end_ps);

/* The plans, their machine and its faults. */
struct simulation_setup {
	const struct packed *packed;
	const struct rd_step_cost *step_cost;
	uint64_t pieces; /* of the call */
	const int *hosts; /* [ranks], as the network counts them */
	const struct network *network; /* NULL: the costs' links, which nobody shares */
	const int *slow; /* [ranks]: thousandths of a step's cost; NULL: 1000 for all */
	const int64_t *starts_ps; /* [ranks]: when each begins; NULL: all at 0 */
	const int64_t *deaths_ps; /* [ranks]; NULL: none, as is INT64_MAX */
	int jitter; /* thousandths: a step takes up to so much more, drawn evenly */
	uint64_t seed;
	simulation_watch *watch; /* NULL: none */
	void *watch_context;
};

enum simulated_end { SIMULATED_ENDED, SIMULATED_DIED, SIMULATED_WAITS };

struct simulated_rank {
	enum simulated_end end;
	int64_t end_ps; /* when it ended, died, or began to wait for ever */
	int64_t work_ps;
	int waits_for; /* the rank whose message never comes; -1: none */
};

struct simulated_link {
	int64_t busy_ps;
	uint64_t messages, bytes;
};

struct simulation {
	int rank_count, link_count;
	struct simulated_rank *ranks;
	struct simulated_link *links;
	int64_t end_ps; /* of the last rank that ended */
	bool stuck; /* some rank waits for ever */
};

/* Returns 0 or an error with its reason. The same setup has the same result. */
int simulation_run(struct simulation *simulation, const struct simulation_setup *setup);
void simulation_finish(struct simulation *simulation);

#endif
