/*
 * The measuring loop of all programs in this directory. They differ only in the library behind four
 * calls.
 *
 * For each collective and size: warm-up; then batches of calls back to back, each batch long enough
 * for the clock. It lasts from the first rank's start to the last one's end. Before and after every
 * batch, ranks 0 and 1 measure the distance (bench/machine/line.h) and the pace (pace.h) of their
 * cores. The others sleep.
 *
 * Or each call by itself, after other work (bench/between.h), with a common start.
 */
#ifndef PEERS_MEASURE_H
#define PEERS_MEASURE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum peers_collective {
	PEERS_ALL_REDUCE,
	PEERS_REDUCE_SCATTER,
	PEERS_ALL_GATHER,
	PEERS_BROADCAST,
	PEERS_ALL_TO_ALL,
	PEERS_COLLECTIVES
};

/* One library under test, on one rank. A call that fails reports itself and ends the process. */
struct peers_library {
	int rank, size;
	int has_threads; /* that do its work: they need the other core, so ranks are not pinned */
	size_t most; /* bytes that a call can take; 0: any number. Larger sizes are left out */
	void (*barrier)(void);
	/* *value = the greatest over all ranks. */
	void (*greatest)(double *value);
	/* May be NULL: it has all. */
	int (*has)(enum peers_collective collective);
	/*
	 * float, sum, root 0. Count is that of one rank's part: of the whole for all_reduce and
	 * broadcast (in place in recv), of one rank's block for the others.
	 */
	void (*run)(enum peers_collective collective, const float *send, float *recv, size_t count);
	/* Page-aligned and plain, or the library's own. NULL: plain. */
	void *(*allocate)(size_t size);
	void (*release)(void *memory);
	/* Called before the first run() on these buffers and after the last; may be NULL. */
	void (*prepare)(enum peers_collective collective, float *send, float *recv, size_t count);
};

/*
 * The program's body: reads the command line (usage in measure.c), measures, and on rank 0 prints
 * lines `collective bytes line_ns pace_ns time_us line_ns pace_ns p90_us`. Returns the exit status;
 * 3 when a result was wrong.
 */
int peers_measure(const struct peers_library *library, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
