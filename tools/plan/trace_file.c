#include "trace_file.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/json.h"
#include "trace_events.h"

#define US_DIGITS 15 /* before the point */
#define NAMES_MAX 256
#define COMMS_MAX 4096
#define RANKS_MAX (1 << 20) /* of all comms */

/* A process of the file: a rank of a comm. */
struct process {
	int id, comm, rank;
};

struct reader {
	struct plan_trace *trace;
	const char *path;
	int line; /* where the event at hand begins */
	struct process *processes;
	int process_count, process_room;
	const struct process *last; /* found: its events follow each other */
	int step_room, ranks;
	struct rd_json json; /* the event at hand */
	int err; /* of its members */
};

static int refuse(const struct reader *reader, const char *reason)
{
	return rd_fail(RONDO_INVALID, "%s:%d: %s", reader->path, reader->line, reason);
}

static int fail_memory(void)
{
	return rd_fail(RONDO_MEMORY, "no memory for a trace");
}

/* ---- Members -------------------------------------------------------------------------------- */

/* The readers of members record the first fault in reader->err, and return 0 behind it. */

/* A whole number of the object, from `least` on. */
static int64_t read_whole(struct reader *reader, const struct rd_json_value *object,
	const char *name, int64_t least, int64_t most)
{
	const struct rd_json_value *value = rd_json_member(&reader->json, object, name);
	int64_t number = 0;

	if (!reader->err && (!value || !rd_json_whole(value, least, most, &number)))
		reader->err = rd_fail(RONDO_INVALID,
			"%s:%d: \"%s\" must be a whole number from %lld to %lld", reader->path,
			reader->line, name, (long long)least, (long long)most);
	return reader->err ? 0 : number;
}

static int read_int(struct reader *reader, const struct rd_json_value *object, const char *name,
	int least, int most)
{
	return (int)read_whole(reader, object, name, least, most);
}

/* Microseconds, to three digits behind the point, as the trace writes them. Others that wrote it
   anew leave out zeros, or have the digits of a double. */
static int64_t read_us(struct reader *reader, const struct rd_json_value *object, const char *name,
	int64_t least_ns)
{
	const struct rd_json_value *value = rd_json_member(&reader->json, object, name);
	const char *at = value && value->kind == RD_JSON_NUMBER ? value->text : "";
	bool negative = *at == '-';
	int64_t ns = 0;
	int digits = 0;

	for (at += negative; isdigit((unsigned char)*at) && digits < US_DIGITS; at++, digits++)
		ns = 10 * ns + (*at - '0');

	bool fits = digits > 0 && !isdigit((unsigned char)*at);

	at += *at == '.';
	for (int i = 0; i < 3; i++)
		ns = 10 * ns + (isdigit((unsigned char)*at) ? *at++ - '0' : 0);
	ns += *at >= '5' && *at <= '9';
	at += strspn(at, "0123456789");
	ns = negative ? -ns : ns;
	if (!reader->err && (!fits || *at == 'e' || *at == 'E' || ns < least_ns))
		reader->err = rd_fail(RONDO_INVALID,
			"%s:%d: \"%s\" must be microseconds, of at most %d digits, without an "
			"exponent",
			reader->path, reader->line, name, US_DIGITS);
	return reader->err ? 0 : ns;
}

static const char *text_of(
	const struct reader *reader, const struct rd_json_value *object, const char *name)
{
	const struct rd_json_value *value = rd_json_member(&reader->json, object, name);

	return value && value->kind == RD_JSON_STRING ? value->text : "";
}

