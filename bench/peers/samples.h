/*
 * The samples of a comparison, and their result: the median time for each point (transport, ranks,
 * collective, size) and program.
 *
 * A sample holds the distance of the two cores, and their pace, before and after it. Virtual
 * machines move and share their cores, so programs are compared in equal states. Those samples of a
 * point count whose distance and pace are closest to where most programs were measured, and did not
 * change meanwhile.
 */
#ifndef PEERS_SAMPLES_H
#define PEERS_SAMPLES_H

#include <stdbool.h>
#include <stdio.h>

/* The peers are those from OPENMPI to GLOO_POLLING. Those after them are bare loops, the floors: of
   shm, and SOCKETS of tcp. */
enum program {
	RONDO,
	RONDO_REGISTERED,
	OPENMPI,
	OPENMPI_SM,
	MPICH,
	GLOO,
	GLOO_POLLING,
	LINE,
	SLOTS,
	SINGLE_COPY,
	SOCKETS,
	PROGRAMS
};

struct sample {
	/* Means of before and after: the round trip of a cache line, and the cores' pace. */
	double line_ns, pace_ns;
	bool steady; /* before and after differ by less than half, in both */
	double time_us, p90_us; /* p90_us: NAN where calls were not measured one by one */
};

struct point {
	char transport[16], collective[32];
	int ranks;
	size_t size; /* bytes */
	struct sample *samples[PROGRAMS];
	size_t counts[PROGRAMS];

	/* Their result. */
	double time_us[PROGRAMS]; /* NAN: none */
	double p90_us[PROGRAMS]; /* the median of the samples'; NAN: none */
	double line_ns, pace_ns; /* the distance and pace at which they were compared */
	bool paired[PROGRAMS]; /* false: no steady sample there; the median of all then */
};

struct comparison {
	struct point *points; /* in the order of their first samples */
	size_t count;
};

/*
 * Reads lines `transport ranks program collective bytes line_ns pace_ns time_us line_ns pace_ns
 * p90_us` to the end. False, with a line on stderr, for an invalid line or without memory.
 */
bool comparison_read(struct comparison *comparison, FILE *in);
void comparison_finish(struct comparison *comparison);

const char *program_name(enum program program); /* as in the lines: "openmpi" */
const char *program_title(enum program program); /* as people read it: "Open MPI" */

/* The fastest of the peers; -1 when none was measured. */
int point_best_peer(const struct point *point);

#endif
