#include "comm/plan_cache.h"

#include <stdlib.h>
#include <string.h>

#include "exec/algorithms.h"
#include "exec/exec_init.h"
#include "tuner/eligible.h"
#include "tuner/thresholds.h"
#include "base/cache_line.h"
#include "base/error.h"
#include "base/log.h"

static void destroy_prepared(struct rd_prepared *prepared)
{
	for (int channel = RD_CHANNELS_MAX - 1; channel >= 0; channel--)
		if (channel == 0 || prepared->plans[channel] != prepared->plans[channel - 1])
			rd_plan_destroy((struct rd_plan *)prepared->plans[channel]);
	rd_peer_set_finish(&prepared->peers);
	free(prepared->scratch);
	free(prepared->send_marks);
	free(prepared);
}

static bool fits(const struct rd_prepared *prepared, const struct rd_problem *problem,
	const struct rd_choice *choice)
{
	return prepared->plans[0]->algorithm == choice->algorithm->name &&
	       prepared->channels == choice->channels &&
	       prepared->piece_size == choice->piece_size &&
	       prepared->plans[0]->problem.root == problem->root &&
	       prepared->plans[0]->problem.target == problem->target;
}

/* A plan for each channel; one where the layout is that of the channel before. */
static int write_plans(const struct rondo_comm *comm, const struct rd_problem *problem,
	const struct rd_choice *choice, struct rd_prepared *prepared)
{
	struct rd_problem here = *problem;
	struct rd_plan *plan = NULL;

	for (int channel = 0; channel < choice->channels; channel++) {
		if (channel == 0 || here.layout != comm->layouts[channel]) {
			here.layout = comm->layouts[channel];

			int err = rd_plan_create(&plan, choice->algorithm, &here);

			if (err)
				return err;
		}
		prepared->plans[channel] = plan;
	}
	return 0;
}

static int create(const struct rondo_comm *comm, const struct rd_problem *problem,
	const struct rd_choice *choice, struct rd_prepared **prepared_out)
{
	struct rd_prepared *prepared = rd_calloc_lines(sizeof(*prepared));

	if (!prepared)
		return rd_fail(RONDO_MEMORY, "no memory for a plan");

	int err = write_plans(comm, problem, choice, prepared);

	if (!err)
		err = rd_peer_set_of_plans(&prepared->peers, prepared->plans, choice->channels);
	if (err) {
		destroy_prepared(prepared);
		return err;
	}
	prepared->channels = choice->channels;
	prepared->piece_size = choice->piece_size;
	prepared->send_marks =
		calloc(rd_exec_send_mark_count(prepared->plans, choice->channels) + 1,
			sizeof(*prepared->send_marks));
	prepared->scratch = malloc(
		rd_exec_scratch_size(prepared->plans, choice->channels, choice->piece_size) + 1);
	if (!prepared->send_marks || !prepared->scratch) {
		destroy_prepared(prepared);
		return rd_fail(RONDO_MEMORY, "no memory for a plan");
	}
	*prepared_out = prepared;
	return 0;
}

/* Whether the algorithm can run this problem on every channel. Returns as rd_algorithm_can(). */
static int can(const struct rondo_comm *comm, const struct rd_problem *problem,
	const struct rd_choice *choice)
{
	struct rd_problem here = *problem;
	int able = 1;

	for (int channel = 0; channel < choice->channels && able > 0; channel++) {
		if (channel > 0 && here.layout == comm->layouts[channel])
			continue;
		here.layout = comm->layouts[channel];
		able = rd_algorithm_can(choice->algorithm, &here);
	}
	return able;
}

/* The first algorithm that can. Built-in ones come first. */
static struct rd_choice simplest(const struct rondo_comm *comm, const struct rd_problem *problem)
{
	return (struct rd_choice){
		.algorithm = rd_algorithm_find(problem, NULL),
		.channels = comm->used_channels,
		.piece_size = comm->piece_size,
	};
}

/*
 * The bytes of a block, for its prediction. Blocks of different lengths count as one of two sizes.
 * Ranks whose callers give different lengths then still run the same plan, whose messages have
 * signatures that reveal it.
 */
static uint64_t block_size(const struct rd_call *call)
{
	uint64_t size = call->count * rondo_type_size(call->type);

	if (call->vcounts)
		return size <= RD_VCOUNTS_MEAN ? RD_VCOUNTS_SHORT : RD_VCOUNTS_LONG;
	return size;
}

static bool sends_pairwise(const struct rd_algorithm *algorithm)
{
	return algorithm->pairwise && !algorithm->direct_access;
}

static bool reads_in_order(const struct rd_algorithm *algorithm)
{
	return algorithm->ordered && algorithm->direct_access;
}

static bool sends_in_order(const struct rd_algorithm *algorithm)
{
	return algorithm->ordered && !algorithm->direct_access;
}

static bool sends_in_turn(const struct rd_algorithm *algorithm)
{
	return sends_in_order(algorithm) && !algorithm->redundant;
}

