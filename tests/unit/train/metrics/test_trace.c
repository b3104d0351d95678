/* ctest label: threads */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "train/base/fail.h"
#include "train/metrics/trace.h"
#include "train/rounding.h"
#include "train/scratch.h"

#define SIZE 3
#define SKEW_S 7.0

TestSuite(trace, .init = scratch_make, .fini = scratch_remove, .timeout = 60);

/* Each rank's clock is ahead of the one before. */
static double skew_s;
double __real_clock_seconds(void);
double __wrap_clock_seconds(void);
double __wrap_clock_seconds(void)
{
	return __real_clock_seconds() + skew_s;
}

/* ---- The file ---- */

struct file {
	struct rd_json json;
	int events; /* the array of events */
};

static void read_trace(struct file *file)
{
	static char text[RD_JSON_SIZE_MAX];
	FILE *in = fopen(scratch_path("t.json"), "rb");
	cr_assert(in);
	size_t size = fread(text, 1, sizeof(text), in);
	fclose(in);
	cr_assert_eq(rd_json_parse(&file->json, "t.json", text, size), 0, "%s", rondo_last_error());
	const struct rd_json_value *values = file->json.values;
	file->events = 0;
	for (int i = 1; i < values[0].next && !file->events; i++)
		if (values[i].kind == RD_JSON_ARRAY)
			file->events = i;
	cr_assert(file->events);
}

/* The member of an event; NULL: it has none. */
static const char *member(const struct file *file, int event, const char *key)
{
	const struct rd_json_value *values = file->json.values;
	for (int at = event + 1; at < values[event].next; at = values[at + 1].next)
		if (!strcmp(values[at].text, key))
			return values[at + 1].text;
	return NULL;
}

/* The number of events of this name, phase and rank; the last is *found. */
static int find(const struct file *file, const char *name, const char *phase, int rank, int *found)
{
	const struct rd_json_value *values = file->json.values;
	int count = 0;
	for (int at = file->events + 1; at < values[file->events].next; at = values[at].next) {
		if (strcmp(member(file, at, "name"), name) ||
			strcmp(member(file, at, "ph"), phase) ||
			atoi(member(file, at, "pid")) != rank)
			continue;
		*found = at;
		count++;
	}
	return count;
}

static double number(
	const struct file *file, const char *name, const char *phase, int rank, const char *key)
{
	int at;
	cr_assert_eq(find(file, name, phase, rank, &at), 1, "%s of rank %d", name, rank);
	return atof(member(file, at, key));
}

/* ---- One rank ---- */

static struct train_world alone = { .size = 1 };

static struct trace *open_alone(void)
{
	struct trace *trace;
	cr_assert_eq(trace_create(&trace, &alone, scratch_path("t.json")), 0, "%s", failure());
	return trace;
}

static struct trace_summary close_alone(struct trace *trace)
{
	struct trace_summary summary;
	cr_assert_eq(trace_write(trace, &summary), 0, "%s", failure());
	trace_destroy(trace);
	return summary;
}

Test(trace, spans_and_moments_have_their_times)
{
	struct file file;
	struct trace *trace = open_alone();
	double start_s = __wrap_clock_seconds();
	trace_begin(trace, TRACE_COMPUTATION, "forward");
	trace_begin(trace, TRACE_DATA, "loader");
	trace_end(trace, TRACE_DATA);
	trace_end(trace, TRACE_COMPUTATION);
	trace_end(trace, TRACE_COMPUTATION);
	trace_span(trace, TRACE_COMMUNICATION, "bucket", 3, start_s, start_s + 0.25);
	trace_mark(trace, TRACE_COMMUNICATION, "ready: bucket", 4, __wrap_clock_seconds());
	struct trace_summary summary = close_alone(trace);
	cr_assert_eq(summary.events, 4);
	cr_assert_eq(summary.dropped, 0);
	read_trace(&file);
	double forward_us = number(&file, "forward", "X", 0, "ts");
	double bucket_us = number(&file, "bucket 3", "X", 0, "ts");
	/* Two times are rounded, and their difference is written with three decimal places. */
	cr_assert_float_eq(number(&file, "bucket 3", "X", 0, "dur"), 250000,
		1e6 * ROUNDING_OF_DOUBLES(2, start_s + 0.25) + 0.0006);
	cr_assert_eq(number(&file, "bucket 3", "X", 0, "tid"), TRACE_COMMUNICATION);
	cr_assert_eq(number(&file, "loader", "X", 0, "tid"), TRACE_DATA);
	cr_assert_geq(forward_us, bucket_us);
	cr_assert_geq(number(&file, "loader", "X", 0, "ts"), forward_us);
	cr_assert_geq(
		number(&file, "forward", "X", 0, "dur"), number(&file, "loader", "X", 0, "dur"));
	cr_assert_geq(number(&file, "ready: bucket 4", "i", 0, "ts"), forward_us);
	rd_json_finish(&file.json);
	cr_assert_eq(scratch_count(), 1, "a draft is left");
}

