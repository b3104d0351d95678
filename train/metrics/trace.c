#include "train/metrics/trace.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/clock.h"
#include "train/base/draft.h"
#include "train/base/fail.h"

#define BARRIERS 16
#define MARK (-1.0) /* the duration of a moment */

struct event {
	const char *name;
	double start_s, duration_s; /* or MARK */
	int number;
	enum trace_track track;
};

/* This rank's clock less rank 0's, at a time of this rank's clock. */
struct offset {
	double at_s, offset_s, error_s;
};

struct open_span {
	const char *name; /* NULL: none is open */
	double start_s;
};

struct trace {
	const struct train_world *world;
	const char *path;
	struct event *events; /* [TRACE_EVENTS], a ring */
	atomic_uint_fast64_t recorded; /* in all; the next place is this modulo TRACE_EVENTS */
	struct open_span open[TRACE_TRACKS];
	struct offset start;
};

/* The times of one rank around each barrier. */
struct crossings {
	double entered_s[BARRIERS], left_s[BARRIERS];
};

/* ---- Clocks ---- */

static int measure_offset(const struct train_world *world, struct offset *offset)
{
	struct crossings mine, first;
	double low = -INFINITY, high = INFINITY;
	int err = 0;
	*offset = (struct offset){ .at_s = clock_seconds() };
	if (world->size == 1)
		return 0;
	for (int i = 0; i < BARRIERS && !err; i++) {
		mine.entered_s[i] = clock_seconds();
		err = world_barrier(world);
		mine.left_s[i] = clock_seconds();
	}
	first = mine;
	if (!err)
		err = world_broadcast(world, &first, sizeof(first));
	if (err || !world->rank)
		return err;
	for (int i = 0; i < BARRIERS; i++) {
		low = fmax(low, mine.entered_s[i] - first.left_s[i]);
		high = fmin(high, mine.left_s[i] - first.entered_s[i]);
	}
	offset->offset_s = (low + high) / 2;
	offset->error_s = fabs(high - low) / 2;
	return 0;
}

/* ---- Recording ---- */

int trace_create(struct trace **out, const struct train_world *world, const char *path)
{
	*out = NULL;
	if (!path)
		return 0;
	struct trace *trace = calloc(1, sizeof(*trace));
	struct event *events = malloc(TRACE_EVENTS * sizeof(*events));
	int err = trace && events ? 0 : fail("out of memory for a trace");
	if (!err && !world->rank)
		err = draft_check(path);
	if (err) {
		free(trace);
		free(events);
		return err;
	}
	/* No page fault while recording. */
	memset(events, 0, TRACE_EVENTS * sizeof(*events));
	*trace = (struct trace){ .world = world, .path = path, .events = events };
	err = measure_offset(world, &trace->start);
	if (err)
		trace_destroy(trace);
	else
		*out = trace;
	return err;
}

void trace_destroy(struct trace *trace)
{
	if (!trace)
		return;
	free(trace->events);
	free(trace);
}

static void record(struct trace *trace, struct event event)
{
	uint64_t place = atomic_fetch_add_explicit(&trace->recorded, 1, memory_order_relaxed);
	trace->events[place % TRACE_EVENTS] = event;
}

void trace_begin(struct trace *trace, enum trace_track track, const char *name)
{
	if (trace)
		trace->open[track] = (struct open_span){ name, clock_seconds() };
}

void trace_end(struct trace *trace, enum trace_track track)
{
	if (!trace || !trace->open[track].name)
		return;
	trace_span(trace, track, trace->open[track].name, TRACE_NO_NUMBER,
		trace->open[track].start_s, clock_seconds());
	trace->open[track].name = NULL;
}

void trace_span(struct trace *trace, enum trace_track track, const char *name, int number,
	double start_s, double end_s)
{
	if (trace)
		record(trace,
			(struct event){ name, start_s, fmax(end_s - start_s, 0), number, track });
}

void trace_mark(
	struct trace *trace, enum trace_track track, const char *name, int number, double time_s)
{
	if (trace)
		record(trace, (struct event){ name, time_s, MARK, number, track });
}

/* ---- Writing ---- */

/* The head of a rank's part. */
struct header {
	uint64_t text_size, events, dropped;
	double error_s;
};

/* Microseconds on rank 0's clock since the start of the trace. */
static double microseconds(
	const struct trace *trace, const struct offset *end, double origin_s, double time_s)
{
	const struct offset *start = &trace->start;
	double length_s = end->at_s - start->at_s;
	double share = length_s > 0 ? (time_s - start->at_s) / length_s : 0;
	double offset_s = start->offset_s + share * (end->offset_s - start->offset_s);
	return 1e6 * (time_s - offset_s - origin_s);
}