/* The one algorithm that can run these vcounts, or this user operation; NULL: several can. */
static const struct rd_algorithm *bound_by(const struct rd_call *call, bool peers_mapped)
{
	/* A third rank that passed a block on would not have its length. */
	if (call->vcounts && call->vcounts->pairwise)
		return rd_algorithm_with(&call->problem, sends_pairwise);
	if (!call->user_op || !call->user_op->combine)
		return NULL;
	if (peers_mapped)
		return rd_algorithm_with(&call->problem, reads_in_order);
	return rd_algorithm_with(&call->problem,
		block_size(call) < RD_IN_TURN_LEAST ? sends_in_order : sends_in_turn);
}

/* Chooses without the picker if there is one algorithm, or nothing to do. False: not chosen. */
static bool choose_simply(const struct rondo_comm *comm, const struct rd_call *call,
	bool peers_mapped, struct rd_choice *choice)
{
	const struct rd_problem *problem = &call->problem;
	const struct rd_algorithm *bound = bound_by(call, peers_mapped);

	if (!bound && problem->collective != RD_TRANSFER && problem->size > 1)
		return false;
	*choice = simplest(comm, problem);
	if (bound)
		choice->algorithm = bound;
	return true;
}

/* Takes it out of its list; NULL: there is none. */
static struct rd_prepared *unlink_prepared(
	struct rondo_comm *comm, const struct rd_problem *problem, const struct rd_choice *choice)
{
	struct rd_prepared **at = &comm->prepared[problem->collective], *prepared;

	while (*at && !fits(*at, problem, choice))
		at = &(*at)->next;
	prepared = *at;
	if (prepared)
		*at = prepared->next;
	return prepared;
}

/* ---- RONDO_ALGO names an algorithm that does not run ---------------------------------------- */

/* Not for barriers and transfers: every program has some, whatever RONDO_ALGO is for. */
void rd_warn_of_replacement(
	struct rondo_comm *comm, enum rd_collective collective, const char *runs, const char *why)
{
	const char *named = comm->settings.algo;

	if (!*named || strcmp(named, runs) == 0 || comm->rank > 0 || comm->size == 1 ||
		collective == RD_BARRIER || collective == RD_TRANSFER || comm->calls_itself ||
		atomic_fetch_or(&comm->replaced, 1u << collective) >> collective & 1)
		return;
	rd_log(RD_WARN, RD_PICK, "%s=%s is not used for %s on %d ranks: %s; %s runs it",
		rd_settings_source(&comm->settings, "RONDO_ALGO"), named,
		rd_collective_name(collective), comm->size, why, runs);
}

static const char *why_not(
	const struct rondo_comm *comm, const struct rd_call *call, bool peers_mapped)
{
	const struct rd_algorithm *named = rd_algorithm_called(comm->settings.algo);

	if (!named || !named->write[call->problem.collective])
		return "it has no such collective";
	if (bound_by(call, peers_mapped))
		return call->user_op ? "the program's own operation combines in the order of ranks"
				     : "blocks of different lengths go directly";
	if (named->direct_access && !peers_mapped)
		return "not all buffers can be addressed from all ranks (rondo_mem_alloc())";
	return "it does not run with so many ranks, this root, or hosts like these";
}

int rd_prepare(struct rondo_comm *comm, const struct rd_call *call, bool peers_mapped,
	struct rd_prepared **prepared_out)
{
	struct rd_prepared **list = &comm->prepared[call->problem.collective], *prepared;
	struct rd_choice simple, *chosen = &simple;
	int err = 0;

	if (!choose_simply(comm, call, peers_mapped, &simple)) {
		err = rd_picker_choose(comm->picker, call->problem.collective, block_size(call),
			rd_type_class_of(call->type), peers_mapped, &chosen);
		if (err)
			return err;
	}
	prepared = unlink_prepared(comm, &call->problem, chosen);
	/* It was chosen for one root and layout; these may be others. */
	int able = prepared || chosen == &simple ? 1 : can(comm, &call->problem, chosen);

	if (able < 0)
		return able;
	if (!able) {
		simple = simplest(comm, &call->problem);
		chosen = &simple;
		prepared = unlink_prepared(comm, &call->problem, chosen);
	}
	if (!prepared)
		err = create(comm, &call->problem, chosen, &prepared);
	if (err)
		return err;
	prepared->next = *list;
	*list = prepared;
	rd_short_forget(comm, call->problem.collective);
	prepared->choice = chosen == &simple ? NULL : chosen;
	if (*comm->settings.algo)
		rd_warn_of_replacement(comm, call->problem.collective,
			prepared->plans[0]->algorithm, why_not(comm, call, peers_mapped));
	*prepared_out = prepared;
	return 0;
}

void rd_plan_cache_drop_choices(struct rondo_comm *comm)
{
	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++) {
		rd_short_forget(comm, (enum rd_collective)i);
		for (struct rd_prepared *it = comm->prepared[i]; it; it = it->next)
			it->repeats = RD_STARTS_ANEW;
	}
}

void rd_plan_cache_destroy(struct rondo_comm *comm)
{
	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++) {
		while (comm->prepared[i]) {
			struct rd_prepared *next = comm->prepared[i]->next;

			destroy_prepared(comm->prepared[i]);
			comm->prepared[i] = next;
		}
	}
}
