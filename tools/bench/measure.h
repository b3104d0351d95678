/*
 * Times one collective at one size on all ranks, as nccl-tests does: warm-up, a barrier, then
 * iterations back to back between two readings of each rank's clock. Then the buffers are filled
 * again, and the results of one more call are compared, element by element.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "options.h"

struct bench_timing {
	bool ran; /* false: the collective cannot run this way (in place) */
	double time_us; /* an iteration, of the rank that -a names; of prepared ones, the median */
	double algbw, busbw; /* GB/s, 1e9 */
	double p50_us, p90_us, p99_us, max_us; /* with -I; of single iterations */
	long iterations;
	bool checked;
	uint64_t wrong; /* elements, over all ranks */
};

struct bench_row {
	const struct bench_collective *collective;
	size_t size; /* bytes */
	size_t count;
	rondo_type type;
	rondo_op op;
	int root; /* -1: has none */
	char algorithm[32]; /* the library's choice; "": unknown */
	struct bench_timing out_of_place, in_place;
};

/*
 * Measures `row`: the caller has set its first fields, and the timings are filled in, the same on
 * every rank. `send` and `recv` hold row->size bytes; mirror (may be NULL) has them on a device, to
 * be measured there. With start (may be NULL) each call is prepared, and measured by itself.
 * Collective. Returns a rondo_error; the reason is in rondo_last_error().
 */
int bench_measure(const struct bench_options *options, rondo_comm *comm, rondo_stream *stream,
	void *send, void *recv, const struct bench_mirror *mirror, struct bench_start *start,
	struct bench_row *row);

#endif
