#include "exec/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/cache_line.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/host_name.h"
#include "base/json.h"
#include "base/log.h"
#include "exec/slice.h"
#include "plan/print.h"

/* Microseconds since 1970 have no room for a fraction in a double. */
#define EPOCH_NS (INT64_C(1767225600) * 1000000000) /* 2026-01-01 */

#define CLOCK_READINGS 16
#define LINES_A_WRITE 256
#define KIND_SIZE 160

struct event {
	int64_t began_ns, moved_ns, ended_ns; /* the wait, then the work */
	const struct rd_plan *plan;
	uint64_t size, block; /* bytes */
	uint32_t call, piece;
	int step;
	uint8_t channel;
	bool is_v_call;
};

struct rd_trace {
	int64_t now_ns; /* the last reading of the clock */
	uint64_t recorded; /* in all; the next place is this modulo RD_TRACE_STEPS */
	int64_t offset_ns; /* from CLOCK_MONOTONIC to the file's times */
	struct rd_trace_origin origin; /* size 0: not started */
	int fd;
	char path[RD_LOG_PATH_SIZE];
	char host[RD_HOST_NAME_SIZE];
	struct event events[RD_TRACE_STEPS];
};

/* ---- Recording ------------------------------------------------------------------------------- */

void rd_trace_begin(struct rd_trace *trace, struct rd_exec *exec)
{
	int64_t now_ns = rd_clock_ns();

	exec->trace = trace;
	for (int channel = 0; channel < exec->channels; channel++)
		exec->step_ended_ns[channel] = now_ns;
}

void rd_trace_try(struct rd_exec *exec)
{
	exec->trace->now_ns = rd_clock_ns();
}

static uint64_t size_of(const struct rd_exec *exec, size_t piece, const struct rd_step *step)
{
	if (step->kind == RD_STEP_FLUSH || rd_step_is_signal(step))
		return 0;
	return rd_slice_count(exec, step->chunk, piece) * exec->element;
}

void rd_trace_step(struct rd_exec *exec, int channel, size_t piece, const struct rd_step *step)
{
	struct rd_trace *trace = exec->trace;
	const struct rd_plan *plan = exec->plans[channel];
	int64_t now_ns = rd_clock_ns();

	trace->events[trace->recorded++ % RD_TRACE_STEPS] = (struct event){
		.began_ns = exec->step_ended_ns[channel],
		.moved_ns = trace->now_ns,
		.ended_ns = now_ns,
		.plan = plan,
		.size = size_of(exec, piece, step),
		.block = exec->call.count * exec->element,
		.call = exec->call.number,
		.piece = (uint32_t)piece,
		.step = (int)(step - plan->steps),
		.channel = (uint8_t)channel,
		.is_v_call = exec->call.vcounts != NULL,
	};
	trace->now_ns = exec->step_ended_ns[channel] = now_ns;
}

