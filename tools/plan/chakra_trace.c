#include "chakra.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/plan_files.h"
#include "base/error.h"
#include "chakra_node.h"
#include "exec/algorithms.h"
#include "tuner/pick.h"

#define ENDING ".et"
#define NAME_SIZE (PATH_MAX - 16) /* of the files, without ".RANK.et" */

struct program {
	char name[NAME_SIZE];
	int ranks;
	struct chakra_calls *calls; /* [ranks] */
};

/* ---- Files ---------------------------------------------------------------------------------- */

static void path_of(char path[PATH_MAX], const char *name, int rank)
{
	snprintf(path, PATH_MAX, "%s.%d" ENDING, name, rank);
}

/* "NAME" of "NAME.3.et"; else all of it. */
static void take_name(char name[NAME_SIZE], const char *source)
{
	size_t length = strlen(source), end = length;

	snprintf(name, NAME_SIZE, "%s", source);
	if (length < sizeof(ENDING) || strcmp(source + length - strlen(ENDING), ENDING) != 0)
		return;
	end -= strlen(ENDING);
	while (end > 0 && source[end - 1] >= '0' && source[end - 1] <= '9')
		end--;
	if (end > 1 && source[end - 1] == '.' && end < NAME_SIZE)
		name[end - 1] = '\0';
}

bool chakra_is_source(const char *source)
{
	char name[NAME_SIZE], path[PATH_MAX];

	take_name(name, source);
	path_of(path, name, 0);
	return strcmp(name, source) != 0 || (access(source, F_OK) && !access(path, F_OK));
}

/* Counts the ranks. One file beyond a gap shows that another is missing. */
static int find_files(struct program *program)
{
	char path[PATH_MAX];

	for (int rank = 0; rank <= PLAN_SHOWN_MAX; rank++) {
		path_of(path, program->name, rank);
		if (access(path, F_OK))
			continue;
		if (rank > program->ranks)
			return rd_fail(RONDO_INVALID,
				"%s.%d" ENDING " is missing, of the traces of "
				"all ranks",
				program->name, program->ranks);
		program->ranks = rank + 1;
	}
	if (program->ranks > 0 && program->ranks <= PLAN_SHOWN_MAX)
		return 0;
	return rd_fail(RONDO_INVALID, "%s.RANK" ENDING ": traces of 1 to %d ranks can be replayed",
		program->name, PLAN_SHOWN_MAX);
}

/* All ranks make the calls of rank 0, in its order. */
static int check_calls(const struct program *program, int rank, const char *path)
{
	const struct chakra_calls *first = &program->calls[0], *these = &program->calls[rank];

	for (int k = 0; k < first->count && k < these->count; k++) {
		const struct chakra_call *a = &first->list[k], *b = &these->list[k];

		if (a->comm_type != b->comm_type || a->comm_size != b->comm_size)
			return rd_fail(RONDO_INVALID,
				"%s: node %" PRIu64 ": comm_type %d with comm_size %" PRId64
				", and rank 0 has %d with %" PRId64 " there (its node %" PRIu64 ")",
				path, b->node, b->comm_type, b->comm_size, a->comm_type,
				a->comm_size, a->node);
	}
	if (first->count == these->count)
		return 0;
	return rd_fail(RONDO_INVALID, "%s has %d collective%s, and rank 0 has %d", path,
		these->count, RD_PLURAL(these->count), first->count);
}

static int read_files(struct program *program)
{
	int left = CHAKRA_NODES_MAX, err = find_files(program);
	char path[PATH_MAX];

	program->calls = calloc((size_t)program->ranks + 1, sizeof(*program->calls));
	if (!err && !program->calls)
		err = rd_fail(RONDO_MEMORY, "no memory for a Chakra trace");
	for (int rank = 0; rank < program->ranks && !err; rank++) {
		path_of(path, program->name, rank);
		err = chakra_calls_read(&program->calls[rank], path, left);
		left -= program->calls[rank].nodes;
		if (!err)
			err = check_calls(program, rank, path);
	}
	return err;
}

