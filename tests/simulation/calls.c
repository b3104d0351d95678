#include "calls.h"

#include "any_layout.h"
#include "exec/exec_init.h"
#include "world.h"

/* ---- Plans, kept between runs -------------------------------------------------------------- */

#define PLANS_KEPT (1 << 17)

static struct kept {
	struct rd_problem problem; /* its layout is one of those below */
	const struct rd_algorithm *algorithm;
	struct rd_plan *plan;
} kept[PLANS_KEPT];

/* Hosts of about the same number of ranks, in order. */
static const struct rd_layout *layout_for(int size, int hosts)
{
	static struct any_layout layouts[RANKS_MAX + 1][RANKS_MAX + 1];
	struct any_layout *any = &layouts[size][hosts];
	int sizes[RANKS_MAX + 1] = { 0 };

	if (hosts == 1)
		return NULL;
	for (int rank = 0; rank < size && !any->layout.order; rank++)
		sizes[rank * hosts / size]++;
	return any->layout.order ? &any->layout : layout_of(any, sizes, 0);
}

static const struct rd_plan *plan_for(
	const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	size_t at = (size_t)problem->collective * 31 + (size_t)(uintptr_t)algorithm / 64;

	at = ((at * 31 + (size_t)problem->rank) * 31 + (size_t)problem->size) * 31 +
	     (size_t)problem->root;
	at = at * 31 + (problem->layout ? (size_t)problem->layout->group_count : 0);
	for (at %= PLANS_KEPT; kept[at].plan; at = (at + 1) % PLANS_KEPT)
		if (kept[at].algorithm == algorithm &&
			kept[at].problem.collective == problem->collective &&
			kept[at].problem.rank == problem->rank &&
			kept[at].problem.size == problem->size &&
			kept[at].problem.root == problem->root &&
			kept[at].problem.layout == problem->layout)
			return kept[at].plan;
	if (rd_plan_create(&kept[at].plan, algorithm, problem))
		return NULL;
	kept[at].problem = *problem;
	kept[at].algorithm = algorithm;
	return kept[at].plan;
}

/* ---- Drawing ------------------------------------------------------------------------------- */

/* One of those that can, over links. */
static const struct rd_algorithm *draw_algorithm(
	const struct simulated_job *job, struct draw *stream)
{
	struct rd_problem problem = job_problem(job, 0);
	const struct rd_algorithm *able[RD_ALGORITHMS_KNOWN];
	uint64_t count = 0;

	for (int i = 0; rd_algorithms[i]; i++)
		if (!rd_algorithms[i]->direct_access &&
			rd_algorithm_can(rd_algorithms[i], &problem) > 0)
			able[count++] = rd_algorithms[i];
	return able[draw(stream, count)];
}

void calls_draw(struct world *world, uint64_t seed)
{
	static const size_t counts[] = { 0, 1, 3, 64, 257 };
	struct draw stream = draw_from(seed, 2);

	for (int i = 0; i < world->calls; i++) {
		struct call_plan *plan = &world->plan[i];
		struct simulated_job *job = &plan->job;
		int collective = (int)draw(&stream, RD_COLLECTIVE_COUNT - 1);

		*job = (struct simulated_job){ .size = world->size };
		job->collective = collective == RD_TRANSFER ? RD_BARRIER : collective;
		job->root = (int)draw(&stream, (uint64_t)world->size);
		if (!rd_collective_has_root(job->collective))
			job->root = 0;
		job->type = draw_one_in(&stream, 2) ? RONDO_I64 : RONDO_F32;
		job->op = (rondo_op[]){ RONDO_SUM, RONDO_MIN, RONDO_MAX,
			RONDO_AVG }[draw(&stream, 4)];
		job->in_place = draw_one_in(&stream, 2);
		job->count = job->collective == RD_BARRIER ? 0 : counts[draw(&stream, 5)];
		job->layout = layout_for(world->size, world->hosts);
		plan->algorithm = draw_algorithm(job, &stream);
	}
}

/* ---- A rank's side ------------------------------------------------------------------------- */

/* Lays the memory out as the tests of the simulator do. */
static void lay_out(struct rank_call *made, struct simulated_job *job, int rank)
{
	struct rd_call calls[RANKS_MAX];
	char *memory[2 * RANKS_MAX];

	job->calls = calls;
	job->memory = memory;
	job_lay_out(job, rank);
	made->call = calls[rank];
	made->memory[0] = memory[2 * rank];
	made->memory[1] = memory[2 * rank + 1];
	job->calls = NULL;
	job->memory = NULL;
}

/* Another call than all others make: by count, by type or by collective. */
static void make_differ(struct simulated_job *job, int kind)
{
	if (kind == 0 || job->collective == RD_BARRIER)
		job->count += 2;
	else if (kind == 1)
		job->type = job->type == RONDO_I64 ? RONDO_F32 : RONDO_I64;
	else if (job->collective == RD_ALL_GATHER)
		job->collective = RD_ALL_TO_ALL;
	else
		job->collective = RD_ALL_GATHER;
	if (job->collective == RD_BARRIER)
		job->collective = RD_ALL_GATHER;
	if (!rd_collective_has_root(job->collective))
		job->root = 0;
}

void calls_begin(struct world *world, struct sim_rank *rank)
{
	const struct fault *differ = world_fault(FAULT_differ, rank->rank, rank->call);
	struct call_plan plan = world->plan[rank->call];
	struct rank_call *made = &rank->made;
	struct rd_problem problem;
	const struct rd_plan *steps;

	made->differs = differ;
	if (differ) {
		make_differ(&plan.job, differ->number[2]);
		problem = job_problem(&plan.job, 0);
		if (rd_algorithm_can(plan.algorithm, &problem) <= 0)
			plan.algorithm = rd_algorithm_find(&problem, NULL);
	}
	problem = job_problem(&plan.job, rank->rank);
	steps = plan_for(plan.algorithm, &problem);
	lay_out(made, &plan.job, rank->rank);
	made->call.number = (uint32_t)rank->call + 1;
	for (int channel = 0; channel < world->channels; channel++)
		made->plans[channel] = steps;
	made->scratch =
		malloc(rd_exec_scratch_size(made->plans, world->channels, world->piece) + 1);
	made->marks = malloc(
		(rd_exec_send_mark_count(made->plans, world->channels) + 1) * sizeof(*made->marks));
	rd_exec_init(&rank->exec, made->plans, &made->call,
		simulated_links_of(&world->links, rank->rank), world->channels, world->piece,
		made->scratch, made->marks);
	rank->exec.past_least = world->seed % 2 ? 0 : SIZE_MAX;
}

void calls_check(struct world *world, struct sim_rank *rank)
{
	struct simulated_job job = world->plan[rank->call].job;
	struct rd_call calls[RANKS_MAX];

	if (rank->made.differs)
		return;
	calls[rank->rank] = rank->made.call;
	job.calls = calls;
	if (job_rank_is_right(&job, rank->rank))
		return;
	rank->wrong = true;
	snprintf(rank->wrong_text, sizeof(rank->wrong_text), "call %d: %s", rank->call, job.reason);
}

void calls_end(struct sim_rank *rank)
{
	free(rank->made.memory[0]);
	free(rank->made.memory[1]);
	free(rank->made.scratch);
	free(rank->made.marks);
	memset(&rank->made, 0, sizeof(rank->made));
}
