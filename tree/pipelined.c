/*
 * The hierarchical all-reduce as a pipeline: the ranks of a host sum some chunks while its cable
 * carries others. Each rank of a host reduces one share of the buffer with its counterparts on the
 * other hosts, between a reduce-scatter and an all-gather within its host; all three are rings. The
 * buffer is cut into rounds, and each round begins some steps after the one before. More and
 * shorter messages than those of tree/hierarchical.c: this is for long blocks.
 *
 * Source: as tree/hierarchical.c; T. Hoefler et al., "Implementation and performance analysis of
 * non-blocking collective operations for MPI", SC 2007, for rounds of steps that overlap. Hosts
 * have the same number of ranks here.
 */
#include "tree/tree.h"

#include "tree/groups.h"

/* "Several hosts" in docs/performance.md: of 2, 4 and 8. */
#define ROUNDS 4

/* A ring, and this rank in it. */
struct ring {
	int size, place;
	int next, previous; /* ranks */
};

struct pipeline {
	struct rd_plan *plan;
	struct ring members; /* of this host */
	struct ring hosts; /* this rank's counterparts */
	int inside, between; /* steps of a round before it leaves the host, and from host to host */
};

static struct pipeline pipeline_of(struct rd_plan *plan)
{
	const struct rd_layout *layout = plan->problem.layout;
	int host = layout->group[plan->problem.rank], hosts = layout->group_count;
	int place = rd_group_place(layout, plan->problem.rank);
	int members = rd_group_size(layout, host);

	return (struct pipeline){
		.plan = plan,
		.members = { members, place, rd_group_member(layout, host, place + 1),
			rd_group_member(layout, host, place + members - 1) },
		.hosts = { hosts, host, rd_group_member(layout, rd_wrap(host + 1, hosts), place),
			rd_group_member(layout, rd_wrap(host - 1, hosts), place) },
		.inside = members - 1,
		.between = 2 * (hosts - 1),
	};
}

/* The chunk of a round that has this number in each of the two rings. */
static int chunk_of(const struct pipeline *pipeline, int round, int member, int host)
{
	return (round * pipeline->members.size + member) * pipeline->hosts.size + host;
}

/* A rank sends this in a step of a ring, and took it in the step before. */
static int number_at(const struct ring *ring, int step)
{
	return rd_wrap(ring->place - step - 1, ring->size);
}

/* Sums in the first half of a ring's steps; then a chunk is as complete as it gets there. */
static void take(struct rd_plan *plan, const struct ring *ring, int step, int chunk, bool completes)
{
	if (step >= ring->size - 1)
		rd_recv(plan, ring->previous, chunk);
	else if (step == ring->size - 2 && completes)
		rd_recv_reduce_last(plan, ring->previous, chunk);
	else
		rd_recv_reduce(plan, ring->previous, chunk);
}

static void send_out(const struct pipeline *pipeline, int round, int step)
{
	const struct ring *ring = &pipeline->hosts;

	step -= pipeline->inside;
	if (step >= 0 && step < pipeline->between)
		rd_send(pipeline->plan, ring->next,
			chunk_of(pipeline, round, pipeline->members.place, number_at(ring, step)));
}

static void take_in(const struct pipeline *pipeline, int round, int step)
{
	const struct ring *ring = &pipeline->hosts;

	step -= pipeline->inside;
	if (step >= 0 && step < pipeline->between)
		take(pipeline->plan, ring, step,
			chunk_of(pipeline, round, pipeline->members.place,
				number_at(ring, step + 1)),
			true);
}

static void exchange_inside(const struct pipeline *pipeline, int round, int step)
{
	const struct ring *ring = &pipeline->members;

	if (step >= pipeline->inside)
		step = step < pipeline->inside + pipeline->between ? -1 : step - pipeline->between;
	if (step < 0 || step >= 2 * pipeline->inside)
		return;
	for (int host = 0; host < pipeline->hosts.size; host++) {
		rd_send(pipeline->plan, ring->next,
			chunk_of(pipeline, round, number_at(ring, step), host));
		take(pipeline->plan, ring, step,
			chunk_of(pipeline, round, number_at(ring, step + 1), host), false);
	}
}

/* In each step messages leave for the next host first, and those of the one before are taken last.
   Links have room for two: as many rounds are between hosts at once. */
static void all_reduce(struct rd_plan *plan)
{
	static void (*const acts[])(
		const struct pipeline *, int, int) = { send_out, exchange_inside, take_in };
	struct pipeline pipeline = pipeline_of(plan);
	int gap = pipeline.between / 2;
	int steps = 2 * pipeline.inside + pipeline.between + (ROUNDS - 1) * gap;

	rd_plan_parts(plan, ROUNDS * plan->problem.size);
	for (int step = 0; step < steps; step++)
		for (int act = 0; act < 3; act++)
			for (int round = 0; round < ROUNDS; round++)
				acts[act](&pipeline, round, step - round * gap);
}

static bool may_run(const struct rd_problem *problem)
{
	const struct rd_layout *layout = problem->layout;
	bool even = rd_groups_exist(problem) && rd_group_size(layout, 0) > 1;

	for (int host = 1; even && host < layout->group_count; host++)
		even = rd_group_size(layout, host) == rd_group_size(layout, 0);
	return even;
}

const struct rd_algorithm rd_pipelined = {
	.name = "pipelined",
	.write = { [RD_ALL_REDUCE] = all_reduce },
	.may_run = may_run,
};