/* ---- Algorithms ----------------------------------------------------------------------------- */

static enum rd_collective collective_of(int comm_type)
{
	static const enum rd_collective collectives[] = {
		[CHAKRA_ALL_REDUCE] = RD_ALL_REDUCE,
		[CHAKRA_REDUCE] = RD_REDUCE,
		[CHAKRA_ALL_GATHER] = RD_ALL_GATHER,
		[CHAKRA_GATHER] = RD_GATHER,
		[CHAKRA_SCATTER] = RD_SCATTER,
		[CHAKRA_BROADCAST] = RD_BROADCAST,
		[CHAKRA_ALL_TO_ALL] = RD_ALL_TO_ALL,
		[CHAKRA_REDUCE_SCATTER] = RD_REDUCE_SCATTER,
		[CHAKRA_REDUCE_SCATTER_BLOCK] = RD_REDUCE_SCATTER,
		[CHAKRA_BARRIER] = RD_BARRIER,
	};

	return collectives[comm_type];
}

/* comm_size is the bytes of an input, which may have a block for each rank. */
static int64_t block_of(const struct chakra_call *call, int ranks)
{
	enum rd_collective collective = collective_of(call->comm_type);
	bool has_all = collective == RD_SCATTER || collective == RD_ALL_TO_ALL ||
		       collective == RD_REDUCE_SCATTER;

	return has_all ? call->comm_size / ranks + (call->comm_size % ranks > 0) : call->comm_size;
}

/* As options->hosts says; else each rank has a host where there is a network. */
static void lay_ranks(struct plan_problem *made, const struct plan_options *options, int ranks)
{
	struct plan_options here = *options;

	here.ranks = ranks;
	here.hosts = options->hosts_given ? options->hosts : options->topology ? ranks : 1;
	here.hosts = here.hosts < ranks ? here.hosts : ranks;
	plan_problem_lay(made, &here);
	if (!options->costs)
		made->costs.cores = (uint32_t)((ranks + here.hosts - 1) / here.hosts);
}

static struct rd_picker *create_picker(
	const struct plan_problem *made, const struct plan_options *options)
{
	const struct rd_plan_file *file = rd_plan_files_at(0);
	struct rd_tuner_config config = {
		.size = made->layout.size,
		.layout = &made->layout,
		.costs = made->costs,
		.channels = 1,
		.piece_size = options->piece_size,
		.algo = options->file && file ? file->name : "",
	};

	return rd_picker_create(&config);
}

static int name_index(struct plan_trace *trace, const char *name, int *index)
{
	for (*index = 0; *index < trace->name_count; ++*index)
		if (strcmp(trace->names[*index], name) == 0)
			return 0;
	trace->names[*index] = strdup(name);
	if (!trace->names[*index])
		return rd_fail(RONDO_MEMORY, "no memory for a Chakra trace");
	trace->name_count++;
	return 0;
}

/* The step that all ranks have in a call, but for its times. */
static int make_step(struct plan_trace *trace, struct plan_trace_step *step,
	struct rd_picker *picker, const struct chakra_call *call, int ranks)
{
	enum rd_collective collective = collective_of(call->comm_type);
	struct rd_choice *choice;
	int err;

	step->block = block_of(call, ranks);
	err = rd_picker_choose(picker, collective, (uint64_t)step->block, RD_WHOLE, false, &choice);
	if (err)
		return err;
	step->key.collective = (int)collective;
	step->bytes = choice->piece_size < INT64_MAX ? (int64_t)choice->piece_size : INT64_MAX;
	return name_index(trace, choice->algorithm->name, &step->key.algorithm);
}

/* ---- The trace ------------------------------------------------------------------------------ */

/* Ranks leave a call when all have come, and when it has taken what it took. */
static int add_call(struct plan_trace *trace, const struct program *program, int k,
	struct plan_trace_step step, int64_t *now_ns)
{
	int64_t all_ns = 0;