/* It is printed: a line of it could be more than one, and its bytes commands to a terminal. */
static bool is_word(const char *text)
{
	return text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

/* The index of a name of which a trace has few. */
static int read_name(struct reader *reader, const struct rd_json_value *object, const char *member)
{
	struct plan_trace *trace = reader->trace;
	const char *name = text_of(reader, object, member);
	int index = 0;

	if (reader->err)
		return 0;
	while (index < trace->name_count && strcmp(trace->names[index], name) != 0)
		index++;
	if (index < trace->name_count)
		return index;
	if (!*name || strlen(name) >= 64 || !is_word(name) || index == NAMES_MAX) {
		reader->err = rd_fail(RONDO_INVALID, "%s:%d: a wrong \"%s\", or too many of them",
			reader->path, reader->line, member);
		return 0;
	}
	trace->names[index] = strdup(name);
	if (trace->names[index])
		trace->name_count++;
	else
		reader->err = fail_memory();
	return index;
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

static int find_comm(struct reader *reader, const char *name, int size, int *index)
{
	struct plan_trace *trace = reader->trace;
	struct plan_trace_comm *comm;

	for (*index = 0; *index < trace->comm_count; ++*index)
		if (strcmp(trace->comms[*index].name, name) == 0)
			return trace->comms[*index].size == size
				       ? 0
				       : refuse(reader, "another rank has another \"ranks\"");
	if (!*name || strlen(name) >= PLAN_TRACE_COMM_SIZE || !is_word(name) || *index == COMMS_MAX)
		return refuse(reader, "a wrong \"comm\", or too many of them");
	reader->ranks += size;
	if (reader->ranks > RANKS_MAX)
		return refuse(reader, "the comms have more than 1,048,576 ranks");
	comm = &trace->comms[*index];
	comm->ranks = calloc((size_t)size, sizeof(*comm->ranks));
	if (!comm->ranks)
		return fail_memory();
	trace->comm_count++;
	strcpy(comm->name, name);
	comm->size = size;
	return 0;
}

static int read_process(struct reader *reader, int id, const struct rd_json_value *args)
{
	struct process process = { .id = id };
	struct plan_trace_rank *rank;
	int size, err;

	if (!rd_json_member(&reader->json, args, "ranks"))
		return refuse(reader, "no \"ranks\": an older Rondo wrote this trace");
	size = read_int(reader, args, "ranks", 1, PLAN_RANKS_MAX);
	process.rank = read_int(reader, args, "rank", 0, size - 1);
	err = reader->err ? reader->err
			  : find_comm(reader, text_of(reader, args, "comm"), size, &process.comm);
	if (err)
		return err;
	rank = &reader->trace->comms[process.comm].ranks[process.rank];
	if (rank->known)
		return refuse(reader,
			"the rank is here twice: remove the file before the next run, and trace "
			"one comm of these ranks");
	rank->known = true;
	if (!rd_grow(&reader->processes, reader->process_count, &reader->process_room,
		    sizeof(process)))
		return fail_memory();
	reader->processes[reader->process_count++] = process;
	reader->last = NULL;
	return 0;
}

/* Numbers of processes may be equal by chance: events are of the latest that was named. */
static int find_process(struct reader *reader, int id)
{
	if (reader->last && reader->last->id == id)
		return 0;
	for (int i = reader->process_count - 1; i >= 0; i--)
		if (reader->processes[i].id == id) {
			reader->last = &reader->processes[i];
			return 0;
		}
	return refuse(reader, "no event names the rank of this \"pid\"");
}

static int read_channel(
	struct reader *reader, const struct rd_json_value *event, const struct rd_json_value *args)
{
	const struct plan_trace_comm *comm = &reader->trace->comms[reader->last->comm];
	struct plan_trace_rank *rank = &comm->ranks[reader->last->rank];
	int channel = read_int(reader, event, "tid", 0, RD_CHANNELS_MAX - 1);

	rank->channels |= 1U << channel;
	rank->places[channel] = read_int(reader, args, "place", 0, comm->size - 1);
	rank->groups[channel] = read_int(reader, args, "group", 0, comm->size - 1);
	return reader->err;
}

static int read_label(
	struct reader *reader, const struct rd_json_value *event, const struct rd_json_value *args)
{
	int id = read_int(reader, event, "pid", 0, INT_MAX), err = reader->err;
	const char *name = text_of(reader, event, "name");

	if (!err && strcmp(name, "process_name") == 0)
		return read_process(reader, id, args);
	if (!err)
		err = find_process(reader, id);
	if (!err && strcmp(name, "thread_name") == 0)
		return read_channel(reader, event, args);
	if (!err && strcmp(name, "process_labels") == 0)
		reader->trace->comms[reader->last->comm].ranks[reader->last->rank].dropped = true;
	return err;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static void read_args(
	struct reader *reader, const struct rd_json_value *args, struct plan_trace_step *step)
{
	int last = reader->trace->comms[step->key.comm].size - 1;

	step->key.number = read_int(reader, args, "call", 0, INT_MAX);
	step->key.algorithm = read_name(reader, args, "algorithm");
	step->key.root = read_int(reader, args, "root", 0, last);
	step->key.target = read_int(reader, args, "target", 0, last);
	step->piece = read_int(reader, args, "piece", 0, INT_MAX);
	step->step = read_int(reader, args, "step", 0, INT_MAX);
	step->chunk = read_int(reader, args, "chunk", -1, INT_MAX);
	step->peer = read_int(reader, args, "peer", -1, last);
	step->to = read_int(reader, args, "to", -1, last);
	step->bytes = read_whole(reader, args, "bytes", 0, INT64_MAX);
	step->block = read_whole(reader, args, "block_bytes", 0, INT64_MAX);
	step->wait_ns = read_us(reader, args, "wait_us", 0);
	step->work_ns = read_us(reader, args, "work_us", 0);
	step->of_v_call = rd_json_member(&reader->json, args, "v_call") != NULL;
}

static int read_step(
	struct reader *reader, const struct rd_json_value *event, const struct rd_json_value *args)
{
	struct plan_trace *trace = reader->trace;
	struct plan_trace_step step = { .line = reader->line };
	int id = read_int(reader, event, "pid", 0, INT_MAX);
	int err = reader->err ? reader->err : find_process(reader, id);

	if (err)
		return err;
	step.key.comm = reader->last->comm;
	step.rank = reader->last->rank;
	step.key.collective = rd_collective_named(text_of(reader, event, "cat"));
	if (step.key.collective < 0)
		return refuse(reader, "\"cat\" is no collective");
	step.channel = read_int(reader, event, "tid", 0, RD_CHANNELS_MAX - 1);
	step.kind = read_name(reader, event, "name");
	step.begin_ns = read_us(reader, event, "ts", INT64_MIN);
	read_args(reader, args, &step);
	if (reader->err)
		return reader->err;
	if (trace->step_count == PLAN_TRACE_STEPS_MAX)
		return refuse(reader, "the trace has more than 8,388,608 steps");
	if (!rd_grow(&trace->steps, trace->step_count, &reader->step_room, sizeof(step)))
		return fail_memory();
	trace->steps[trace->step_count++] = step;
	return 0;
}

/* ---- Events --------------------------------------------------------------------------------- */

static int read_object(struct reader *reader)
{
	const struct rd_json_value *event = &reader->json.values[0];
	const struct rd_json_value *args = rd_json_member(&reader->json, event, "args");
	const char *phase = text_of(reader, event, "ph");
	bool names = strcmp(phase, "M") == 0;

	if (!names && strcmp(phase, "X") != 0)
		return refuse(reader, "neither a name nor a step: \"ph\" must be \"M\" or \"X\"");
	if (!args)
		return refuse(reader, "no \"args\"");
	return names ? read_label(reader, event, args) : read_step(reader, event, args);
}

static int read_event(void *context, int line, const char *text, size_t length)
{
	struct reader *reader = context;
	int err = rd_json_parse(&reader->json, reader->path, text, length);

	reader->line = line;
	if (err == RONDO_INVALID)
		return refuse(reader, "this is no JSON");
	if (!err)
		err = read_object(reader);
	rd_json_finish(&reader->json);
	return err;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static int compare_keys(const struct plan_trace_key *a, const struct plan_trace_key *b)
{
	const int differences[] = { a->comm - b->comm, a->number - b->number,
		a->collective - b->collective, a->algorithm - b->algorithm, a->root - b->root,
		a->target - b->target };

	for (size_t i = 0; i < sizeof(differences) / sizeof(*differences); i++)
		if (differences[i])
			return differences[i];
	return 0;
}

static int compare_steps(const void *left, const void *right)
{
	const struct plan_trace_step *a = left, *b = right;
	int by_key = compare_keys(&a->key, &b->key);

	if (by_key)
		return by_key;
	if (a->rank != b->rank)
		return a->rank - b->rank;
	return a->piece != b->piece ? a->piece - b->piece : a->step - b->step;
}

static int compare_calls(const void *left, const void *right)
{
	const struct plan_trace_call *a = left, *b = right;

	if (a->last_begin_ns != b->last_begin_ns)
		return a->last_begin_ns < b->last_begin_ns ? -1 : 1;
	return compare_keys(a->key, b->key);
}

static void add_to_call(struct plan_trace_call *call, const struct plan_trace_step *step)
{
	int64_t end_ns = step->begin_ns + step->wait_ns + step->work_ns;

	if (call->count == 0 || step->begin_ns < call->begin_ns)
		call->begin_ns = step->begin_ns;
	if (call->count == 0 || end_ns > call->end_ns)
		call->end_ns = end_ns;
	if (call->count == 0 ||
		(step->piece == 0 && step->step == 0 && step->begin_ns > call->last_begin_ns))
		call->last_begin_ns = step->begin_ns;
	call->block = step->block > call->block ? step->block : call->block;
	call->is_v_call |= step->of_v_call;
	call->slice = step->bytes > call->slice ? step->bytes : call->slice;
	call->count++;
}

/* Where ranks have only the lengths of their own blocks, a v-call's events have 0. Each block goes
   to its rank in messages of its own: their mean counts. */
static void set_mean_block(const struct plan_trace *trace, struct plan_trace_call *call)
{
	int64_t pairs = trace->comms[call->key->comm].size - 1, total = 0;

	if (!call->is_v_call || call->block > 0 || pairs == 0)
		return;
	for (int i = 0; i < call->count; i++)
		if (call->steps[i].to >= 0 &&
			__builtin_add_overflow(total, call->steps[i].bytes, &total))
			total = INT64_MAX;
	if (call->key->collective == RD_ALL_TO_ALL)
		pairs *= pairs + 1;
	call->block = total / pairs + (total % pairs != 0);
}

int plan_trace_make_calls(struct plan_trace *trace, const char *name)
{
	struct plan_trace_step *steps = trace->steps;
	int count = 0;

	if (trace->step_count == 0)
		return rd_fail(RONDO_INVALID, "%s has no steps", name);
	qsort(steps, (size_t)trace->step_count, sizeof(*steps), compare_steps);
	for (int i = 0; i < trace->step_count; i++) {
		if (i > 0 && compare_steps(&steps[i - 1], &steps[i]) == 0)
			return rd_fail(RONDO_INVALID,
				"%s:%d: line %d has the same step: rank %d, call %d, piece %d, "
				"step %d",
				name, steps[i].line, steps[i - 1].line, steps[i].rank,
				steps[i].key.number, steps[i].piece, steps[i].step);
		count += i == 0 || compare_keys(&steps[i - 1].key, &steps[i].key) != 0;
	}
	trace->calls = calloc((size_t)count, sizeof(*trace->calls));
	if (!trace->calls)
		return fail_memory();
	for (int i = 0; i < trace->step_count; i++) {
		if (i == 0 || compare_keys(&steps[i - 1].key, &steps[i].key) != 0)
			trace->calls[trace->call_count++] =
				(struct plan_trace_call){ .key = &steps[i].key,
					.steps = &steps[i] };
		add_to_call(&trace->calls[trace->call_count - 1], &steps[i]);
	}
	for (int i = 0; i < count; i++)
		set_mean_block(trace, &trace->calls[i]);
	qsort(trace->calls, (size_t)count, sizeof(*trace->calls), compare_calls);
	return 0;
}

/* ---- The file ------------------------------------------------------------------------------- */

static int read_all(struct plan_trace *trace, const char *path)
{
	struct reader reader = { .trace = trace, .path = path };
	FILE *file = rd_fopen(path, O_RDONLY);
	int err;

	if (!file)
		return rd_fail_errno("cannot read %s", path);
	trace->comms = calloc(COMMS_MAX, sizeof(*trace->comms));
	trace->names = calloc(NAMES_MAX, sizeof(*trace->names));
	err = trace->comms && trace->names ? plan_trace_events_read(file, path, read_event, &reader)
					   : fail_memory();
	fclose(file);
	free(reader.processes);
	return err ? err : plan_trace_make_calls(trace, path);
}

int plan_trace_read(struct plan_trace **trace, const char *path)
{
	int err;

	*trace = calloc(1, sizeof(**trace));
	if (!*trace)
		return fail_memory();
	(*trace)->steps_left = PLAN_TRACE_SIMULATED_MAX;
	err = read_all(*trace, path);
	if (err) {
		plan_trace_destroy(*trace);
		*trace = NULL;
	}
	return err;
}

void plan_trace_destroy(struct plan_trace *trace)
{
	if (!trace)
		return;
	for (int i = 0; i < trace->comm_count; i++)
		free(trace->comms[i].ranks);
	for (int i = 0; i < trace->name_count; i++)
		free(trace->names[i]);
	free(trace->comms);
	free(trace->steps);
	free(trace->calls);
	free(trace->names);
	free(trace);
}
