#include "difference.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "document.h"

/* A difference below this part of the call is noise, by whatever factor. */
#define NOISE_PART 100

/* ---- Plans ---------------------------------------------------------------------------------- */

static int make_plans(struct plan_difference *difference)
{
	struct rd_problem problem = difference->made->problem;
	int err = 0;

	difference->ranks = problem.size;
	difference->plans = calloc((size_t)problem.size, sizeof(*difference->plans));
	if (!difference->plans)
		return rd_fail(RONDO_MEMORY, "no memory for a difference");
	for (problem.rank = 0; problem.rank < problem.size && !err; problem.rank++)
		err = rd_plan_create(
			&difference->plans[problem.rank], difference->algorithm, &problem);
	return err;
}

/* The steps of a call are sorted by rank. */
static void find_firsts(struct plan_difference *difference)
{
	const struct plan_trace_call *call = difference->call;
	int at = 0;

	for (int rank = 0; rank <= difference->made->problem.size; rank++) {
		while (at < call->count && call->steps[at].rank < rank)
			at++;
		difference->firsts[rank] = at;
	}
}

static bool is_step(const struct plan_difference *difference, const struct plan_trace_step *traced,
	const struct rd_step *step)
{
	char kind[PLAN_KIND_SIZE];

	return strcmp(difference->trace->names[traced->kind], plan_kind(step, kind)) == 0 &&
	       traced->chunk == step->chunk && traced->peer == step->peer && traced->to == step->to;
}

bool plan_difference_is_planned(const struct plan_difference *difference, int index)
{
	const struct plan_trace_step *traced = &difference->call->steps[index];
	const struct rd_plan *plan = difference->plans[traced->rank];
	int64_t place = (int64_t)traced->piece * plan->step_count + traced->step;

	return traced->step < plan->step_count &&
	       (uint64_t)traced->piece < difference->simulated.pieces &&
	       place == index - difference->firsts[traced->rank] &&
	       is_step(difference, traced, &plan->steps[traced->step]);
}

/* ---- Times ---------------------------------------------------------------------------------- */

static void see_step(
	void *context, int rank, uint64_t piece, int number, int64_t begin_ps, int64_t end_ps)
{
	struct plan_difference *difference = context;
	const struct rd_plan *plan = difference->plans[rank];
	int step = number > 0 ? difference->seen[rank] + 1 : 0;

	while (plan->steps[step].kind == RD_STEP_FLUSH)
		step++;
	difference->seen[rank] = step;

	uint64_t index = (uint64_t)difference->firsts[rank] + piece * (uint64_t)plan->step_count +
			 (uint64_t)step;

	if (index < (uint64_t)difference->firsts[rank + 1])
		difference->predicted[index] =
			(struct plan_predicted){ 0, begin_ps / 1000, end_ps / 1000 };
}

/* A wait begins where the step before it ended. A FLUSH takes no time. */
static void add_waits(struct plan_difference *difference)
{
	for (int rank = 0; rank < difference->made->problem.size; rank++) {
		int64_t now_ns = 0;

		for (int i = difference->firsts[rank]; i < difference->firsts[rank + 1]; i++) {
			struct plan_predicted *predicted = &difference->predicted[i];

			if (predicted->end_ns < now_ns)
				predicted->begin_ns = predicted->end_ns = now_ns;
			predicted->wait_ns = predicted->begin_ns - now_ns;
			now_ns = predicted->end_ns;
		}
	}
}

static int simulate(struct plan_difference *difference, size_t size)
{
	int err;

	difference->simulated.watch = see_step;
	difference->simulated.watch_context = difference;
	err = plan_simulated_run(&difference->simulated, size);
	difference->predicted_ns = difference->simulated.simulation.end_ps / 1000;
	add_waits(difference);
	return err;
}

/* ---- The first that differs ----------------------------------------------------------------- */

/* Where a rank leaves its plan: the number of its steps that are the plan's. */
static int find_leaving(const struct plan_difference *difference, int rank)
{
	int index = difference->firsts[rank];

	while (index < difference->firsts[rank + 1] &&
		plan_difference_is_planned(difference, index))
		index++;
	return index - difference->firsts[rank];
}

static void find_other(struct plan_difference *difference)
{
	const struct plan_trace_rank *ranks =
		difference->trace->comms[difference->call->key->comm].ranks;
	int64_t first = INT64_MAX;

	difference->other_rank = -1;
	for (int rank = 0; rank < difference->made->problem.size; rank++) {
		int count = difference->plans[rank]->step_count;
		int there = difference->firsts[rank + 1] - difference->firsts[rank];
		int64_t wanted = (int64_t)difference->simulated.pieces * count;
		int left = find_leaving(difference, rank);

		/* It has the last steps. */
		difference->left_out |= there < wanted && ranks[rank].dropped;
		if ((left == wanted && left == there) || left >= first)
			continue;
		first = left;
		difference->other = left < there ? difference->firsts[rank] + left : -1;
		difference->other_rank = rank;
		difference->other_piece = count > 0 ? left / count : 0;
		difference->other_step = count > 0 ? left % count : 0;
	}
}

