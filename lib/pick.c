/* Which algorithm runs a call; its plan is written once and kept. */
#include <stdlib.h>
#include <string.h>

#include "algorithms.h"
#include "comm.h"
#include "error.h"
#include "log.h"
#include "mesh/doubling.h"
#include "mesh/mapped.h"

void rd_prepared_destroy(struct rd_prepared *prepared)
{
	if (!prepared)
		return;
	for (int channel = RD_CHANNELS_MAX - 1; channel >= 0; channel--)
		if (channel == 0 || prepared->plans[channel] != prepared->plans[channel - 1])
			rd_plan_destroy((struct rd_plan *)prepared->plans[channel]);
	free(prepared->scratch);
	free(prepared->tickets);
	free(prepared);
}

/* Up to this size an all-reduce is a matter of latency alone: few messages beat few bytes. */
#define SMALL (16 << 10)

int rd_pick_check(const char *name)
{
	char known[128] = "";

	for (int i = 0; rd_algorithms[i]; i++) {
		if (!*name || strcmp(name, rd_algorithms[i]->name) == 0)
			return 0;
		strncat(known, i ? ", " : "", sizeof(known) - strlen(known) - 1);
		strncat(known, rd_algorithms[i]->name, sizeof(known) - strlen(known) - 1);
	}
	return rd_fail(RONDO_SETTING,
		"RONDO_ALGO is \"%s\", which is no algorithm: choose among %s", name, known);
}

static const struct rd_algorithm *named(const struct rd_problem *problem, const char *name)
{
	return *name ? rd_algorithm_find(problem, name) : NULL;
}

/* RONDO_ALGO where it names one that can do this; else what suits the size; else the first that can. */
static const struct rd_algorithm *choose(
	const struct rondo_comm *comm, const struct rd_call *call, bool within_reach)
{
	const struct rd_algorithm *algorithm = named(&call->problem, comm->settings.algo);

	if (algorithm)
		return algorithm;
	if (within_reach)
		return &rd_mapped;
	if (call->problem.collective == RD_ALL_REDUCE &&
		call->count * rondo_type_size(call->type) <= SMALL)
		return &rd_doubling;
	return rd_algorithm_find(&call->problem, NULL);
}

/* A plan for each channel; one where the layout is that of the channel before. */
static int write_plans(const struct rondo_comm *comm, const struct rd_problem *problem,
	const struct rd_algorithm *algorithm, struct rd_prepared *prepared)
{
	struct rd_problem here = *problem;
	struct rd_plan *plan = NULL;

	for (int channel = 0; channel < comm->channels; channel++) {
		if (channel == 0 || here.layout != comm->layouts[channel]) {
			here.layout = comm->layouts[channel];

			int err = rd_plan_create(&plan, algorithm, &here);

			if (err)
				return err;
		}
		prepared->plans[channel] = plan;
	}
	return 0;
}

static int prepare(const struct rondo_comm *comm, const struct rd_problem *problem,
	const struct rd_algorithm *algorithm, struct rd_prepared **prepared_out)
{
	struct rd_prepared *prepared = calloc(1, sizeof(*prepared));

	if (!prepared)
		return rd_fail(RONDO_MEMORY, "no memory for a plan");

	int err = write_plans(comm, problem, algorithm, prepared);

	if (err) {
		rd_prepared_destroy(prepared);
		return err;
	}
	prepared->tickets = calloc(rd_exec_ticket_count(prepared->plans, comm->channels) + 1,
		sizeof(*prepared->tickets));
	prepared->scratch =
		malloc(rd_exec_scratch_size(prepared->plans, comm->channels, comm->piece_size) + 1);
	if (!prepared->tickets || !prepared->scratch) {
		rd_prepared_destroy(prepared);
		return rd_fail(RONDO_MEMORY, "no memory for a plan");
	}
	rd_log(RD_INFO, RD_PICK, "%s on %d ranks: %s, %d steps, channels %d, pieces of %zu bytes",
		rd_collective_name(problem->collective), problem->size, algorithm->name,
		prepared->plans[0]->step_count, comm->channels, comm->piece_size);
	*prepared_out = prepared;
	return 0;
}

static bool fits(const struct rd_prepared *prepared, const struct rd_problem *problem,
	const struct rd_algorithm *algorithm)
{
	return prepared->plans[0]->algorithm == algorithm->name &&
	       prepared->plans[0]->problem.root == problem->root &&
	       prepared->plans[0]->problem.target == problem->target;
}

int rd_pick(struct rondo_comm *comm, const struct rd_call *call, bool within_reach,
	struct rd_prepared **prepared)
{
	struct rd_prepared **list = &comm->prepared[call->problem.collective];
	const struct rd_algorithm *algorithm = choose(comm, call, within_reach);

	for (*prepared = *list; *prepared; *prepared = (*prepared)->next)
		if (fits(*prepared, &call->problem, algorithm))
			return 0;

	int err = prepare(comm, &call->problem, algorithm, prepared);

	if (err)
		return err;
	(*prepared)->next = *list;
	*list = *prepared;
	return 0;
}
