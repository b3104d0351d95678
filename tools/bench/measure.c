#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "api/graph.h"
#include "base/clock.h"
#include "mirror.h"
#include "percentile.h"
#include "values.h"

/* The least time of a batch: clock and barrier cost little beside it. */
#define BATCH_NS 1e6
#define GROWTH_MAX 1000
/* The same for prepared calls: enough of them for a 90th percentile. */
#define PREPARED_NS 2e8
#define PREPARED_GROWTH_MAX 50
/* Parts of a batch on a device's stream; their median counts. */
#define PARTS 9

static int issue(const struct bench_call *call, long iterations)
{
	struct bench_call there = bench_mirror_call(call->mirror, call);
	int err = 0;

	for (long i = 0; i < iterations && !err; i++)
		err = call->graph ? rd_graph_launch(call->graph) : call->collective->run(&there);
	return err;
}

static int run_back_to_back(const struct bench_call *call, long iterations)
{
	int err = issue(call, iterations);

	return !err && call->stream ? rondo_stream_synchronize(call->stream) : err;
}

/* From now on an iteration is a launch of a graph of these calls. The first launch takes the graph
   to the device, and is made here. */
static int capture(struct bench_call *call, long calls)
{
	struct rd_graph *graph;
	int err = rd_graph_begin(call->stream), ended;

	if (err)
		return err;
	err = issue(call, calls);
	ended = rd_graph_end(call->stream, &graph);
	call->graph = graph;
	if (!err)
		err = ended;
	return err ? err : run_back_to_back(call, 1);
}

static void drop_graph(struct bench_call *call)
{
	rd_graph_destroy(call->graph);
	call->graph = NULL;
}

/* The same, with the time of each iteration in us in each_us. */
static int run_one_by_one(const struct bench_call *call, long iterations, double *each_us)
{
	int64_t before = rd_clock_ns();

	for (long i = 0; i < iterations; i++) {
		int err = run_back_to_back(call, 1);
		if (err)
			return err;
		int64_t after = rd_clock_ns();
		each_us[i] = (double)(after - before) / 1e3;
		before = after;
	}
	return 0;
}

/* Queues the parts back to back, an event between each two. */
static int issue_parts(
	const struct bench_call *call, long iterations, rondo_event *const *events, int parts)
{
	int err = rondo_event_record(events[0], call->stream);

	for (int i = 0; i < parts && !err; i++) {
		err = issue(call, iterations * (i + 1) / parts - iterations * i / parts);
		if (!err)
			err = rondo_event_record(events[i + 1], call->stream);
	}
	return err ? err : rondo_stream_synchronize(call->stream);
}

/* The time of an iteration in each part, in us. */
static int read_parts(long iterations, rondo_event *const *events, int parts, double *each_us)
{
	int err = 0;

	for (int i = 0; i < parts && !err; i++) {
		err = rondo_event_elapsed(events[i], events[i + 1], &each_us[i]);
		each_us[i] /= (double)(iterations * (i + 1) / parts - iterations * i / parts);
	}
	return err;
}

/* By the device's clock: the median of parts, or of each iteration. */
static int run_by_events(
	const struct bench_call *call, long iterations, double *each_us, double *elapsed_ns)
{
	int parts = each_us || iterations < PARTS ? (int)iterations : PARTS, err = 0;
	rondo_event **events = calloc((size_t)parts + 1, sizeof(rondo_event *));
	double *sorted = calloc((size_t)parts, sizeof(*sorted));

	if (!events || !sorted)
		err = RONDO_MEMORY;
	for (int i = 0; i <= parts && !err; i++)
		err = rondo_event_create(&events[i], call->mirror->gpu);
	if (!err)
		err = issue_parts(call, iterations, events, parts);
	if (!err)
		err = read_parts(iterations, events, parts, sorted);
	if (!err && each_us)
		memcpy(each_us, sorted, (size_t)parts * sizeof(*sorted));
	if (!err) {
		bench_sort(sorted, (size_t)parts);
		*elapsed_ns =
			bench_percentile(sorted, (size_t)parts, 50) * (double)iterations * 1e3;
	}
	for (int i = 0; events && i <= parts; i++)
		rondo_event_destroy(events[i]);
	free(events);
	free(sorted);
	return err;
}

