/*
 * The simulation, as all kinds of worlds have it: virtual time, the queue of events, faults, and
 * the networks that they cut. One world runs at a time.
 */
#ifndef SIMULATION_SIM_H
#define SIMULATION_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "check/event_queue.h"
#include "draw.h"
#include "faults.h"

#define MS UINT64_C(1000000)
#define NEVER UINT64_MAX
#define SIM_RANKS_MAX 8

struct sim {
	uint64_t now_ns, events; /* so far */
	struct rd_event_queue queue;
	struct draw run;
	struct faults faults;
	bool fired[FAULTS_MAX];
	uint64_t struck_ns; /* when the latest fault struck */
	struct {
		unsigned side; /* bits of ranks */
		bool rejects; /* a router resets and refuses; else nothing passes */
		uint64_t from_ns, until_ns;
	} cuts[FAULTS_MAX];
	int cut_count;
	unsigned vanished; /* bits of ranks whose host is gone */
	int hosts[SIM_RANKS_MAX]; /* by rank */
	bool parts_hosts; /* partitions also part ranks of one host */
	bool trace;
	char failure[900]; /* of a property; "": none */
};

extern struct sim sim;

/* A world of ranks on hosts begins. run: the seed's random numbers. */
void sim_begin(struct draw run, int size, int hosts, const struct faults *faults, bool trace);

/* At NEVER none is added. */
void sim_event(int kind, int subject, uint64_t at_ns);
/* From 0 to most_ns. */
uint64_t sim_delay(uint64_t most_ns);
/* The time in this many ms; 0: NEVER. */
uint64_t sim_until(int ms);
/* A bound on the run: each delay that the faults bring adds to it. */
uint64_t sim_end_of_time(uint64_t ms);

/* The next fault that strikes now, which the trace has. NULL: none. */
const struct fault *sim_strike(void);
/* These ranks and the others are cut off from each other. ms: as of sim_until(). */
void sim_add_cut(unsigned side, int ms, bool rejects);
/* Until when these two cannot reach each other; 0: they can. */
uint64_t sim_cut(int a, int b);
/* Whether they could not for this long. */
bool sim_silent(int a, int b, int ms);
/* Whether a router between their hosts resets and refuses. */
bool sim_rejects(int a, int b);

/* A line of the trace. rank: whose it is; -1: of none. */
void sim_trace(int rank, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A property does not hold. The first stands. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The ranks that a reason names, as bits. *first: the first one; -1: none. */
unsigned named_ranks(const char *text, int *first);

#endif