Test(trace, a_full_ring_drops_the_oldest_events_and_counts_them)
{
	struct file file;
	int at;
	struct trace *trace = open_alone();
	for (int i = 0; i < TRACE_EVENTS + 10; i++)
		trace_mark(trace, TRACE_DATA, "event", i, __wrap_clock_seconds());
	struct trace_summary summary = close_alone(trace);
	cr_assert_eq(summary.events, TRACE_EVENTS);
	cr_assert_eq(summary.dropped, 10);
	read_trace(&file);
	cr_assert_eq(find(&file, "event 9", "i", 0, &at), 0);
	cr_assert_eq(find(&file, "event 10", "i", 0, &at), 1);
	rd_json_finish(&file.json);
}

static void *mark_often(void *trace)
{
	for (int i = 0; i < 1000; i++)
		trace_mark(trace, TRACE_DATA, "event", TRACE_NO_NUMBER, __wrap_clock_seconds());
	return NULL;
}

Test(trace, threads_record_at_the_same_time)
{
	pthread_t threads[4];
	struct trace *trace = open_alone();
	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, mark_often, trace), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(close_alone(trace).events, 4000);
}

Test(trace, one_that_is_off_records_nothing)
{
	struct trace *trace;
	cr_assert_eq(trace_create(&trace, &alone, NULL), 0);
	cr_assert_null(trace);
	trace_begin(trace, TRACE_DATA, "event");
	trace_end(trace, TRACE_DATA);
	trace_mark(trace, TRACE_DATA, "event", 1, __wrap_clock_seconds());
	trace_span(trace, TRACE_DATA, "event", 1, 0, 1);
	trace_destroy(trace);
}

Test(trace, a_file_that_cannot_be_written_fails_at_the_start)
{
	struct trace *trace;
	cr_assert_eq(trace_create(&trace, &alone, scratch_path("no/t.json")), 1);
	cr_assert(strstr(failure(), "no/t.json: cannot write: No such file"), "%s", failure());
}

/* ---- Several ranks ---- */

/* A moment before a barrier, and one behind it. */
static int trace_barrier(const struct train_world *world)
{
	struct trace *trace;
	struct trace_summary summary;
	skew_s = SKEW_S * world->rank;
	int err = trace_create(&trace, world, scratch_path("t.json"));
	if (err)
		return err;
	trace_mark(trace, TRACE_DATA, "before", TRACE_NO_NUMBER, __wrap_clock_seconds());
	err = world_barrier(world);
	trace_mark(trace, TRACE_DATA, "behind", TRACE_NO_NUMBER, __wrap_clock_seconds());
	if (!err)
		err = trace_write(trace, &summary);
	trace_destroy(trace);
	if (!err && !world->rank && (summary.events != 2 * SIZE || !(summary.error_s < 0.1)))
		err = fail("%d events, error %g s", (int)summary.events, summary.error_s);
	return err;
}

static int run_rank(void *argument)
{
	struct train_world world;
	(void)argument;
	int err = world_open(&world, -1);
	if (!err)
		err = world_close(&world, trace_barrier(&world));
	if (err)
		fprintf(stderr, "%s\n", failure());
	return err != 0;
}

Test(trace, events_of_all_ranks_have_times_of_one_clock)
{
	struct file file;
	cr_assert_eq(rondo_spawn(SIZE, run_rank, NULL), 0);
	read_trace(&file);
	/* The clocks' error bounds the disorder; the ranks have checked that it is below 0.1 s. */
	for (int first = 0; first < SIZE; first++)
		for (int then = 0; then < SIZE; then++)
			cr_assert_gt(number(&file, "behind", "i", then, "ts") + 2e5,
				number(&file, "before", "i", first, "ts"), "ranks %d and %d", first,
				then);
	for (int rank = 0; rank < SIZE; rank++)
		cr_assert_lt(number(&file, "behind", "i", rank, "ts"), 0.5 * SKEW_S * 1e6);
	rd_json_finish(&file.json);
}