void rd_trace_start(struct rd_trace *trace, const struct rd_trace_origin *origin)
{
	trace->origin = *origin;
	trace->recorded = 0;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* The narrowest of several readings: between two clocks the thread may lose its core. */
static int64_t find_offset_ns(void)
{
	int64_t least_ns = INT64_MAX, offset_ns = 0;

	for (int i = 0; i < CLOCK_READINGS; i++) {
		struct timespec real;
		int64_t before_ns = rd_clock_ns(), took_ns;

		clock_gettime(CLOCK_REALTIME, &real);
		took_ns = rd_clock_ns() - before_ns;
		if (took_ns >= least_ns)
			continue;
		least_ns = took_ns;
		offset_ns =
			real.tv_sec * INT64_C(1000000000) + real.tv_nsec - before_ns - took_ns / 2;
	}
	return offset_ns - EPOCH_NS;
}

/* An empty file gets its first line by one rank: another that has the lock writes it. */
static int write_head(int fd)
{
	struct stat file;
	int err = 0;

	if (flock(fd, LOCK_EX | LOCK_NB))
		return 0;
	if (fstat(fd, &file) || (file.st_size == 0 && write(fd, "[\n", 2) != 2))
		err = -1;
	flock(fd, LOCK_UN);
	return err;
}

/* A pipe could hold up the rank, or end it by SIGPIPE. */
static int open_file(struct rd_trace *trace)
{
	struct stat file;

	trace->fd = rd_open(trace->path, O_WRONLY | O_CREAT | O_APPEND);
	if (trace->fd >= 0 && fstat(trace->fd, &file) == 0 && !S_ISREG(file.st_mode))
		return rd_fail(
			RONDO_SETTING, "RONDO_TRACE: %.512s is no regular file", trace->path);
	if (trace->fd < 0 || write_head(trace->fd))
		return rd_fail(RONDO_SETTING, "RONDO_TRACE: cannot write %.512s: %s", trace->path,
			strerror(errno));
	return 0;
}

int rd_trace_create(struct rd_trace **trace, const char *name)
{
	/* Not calloc(), whose pages come as they are written. */
	struct rd_trace *made = rd_calloc_lines(sizeof(*made));
	int err;

	if (!made)
		return rd_fail(RONDO_MEMORY, "no memory for a trace");
	rd_log_file_name(made->path, name);
	rd_host_name(made->host);
	made->offset_ns = find_offset_ns();
	err = open_file(made);
	if (err) {
		rd_trace_destroy(made);
		return err;
	}
	*trace = made;
	return 0;
}

void rd_trace_destroy(struct rd_trace *trace)
{
	if (!trace)
		return;
	if (trace->fd >= 0)
		close(trace->fd);
	free(trace);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Ranks of comms made from others have other numbers than those of the first. A comm's number is
   drawn: as many of its bits as 30 have room for keep comms apart. */
static int process_of(const struct rd_trace *trace)
{
	const struct rd_trace_origin *origin = &trace->origin;
	uint64_t size = (uint64_t)origin->size;

	if (!origin->group)
		return origin->rank;
	return (int)(1U << 30 |
		     (origin->group % ((1U << 30) / size) * size + (uint64_t)origin->rank));
}

/* The place of this rank along the channel's line of ranks. A rank alone has no layout. */
static int place_of(const struct rd_layout *layout, int rank)
{
	int place = 0;

	while (layout && layout->order[place] != rank)
		place++;
	return place;
}

/* Names of the rank and its channels: events of phase "M". rondo-plan reads what follows them. */
static void write_names(FILE *out, const struct rd_trace *trace)
{
	const struct rd_trace_origin *origin = &trace->origin;
	int process = process_of(trace);
	char name[128 + RD_HOST_NAME_SIZE], comm[32] = "";

	if (origin->group)
		snprintf(comm, sizeof(comm), " in comm %llx", (unsigned long long)origin->group);
	snprintf(name, sizeof(name), "rank %d of %d%s (host %s, pid %d)", origin->rank,
		origin->size, comm, trace->host, (int)getpid());
	fprintf(out,
		"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":", process);
	rd_json_write_string(out, name);
	fprintf(out,
		",\"comm\":\"%llx\",\"rank\":%d,\"ranks\":%d}},\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,"
		"\"args\":{\"sort_index\":%d}},\n",
		(unsigned long long)origin->group, origin->rank, origin->size, process, process);
	for (int channel = 0; channel < origin->channels; channel++) {
		const struct rd_layout *layout = origin->layouts[channel];

		fprintf(out,
			"{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":"
			"{\"name\":\"channel %d\",\"place\":%d,\"group\":%d}},\n",
			process, channel, channel, place_of(layout, origin->rank),
			layout ? layout->group[origin->rank] : 0);
	}
	if (trace->recorded > RD_TRACE_STEPS)
		fprintf(out,
			"{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":%d,"
			"\"args\":{\"labels\":\"%llu earlier steps dropped\"}},\n",
			process, (unsigned long long)(trace->recorded - RD_TRACE_STEPS));
}

/* A member of an object, in microseconds; `before`: what separates it from the one before. */
static void write_us(FILE *out, const char *before, const char *name, int64_t ns)
{
	fprintf(out, "%s\"%s\":%s%lld.%03lld", before, name, ns < 0 ? "-" : "", llabs(ns / 1000),
		llabs(ns % 1000));
}

static void write_event(FILE *out, const struct rd_trace *trace, const struct event *event)
{
	const struct rd_step *step = &event->plan->steps[event->step];
	const struct rd_problem *problem = &event->plan->problem;
	char kind[KIND_SIZE];

	rd_step_print(step, kind, sizeof(kind));
	fprintf(out, "{\"name\":\"%.*s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,",
		(int)strcspn(kind, " "), kind, rd_collective_name(problem->collective),
		process_of(trace), event->channel);
	write_us(out, "", "ts", event->began_ns + trace->offset_ns);
	write_us(out, ",", "dur", event->ended_ns - event->began_ns);
	fprintf(out, ",\"args\":{\"call\":%u,\"algorithm\":", event->call);
	rd_json_write_string(out, event->plan->algorithm);
	fprintf(out, ",\"root\":%d,\"target\":%d,\"block_bytes\":%llu", problem->root,
		problem->target, (unsigned long long)event->block);
	fprintf(out, ",\"piece\":%u,\"step\":%d,\"chunk\":%d,\"peer\":%d,\"to\":%d,\"bytes\":%llu,",
		event->piece, event->step, step->chunk, step->peer, step->to,
		(unsigned long long)event->size);
	if (event->is_v_call)
		fprintf(out, "\"v_call\":true,");
	write_us(out, "", "wait_us", event->moved_ns - event->began_ns);
	write_us(out, ",", "work_us", event->ended_ns - event->moved_ns);
	fprintf(out, "}},\n");
}

static int write_all(int fd, const char *text, size_t size)
{
	while (size > 0) {
		ssize_t written = write(fd, text, size);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return -1;
		text += written;
		size -= (size_t)written;
	}
	return 0;
}

/* Writes some lines: those from an event on, and the names before the first. */
static int write_lines(const struct rd_trace *trace, uint64_t from, bool first)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int err, error;

	if (!out)
		return -1;
	if (first)
		write_names(out, trace);
	for (uint64_t i = from; i < trace->recorded && i < from + LINES_A_WRITE; i++)
		write_event(out, trace, &trace->events[i % RD_TRACE_STEPS]);
	err = fclose(out) ? -1 : write_all(trace->fd, text, size);
	error = errno;
	free(text);
	errno = error;
	return err;
}

void rd_trace_write(const struct rd_trace *trace)
{
	uint64_t kept = rd_min(trace->recorded, RD_TRACE_STEPS), first = trace->recorded - kept;

	for (uint64_t i = first; trace->origin.size && i < trace->recorded; i += LINES_A_WRITE) {
		if (!write_lines(trace, i, i == first))
			continue;
		rd_log(RD_WARN, RD_COLL,
			"RONDO_TRACE: cannot write %.512s: %s: the trace ends here", trace->path,
			strerror(errno));
		return;
	}
}