/* The value that -a selects, on every rank. */
static int agree(rondo_comm *comm, enum bench_average average, double *values, size_t count)
{
	static const rondo_op ops[] = {
		[BENCH_AVERAGE] = RONDO_SUM,
		[BENCH_FASTEST] = RONDO_MIN,
		[BENCH_SLOWEST] = RONDO_MAX,
	};
	int err = average == BENCH_RANK0 ? bench_agree_on_first(comm, values, count)
					 : bench_agree(comm, values, count, ops[average]);

	for (size_t i = 0; i < count && average == BENCH_AVERAGE; i++)
		values[i] /= rondo_comm_size(comm);
	return err;
}

/*
 * Each call by itself, prepared: its time, in us, from the start of the rank that came last. The
 * batch's own time includes the preparation. Ranks agree on the starts when all calls are over, for
 * that takes calls of the library.
 */
static int run_prepared(
	const struct bench_call *call, long iterations, double *each_us, double *elapsed_ns)
{
	const struct bench_touched touched = bench_collective_touched(call);
	double *starts = calloc((size_t)iterations, sizeof(*starts));
	int64_t begin = rd_clock_ns();
	int err = starts ? 0 : RONDO_MEMORY;

	for (long i = 0; i < iterations && !err; i++) {
		int64_t start = bench_start_await(call->start, &touched);
		if (start < 0)
			err = RONDO_TIMEOUT;
		else
			err = run_back_to_back(call, 1);
		each_us[i] = (double)rd_clock_ns();
		starts[i] = (double)start;
		bench_start_read(call->start, &touched);
	}
	*elapsed_ns = (double)(rd_clock_ns() - begin);
	if (!err)
		err = agree(call->comm, BENCH_SLOWEST, starts, (size_t)iterations);
	for (long i = 0; i < iterations && !err; i++)
		each_us[i] = (each_us[i] - starts[i]) / 1e3;
	free(starts);
	return err;
}

static int timed_batch(
	const struct bench_call *call, long iterations, double *each_us, double *elapsed_ns)
{
	int err = rondo_barrier(call->comm, NULL);
	if (err)
		return err;
	if (call->stream && call->mirror && call->mirror->size > 0)
		return run_by_events(call, iterations, each_us, elapsed_ns);
	int64_t start = rd_clock_ns();
	err = each_us ? run_one_by_one(call, iterations, each_us)
		      : run_back_to_back(call, iterations);
	*elapsed_ns = (double)(rd_clock_ns() - start);
	return err;
}

static int summarise(const struct bench_call *call, const struct bench_options *options,
	double *each_us, struct bench_timing *timing)
{
	size_t count = (size_t)timing->iterations;
	int err = agree(call->comm, options->average, each_us, count);

	if (err)
		return err;
	bench_sort(each_us, count);
	timing->p50_us = bench_percentile(each_us, count, 50);
	timing->p90_us = bench_percentile(each_us, count, 90);
	timing->p99_us = bench_percentile(each_us, count, 99);
	timing->max_us = each_us[count - 1];
	return 0;
}

/* Finds the iterations of a batch of sufficient length, the same number on every rank. */
static int choose_iterations(const struct bench_call *call, const struct bench_options *options,
	long *iterations, double *elapsed_ns)
{
	*iterations = options->iterations;
	int err = timed_batch(call, *iterations, NULL, elapsed_ns);
	if (err)
		return err;
	double longest = *elapsed_ns;
	err = agree(call->comm, BENCH_SLOWEST, &longest, 1);
	if (err || longest >= BATCH_NS)
		return err;
	*iterations *= (long)fmin(ceil(1.2 * BATCH_NS / fmax(longest, 1)), GROWTH_MAX);
	*elapsed_ns = 0;
	return 0;
}

static int time_it(const struct bench_call *call, const struct bench_options *options,
	struct bench_timing *timing)
{
	double elapsed_ns, *each_us = NULL;
	int err = run_back_to_back(call, options->warmup);

	if (!err)
		err = choose_iterations(call, options, &timing->iterations, &elapsed_ns);
	if (err)
		return err;
	if (options->percentiles) {
		each_us = calloc((size_t)timing->iterations, sizeof(*each_us));
		if (!each_us)
			return RONDO_MEMORY;
	}
	/* Reuses the batch that found the number, unless more or single times are needed. */
	if (each_us || elapsed_ns == 0)
		err = timed_batch(call, timing->iterations, each_us, &elapsed_ns);
	if (!err)
		err = agree(call->comm, options->average, &elapsed_ns, 1);
	if (!err && each_us)
		err = summarise(call, options, each_us, timing);
	free(each_us);
	timing->time_us = elapsed_ns / (double)timing->iterations / 1e3;
	return err;
}

