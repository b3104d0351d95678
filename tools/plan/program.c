#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- Making it ------------------------------------------------------------------------------ */

/* Until then, a call may lack steps: some rank's were dropped. */
static int64_t cut_ns(const struct plan_trace *trace, int comm)
{
	const struct plan_trace_rank *ranks = trace->comms[comm].ranks;
	int64_t *firsts = malloc((size_t)trace->comms[comm].size * sizeof(*firsts));
	int64_t cut = INT64_MIN;

	if (!firsts)
		return INT64_MAX;
	for (int rank = 0; rank < trace->comms[comm].size; rank++)
		firsts[rank] = INT64_MAX;
	for (int i = 0; i < trace->step_count; i++) {
		const struct plan_trace_step *step = &trace->steps[i];

		if (step->key.comm == comm && step->begin_ns < firsts[step->rank])
			firsts[step->rank] = step->begin_ns;
	}
	for (int rank = 0; rank < trace->comms[comm].size; rank++)
		if (ranks[rank].dropped && firsts[rank] > cut)
			cut = firsts[rank];
	free(firsts);
	return cut;
}

/* The part of the rank at `*at` of the call's steps, which moves behind that. Calls of a group
   overlap. */
static struct plan_program_part take_part(
	const struct plan_trace_call *call, int *at, int64_t *ends_ns)
{
	int rank = call->steps[*at].rank;
	int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;

	for (; *at < call->count && call->steps[*at].rank == rank; ++*at) {
		const struct plan_trace_step *step = &call->steps[*at];

		begin_ns = rd_shorter(begin_ns, step->begin_ns);
		end_ns = rd_longer(end_ns, step->begin_ns + step->wait_ns + step->work_ns);
	}

	int64_t gap_ns = rd_longer(0, begin_ns - ends_ns[rank]);

	ends_ns[rank] = rd_longer(ends_ns[rank], end_ns);
	return (struct plan_program_part){ rank, gap_ns, end_ns - begin_ns };
}

static void add_call(
	struct plan_program *program, const struct plan_trace_call *call, int64_t *ends_ns)
{
	struct plan_program_call *it = &program->calls[program->call_count++];
	int at = 0;

	*it = (struct plan_program_call){ call, program->parts + program->part_count, 0 };
	while (at < call->count) {
		program->parts[program->part_count++] = take_part(call, &at, ends_ns);
		it->part_count++;
	}
}

static bool is_whole(
	const struct plan_program *program, const struct plan_trace_call *call, int64_t cut)
{
	return call->key->comm == program->comm && call->begin_ns > cut &&
	       (program->trace->of_calls || !plan_traced_is_short(call));
}

static void add_calls(struct plan_program *program, int64_t cut, int64_t *ends_ns)
{
	const struct plan_trace *trace = program->trace;
	int64_t begin_ns = 0, end_ns = 0;

	for (int i = 0; i < trace->call_count; i++) {
		const struct plan_trace_call *call = &trace->calls[i];

		if (!is_whole(program, call, cut)) {
			program->left_out++;
			continue;
		}
		if (program->call_count == 0) {
			begin_ns = end_ns = call->begin_ns;
			for (int rank = 0; rank < program->ranks; rank++)
				ends_ns[rank] = begin_ns;
		}
		end_ns = rd_longer(end_ns, call->end_ns);
		add_call(program, call, ends_ns);
	}
	program->measured_ns = end_ns - begin_ns;
}

int plan_program_make(struct plan_program *program, struct plan_trace *trace)
{
	*program = (struct plan_program){ .trace = trace, .comm = trace->calls[0].key->comm };
	program->ranks = trace->comms[program->comm].size;

	int64_t cut = cut_ns(trace, program->comm);
	int64_t *ends_ns = calloc((size_t)program->ranks, sizeof(*ends_ns));

	program->calls = calloc((size_t)trace->call_count, sizeof(*program->calls));
	program->parts = calloc((size_t)trace->step_count, sizeof(*program->parts));
	if (ends_ns && program->calls && program->parts && cut < INT64_MAX)
		add_calls(program, cut, ends_ns);
	else
		cut = INT64_MAX;
	free(ends_ns);
	if (cut == INT64_MAX)
		return rd_fail(RONDO_MEMORY, "no memory for a program");
	return program->call_count > 0
		       ? 0
		       : rd_fail(RONDO_INVALID, "the trace has no whole call: steps were dropped");
}

void plan_program_finish(struct plan_program *program)
{
	free(program->calls);
	free(program->parts);
	*program = (struct plan_program){ 0 };
}

/* ---- Simulating it -------------------------------------------------------------------------- */

/* The plans of calls that are alike. */
struct kind {
	struct plan_trace_key key; /* of the first of them */
	struct plan_options options;
	struct rd_problem problem;
	struct plan_simulated simulated;
	struct kind *next;
};

struct run {
	const struct plan_program *program;
	struct plan_problem *made;
	const struct plan_options *options;
	struct network *network;
	struct kind *kinds;
	int64_t *now_ps; /* [ranks] */
	int64_t *starts_ps; /* [ranks]: of the call at hand */
	int lacking; /* calls of which the trace lacks steps */
};