	step.key.number = k;
	for (int rank = 0; rank < program->ranks; rank++) {
		now_ns[rank] += program->calls[rank].list[k].gap_ns;
		all_ns = rd_longer(all_ns, now_ns[rank]);
	}
	for (int rank = 0; rank < program->ranks; rank++) {
		int64_t end_ns = now_ns[rank] + program->calls[rank].list[k].duration_ns;

		step.rank = rank;
		step.begin_ns = now_ns[rank];
		now_ns[rank] = rd_longer(end_ns, all_ns);
		step.work_ns = now_ns[rank] - step.begin_ns;
		trace->steps[trace->step_count++] = step;
		if (now_ns[rank] > CHAKRA_NS_MAX)
			return rd_fail(RONDO_INVALID,
				"%s.%d" ENDING ": node %" PRIu64
				": all until here takes more than 11 days",
				program->name, rank, program->calls[rank].list[k].node);
	}
	return 0;
}

static int add_calls(
	struct plan_trace *trace, const struct program *program, struct rd_picker *picker)
{
	int64_t *now_ns = calloc((size_t)program->ranks, sizeof(*now_ns));
	int err = now_ns ? 0 : rd_fail(RONDO_MEMORY, "no memory for a Chakra trace");

	for (int k = 0; k < program->calls[0].count && !err; k++) {
		struct plan_trace_step step = { .chunk = -1, .peer = -1, .to = -1 };

		err = make_step(trace, &step, picker, &program->calls[0].list[k], program->ranks);
		if (!err)
			err = add_call(trace, program, k, step, now_ns);
	}
	free(now_ns);
	return err;
}

static int make_comm(struct plan_trace *trace, const struct plan_problem *made, int ranks)
{
	struct plan_trace_comm *comm = calloc(1, sizeof(*comm));

	trace->comms = comm;
	if (!comm)
		return rd_fail(RONDO_MEMORY, "no memory for a Chakra trace");
	trace->comm_count = 1;
	comm->size = ranks;
	strcpy(comm->name, "0");
	comm->ranks = calloc((size_t)ranks, sizeof(*comm->ranks));
	if (!comm->ranks)
		return rd_fail(RONDO_MEMORY, "no memory for a Chakra trace");
	for (int rank = 0; rank < ranks; rank++)
		comm->ranks[rank] = (struct plan_trace_rank){ .known = true,
			.channels = 1,
			.places = { rank },
			.groups = { made->group[rank] } };
	return 0;
}

static int make_trace(struct plan_trace *trace, const struct program *program,
	struct plan_problem *made, const struct plan_options *options)
{
	size_t steps = (size_t)program->ranks * (size_t)program->calls[0].count;
	struct rd_picker *picker;
	int err;

	lay_ranks(made, options, program->ranks);
	err = make_comm(trace, made, program->ranks);
	if (err)
		return err;
	trace->of_calls = true;
	trace->names = calloc(RD_ALGORITHMS_KNOWN, sizeof(*trace->names));
	trace->steps = calloc(steps, sizeof(*trace->steps));
	if (!trace->names || !trace->steps)
		return rd_fail(RONDO_MEMORY, "no memory for a Chakra trace");
	picker = create_picker(made, options);
	err = picker ? add_calls(trace, program, picker) : RONDO_MEMORY;
	rd_picker_destroy(picker);
	return err ? err : plan_trace_make_calls(trace, program->name);
}

int chakra_trace_read(
	struct plan_trace **trace, struct plan_problem *made, const struct plan_options *options)
{
	struct program program = { .ranks = 0 };
	int err;

	take_name(program.name, options->source);
	*trace = calloc(1, sizeof(**trace));
	err = *trace ? read_files(&program) : rd_fail(RONDO_MEMORY, "no memory for a Chakra trace");
	if (!err)
		err = make_trace(*trace, &program, made, options);
	if (err) {
		plan_trace_destroy(*trace);
		*trace = NULL;
	}
	for (int rank = 0; rank < program.ranks && program.calls; rank++)
		free(program.calls[rank].list);
	free(program.calls);
	return err;
}