static int time_prepared(const struct bench_call *call, const struct bench_options *options,
	struct bench_timing *timing)
{
	size_t most = (size_t)options->iterations * PREPARED_GROWTH_MAX;
	double elapsed_ns, *each_us = calloc(most, sizeof(*each_us));
	int err = each_us ? run_back_to_back(call, options->warmup) : RONDO_MEMORY;

	timing->iterations = options->iterations;
	if (!err)
		err = run_prepared(call, timing->iterations, each_us, &elapsed_ns);
	if (!err)
		err = agree(call->comm, BENCH_SLOWEST, &elapsed_ns, 1);
	if (!err && elapsed_ns < PREPARED_NS) {
		timing->iterations *=
			(long)fmin(ceil(PREPARED_NS / fmax(elapsed_ns, 1)), PREPARED_GROWTH_MAX);
		err = run_prepared(call, timing->iterations, each_us, &elapsed_ns);
	}
	if (!err)
		err = summarise(call, options, each_us, timing);
	timing->time_us = timing->p50_us;
	free(each_us);
	return err;
}

static int time_graph(
	struct bench_call *call, const struct bench_options *options, struct bench_timing *timing)
{
	double elapsed_ns = 0;
	int err = run_back_to_back(call, options->warmup);

	if (!err)
		err = capture(call, options->iterations);
	if (!err)
		err = timed_batch(call, options->launches, NULL, &elapsed_ns);
	if (!err)
		err = agree(call->comm, options->average, &elapsed_ns, 1);
	drop_graph(call);
	timing->iterations = (long)options->iterations * options->launches;
	timing->time_us = elapsed_ns / (double)timing->iterations / 1e3;
	return err;
}

/* The result of an earlier call must not pass for this one's. */
static void overwrite_result(const struct bench_call *call)
{
	size_t count = bench_collective_recv_count(call->collective, call->count, call->size);
	memset(call->recv, 0xa5, count * rondo_type_size(call->type));
}

static int check_round(struct bench_call *call, int round, uint64_t *wrong)
{
	call->seed = 1 + (unsigned)round;
	overwrite_result(call);
	bench_collective_fill(call);
	int err = bench_mirror_upload(call->mirror);
	if (!err)
		err = run_back_to_back(call, 1);
	if (!err)
		err = bench_mirror_download(call->mirror);
	if (!err)
		*wrong += bench_collective_wrong(call);
	return err;
}

/* Each round launches the same graph, where there is one. */
static int check_it(
	struct bench_call *call, const struct bench_options *options, struct bench_timing *timing)
{
	uint64_t wrong = 0;
	int err = options->launches && options->checks ? capture(call, 1) : 0;

	for (int round = 0; round < options->checks && !err; round++)
		err = check_round(call, round, &wrong);
	drop_graph(call);
	if (err)
		return err;
	double all = (double)wrong; /* exact up to 2^53 elements */
	err = bench_agree(call->comm, &all, 1, RONDO_SUM);
	timing->checked = options->checks > 0;
	timing->wrong = (uint64_t)all;
	return err;
}

static int measure_one(struct bench_call *call, const struct bench_options *options, bool in_place,
	struct bench_row *row, struct bench_timing *timing)
{
	call->seed = 0;
	if (in_place && call->collective->reduces)
		bench_values_fill_neutral(call->type, call->op, call->send,
			bench_collective_send_count(call->collective, call->count, call->size));
	else
		bench_collective_fill(call);
	int err = bench_mirror_upload(call->mirror);
	if (!err && options->launches)
		err = time_graph(call, options, timing);
	else if (!err)
		err = call->start ? time_prepared(call, options, timing)
				  : time_it(call, options, timing);
	if (!err)
		err = check_it(call, options, timing);
	timing->ran = true;
	timing->algbw = (double)row->size / timing->time_us / 1e3;
	timing->busbw = timing->algbw * bench_collective_factor(call->collective, call->size);
	return err;
}

int bench_measure(const struct bench_options *options, rondo_comm *comm, rondo_stream *stream,
	void *send, void *recv, const struct bench_mirror *mirror, struct bench_start *start,
	struct bench_row *row)
{
	struct bench_call call = {
		.collective = row->collective,
		.comm = comm,
		.stream = stream,
		.send = send,
		.recv = recv,
		.mirror = mirror,
		.start = start,
		.count = row->count,
		.type = row->type,
		.op = row->op,
		.root = row->root,
		.rank = rondo_comm_rank(comm),
		.size = rondo_comm_size(comm),
	};
	int err = measure_one(&call, options, false, row, &row->out_of_place);

	if (err || !row->collective->in_place)
		return err;
	bench_collective_place(&call, recv);
	return measure_one(&call, options, true, row, &row->in_place);
}