static bool is_alike(const struct plan_trace_key *a, const struct plan_trace_key *b)
{
	return a->collective == b->collective && a->algorithm == b->algorithm &&
	       a->root == b->root && a->target == b->target;
}

static int create_kind(struct run *run, struct kind *kind, const struct plan_trace_call *call)
{
	const struct rd_algorithm *algorithm;
	int err = plan_traced_make(run->made, &kind->options, run->program->trace, call);

	kind->key = *call->key;
	kind->problem = run->made->problem;
	if (!err)
		err = plan_traced_algorithm(&algorithm, run->made, &kind->options);
	return err ? err
		   : plan_simulated_create(
			     &kind->simulated, run->made, &kind->options, algorithm, run->network);
}

/* Returns the plans of the call, which become those of run->made. */
static int find_kind(struct run *run, const struct plan_trace_call *call, struct kind **found)
{
	struct kind *kind = run->kinds;

	while (kind && !is_alike(&kind->key, call->key))
		kind = kind->next;
	if (kind) {
		run->made->problem = kind->problem;
		plan_traced_cut(&kind->options, call);
		*found = kind;
		return plan_traced_check(run->program->trace, call);
	}
	kind = calloc(1, sizeof(*kind));
	if (!kind)
		return rd_fail(RONDO_MEMORY, "no memory for the plans of a program");
	kind->options = *run->options;
	kind->next = run->kinds;
	run->kinds = *found = kind;
	return create_kind(run, kind, call);
}

static int set_starts(struct run *run, const struct plan_program_call *it)
{
	for (int rank = 0; rank < run->program->ranks; rank++)
		run->starts_ps[rank] = run->now_ps[rank];
	for (int i = 0; i < it->part_count; i++) {
		const struct plan_program_part *part = &it->parts[i];

		if (part->gap_ns > (SIMULATION_PS_MAX - run->now_ps[part->rank]) / 1000)
			return rd_fail(RONDO_UNSUPPORTED, "the program takes more than 13 days");
		run->starts_ps[part->rank] += 1000 * part->gap_ns;
	}
	return 0;
}

/* Moves the ranks of the call to its end. Returns its time. */
static int64_t end_call(
	struct run *run, const struct plan_program_call *it, const struct simulation *simulation)
{
	int64_t first_ps = INT64_MAX, last_ps = 0;

	for (int i = 0; i < it->part_count; i++) {
		int rank = it->parts[i].rank;

		first_ps = rd_shorter(first_ps, run->starts_ps[rank]);
		run->now_ps[rank] = simulation->ranks[rank].end_ps;
		last_ps = rd_longer(last_ps, run->now_ps[rank]);
	}
	return (last_ps - first_ps) / 1000;
}

/* Simulations have no FLUSH. */
static int64_t traced_steps(const struct plan_trace *trace, const struct plan_trace_call *call)
{
	int64_t count = 0;

	for (int i = 0; i < call->count; i++)
		count += strcmp(trace->names[call->steps[i].kind], "flush") != 0;
	return count;
}

static int run_call(struct run *run, int index, int64_t *call_ns)
{
	const struct plan_program_call *it = &run->program->calls[index];
	struct plan_trace *trace = run->program->trace;
	struct kind *kind = NULL;
	int err = find_kind(run, it->call, &kind);
	int64_t steps = err ? 0 : plan_simulated_steps(&kind->simulated, kind->options.size);

	if (!err)
		err = plan_traced_spend(trace, it->call, steps);
	if (!err)
		err = set_starts(run, it);
	if (err)
		return err;
	/* The ranks of a v-call have steps for their own lengths. */
	run->lacking +=
		!trace->of_calls && !it->call->is_v_call && traced_steps(trace, it->call) < steps;
	/* Each call draws its own numbers. */
	kind->options.seed = run->options->seed ^ index;
	kind->simulated.starts_ps = run->starts_ps;
	err = plan_simulated_run(&kind->simulated, kind->options.size);
	if (!err)
		*call_ns = end_call(run, it, &kind->simulated.simulation);
	return err;
}

static void destroy_kinds(struct kind *kind)
{
	while (kind) {
		struct kind *next = kind->next;

		plan_simulated_destroy(&kind->simulated);
		free(kind);
		kind = next;
	}
}

int plan_program_simulate(const struct plan_program *program, struct plan_problem *made,
	const struct plan_options *options, struct network *network, int64_t *calls_ns,
	int64_t *end_ns, int *lacking)
{
	struct run run = {
		.program = program, .made = made, .options = options, .network = network
	};
	size_t ranks = (size_t)program->ranks;
	int err = 0;

	run.now_ps = calloc(ranks, sizeof(*run.now_ps));
	run.starts_ps = calloc(ranks, sizeof(*run.starts_ps));
	if (!run.now_ps || !run.starts_ps)
		err = rd_fail(RONDO_MEMORY, "no memory for a simulation");
	for (int i = 0; i < program->call_count && !err; i++)
		err = run_call(&run, i, &calls_ns[i]);
	*lacking = run.lacking;
	*end_ns = 0;
	for (size_t rank = 0; rank < ranks && !err; rank++)
		*end_ns = rd_longer(*end_ns, run.now_ps[rank] / 1000);
	destroy_kinds(run.kinds);
	free(run.now_ps);
	free(run.starts_ps);
	return err;
}
