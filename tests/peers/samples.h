/*
 * The samples of a comparison, and what they come to: for each point (transport, ranks, collective,
 * size) and program the median time.
 *
 * A sample knows how far the two cores were apart, and how fast they were, before and after it.
 * Virtual machines move their cores about, and share them, so programs are compared where the
 * machine was alike: of each point's samples those count that lie closest to the distance and pace
 * at which most programs were met, and during which neither changed.
 */
#ifndef PEERS_SAMPLES_H
#define PEERS_SAMPLES_H

#include <stdbool.h>
#include <stdio.h>

enum program { RONDO, RONDO_REGISTERED, OPENMPI, MPICH, GLOO, PROGRAMS };

struct sample {
	/* The means of before and after: of a cache line there and back, and of the cores' pace. */
	double line_ns, pace_ns;
	bool steady; /* before and after differ by less than half, in both */
	double time_us;
};

struct point {
	char transport[16], collective[32];
	int ranks;
	size_t size; /* bytes */
	struct sample *samples[PROGRAMS];
	size_t counts[PROGRAMS];

	/* What they come to. */
	double time_us[PROGRAMS]; /* NAN: none */
	double line_ns, pace_ns; /* the distance and pace at which they were compared */
	bool paired[PROGRAMS]; /* false: no steady sample there; the median of all then */
};

struct comparison {
	struct point *points; /* in the order of their first samples */
	size_t count;
};

/*
 * Reads lines `transport ranks program collective bytes line_ns pace_ns time_us line_ns pace_ns` to
 * the end. False, having said why on standard error, when a line is none or memory is short.
 */
bool comparison_read(struct comparison *comparison, FILE *in);
void comparison_finish(struct comparison *comparison);

const char *program_name(enum program program); /* as in the lines: "openmpi" */
const char *program_title(enum program program); /* as people read it: "Open MPI" */

/* The fastest of the peers; -1 when none was measured. */
int point_best_peer(const struct point *point);

#endif