static bool is_late(const struct plan_difference *difference, int index, double within)
{
	const struct plan_trace_step *step = &difference->call->steps[index];
	const struct plan_predicted *predicted = &difference->predicted[index];
	int64_t measured_ns = step->wait_ns + step->work_ns;
	int64_t predicted_ns = predicted->wait_ns + predicted->end_ns - predicted->begin_ns;
	int64_t more = rd_longer(measured_ns, predicted_ns);
	int64_t less = rd_shorter(measured_ns, predicted_ns);
	int64_t call_ns = difference->call->end_ns - difference->call->begin_ns;

	return (double)more > within * (double)less &&
	       more - less > rd_longer(call_ns, difference->predicted_ns) / NOISE_PART;
}

static int64_t end_of(const struct plan_trace_step *step)
{
	return step->begin_ns + step->wait_ns + step->work_ns;
}

static void find_late(struct plan_difference *difference, double within)
{
	const struct plan_trace_step *steps = difference->call->steps;

	difference->late = -1;
	for (int i = 0; i < difference->call->count; i++)
		if (plan_difference_is_planned(difference, i) && is_late(difference, i, within) &&
			(difference->late < 0 ||
				end_of(&steps[i]) < end_of(&steps[difference->late])))
			difference->late = i;
}

/* ---- Making it ------------------------------------------------------------------------------ */

/* Whether the plans of the call before are this one's. */
static bool has_plans(const struct plan_difference *difference, const struct plan_trace_call *call)
{
	const struct plan_trace_key *a = call->key, *b;

	if (!difference->plans)
		return false;
	b = difference->call->key;
	return a->comm == b->comm && a->collective == b->collective &&
	       a->algorithm == b->algorithm && a->root == b->root && a->target == b->target;
}

static void forget_call(struct plan_difference *difference)
{
	free(difference->firsts);
	free(difference->seen);
	free(difference->predicted);
	difference->firsts = difference->seen = NULL;
	difference->predicted = NULL;
}

static int create_simulated(struct plan_difference *difference, const struct plan_options *options,
	struct network *network)
{
	int err = plan_traced_algorithm(&difference->algorithm, difference->made, options);

	return err ? err
		   : plan_simulated_create(&difference->simulated, difference->made, options,
			     difference->algorithm, network);
}

/* Packed plans are small: the bound comes before the others are written. */
static int create(struct plan_difference *difference, const struct plan_options *options,
	struct network *network)
{
	size_t size = (size_t)difference->made->problem.size;
	int err = difference->plans ? 0 : create_simulated(difference, options, network);

	if (!err)
		err = plan_traced_spend(difference->trace, difference->call,
			plan_simulated_steps(&difference->simulated, options->size));
	if (err)
		return err;
	difference->firsts = calloc(size + 1, sizeof(*difference->firsts));
	difference->seen = calloc(size, sizeof(*difference->seen));
	difference->predicted =
		calloc((size_t)difference->call->count, sizeof(*difference->predicted));
	if (!difference->firsts || !difference->seen || !difference->predicted)
		return rd_fail(RONDO_MEMORY, "no memory for a difference");
	find_firsts(difference);
	return difference->plans ? 0 : make_plans(difference);
}

int plan_difference_find(struct plan_difference *difference, struct plan_problem *made,
	struct plan_options *options, struct plan_trace *trace, const struct plan_trace_call *call,
	struct network *network, double within)
{
	forget_call(difference);
	if (!has_plans(difference, call))
		plan_difference_finish(difference);
	difference->trace = trace;
	difference->call = call;
	difference->made = made;

	int err = plan_traced_make(made, options, trace, call);

	difference->left_out = call->is_v_call || plan_traced_is_short(call);
	if (err || difference->left_out)
		return err;
	err = create(difference, options, network);
	if (!err)
		err = simulate(difference, options->size);
	if (err)
		return err;
	find_other(difference);
	find_late(difference, within);
	return 0;
}

void plan_difference_finish(struct plan_difference *difference)
{
	for (int rank = 0; difference->plans && rank < difference->ranks; rank++)
		rd_plan_destroy(difference->plans[rank]);
	free(difference->plans);
	forget_call(difference);
	plan_simulated_destroy(&difference->simulated);
	*difference = (struct plan_difference){ 0 };
}