/* Names of the rank and its tracks: events of phase "M". */
static void write_names(FILE *out, int rank, double error_s)
{
	static const char *const names[TRACE_TRACKS] = { "computation", "communication", "data" };
	fprintf(out,
		"%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,"
		"\"args\":{\"name\":\"rank %d\"}}",
		rank ? ",\n" : "", rank, rank);
	fprintf(out,
		",\n{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":%d,"
		"\"args\":{\"labels\":\"clock within %.1f us of rank 0\"}}",
		rank, 1e6 * error_s);
	fprintf(out,
		",\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,"
		"\"args\":{\"sort_index\":%d}}",
		rank, rank);
	for (int track = 0; track < TRACE_TRACKS; track++)
		fprintf(out,
			",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
			"\"args\":{\"name\":\"%s\"}}",
			rank, track, names[track]);
}

static void write_event(FILE *out, const struct event *event, int rank, double start_us)
{
	fprintf(out, ",\n{\"name\":\"%s", event->name);
	if (event->number != TRACE_NO_NUMBER)
		fprintf(out, " %d", event->number);
	fprintf(out, "\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,", rank, event->track, start_us);
	if (event->duration_s < 0)
		fprintf(out, "\"ph\":\"i\",\"s\":\"t\"}");
	else
		fprintf(out, "\"ph\":\"X\",\"dur\":%.3f}", 1e6 * event->duration_s);
}

/* This rank's part of the file, in memory. */
static int write_part(const struct trace *trace, const struct offset *end, double origin_s,
	char **text, struct header *header)
{
	uint64_t recorded = atomic_load(&trace->recorded);
	size_t size;
	FILE *out = open_memstream(text, &size);
	if (!out)
		return fail("out of memory for a trace");
	header->dropped = recorded > TRACE_EVENTS ? recorded - TRACE_EVENTS : 0;
	header->events = recorded - header->dropped;
	header->error_s = fmax(trace->start.error_s, end->error_s);
	write_names(out, trace->world->rank, header->error_s);
	for (uint64_t i = header->dropped; i < recorded; i++) {
		const struct event *event = &trace->events[i % TRACE_EVENTS];
		write_event(out, event, trace->world->rank,
			microseconds(trace, end, origin_s, event->start_s));
	}
	int failed = fclose(out);
	header->text_size = size;
	return failed ? fail("out of memory for a trace") : 0;
}

/* Sends this rank's part to rank 0, which writes all parts in the order of ranks. Rank 0 keeps one
   part at a time. */
static int collect(const struct train_world *world, const struct header *headers, const char *text,
	size_t text_size, FILE *out)
{
	int err = 0;
	if (world->rank) {
		err = rondo_send(world->comm, text, text_size, RONDO_U8, 0, NULL);
		return err ? fail_comm(err, "send the trace to rank 0") : 0;
	}
	fwrite(text, 1, text_size, out);
	for (int rank = 1; rank < world->size; rank++) {
		size_t size = headers[rank].text_size;
		char *part = malloc(size);
		if (!part)
			return fail("out of memory for the trace of rank %d", rank);
		err = rondo_recv(world->comm, part, size, RONDO_U8, rank, NULL);
		if (!err)
			fwrite(part, 1, size, out);
		free(part);
		if (err)
			return fail_comm(err, "receive the trace of a rank");
	}
	return 0;
}

static int gather_headers(
	const struct train_world *world, const struct header *mine, struct header *headers)
{
	headers[0] = *mine;
	int err = 0;
	if (world->comm)
		err = rondo_gather(world->comm, mine, headers, sizeof(*mine), RONDO_U8, 0, NULL);
	return err ? fail_comm(err, "gather the sizes of traces") : 0;
}

/* Rank 0's file, around the parts. */
static int write_file(
	const struct trace *trace, const struct header *headers, const char *text, size_t text_size)
{
	struct draft draft = { 0 };
	bool writes = !trace->world->rank;
	int err = writes ? draft_open(&draft, trace->path) : 0;
	if (err)
		return err;
	if (writes)
		fprintf(draft.file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
	err = collect(trace->world, headers, text, text_size, draft.file);
	if (!writes)
		return err;
	if (err) {
		draft_discard(&draft);
		return err;
	}
	fprintf(draft.file, "\n]}\n");
	return draft_finish(&draft, NULL);
}

static void sum_up(const struct header *headers, int size, struct trace_summary *summary)
{
	*summary = (struct trace_summary){ 0 };
	for (int rank = 0; rank < size; rank++) {
		summary->events += headers[rank].events;
		summary->dropped += headers[rank].dropped;
		summary->error_s = fmax(summary->error_s, headers[rank].error_s);
	}
}

int trace_write(struct trace *trace, struct trace_summary *summary)
{
	const struct train_world *world = trace->world;
	struct header header, *headers = calloc(world->size, sizeof(*headers)); /* rank 0's */
	struct offset end;
	double origin_s = trace->start.at_s;
	char *text = NULL;
	int err = headers ? 0 : fail("out of memory for a trace");
	if (!err)
		err = measure_offset(world, &end);
	if (!err)
		err = world_broadcast(world, &origin_s, sizeof(origin_s));
	if (!err)
		err = write_part(trace, &end, origin_s, &text, &header);
	if (!err)
		err = gather_headers(world, &header, headers);
	if (!err)
		err = write_file(trace, headers, text, header.text_size);
	if (!err && !world->rank)
		sum_up(headers, world->size, summary);
	free(headers);
	free(text);
	return err;
}
