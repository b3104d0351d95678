#include "bootstrap/shrink/vote.h"

#include <stdlib.h>

#include "base/error.h"

static bool is_in(const struct rd_vote *plan, int origin)
{
	for (int i = 0; i < plan->size; i++)
		if (plan->origins[i] == origin)
			return true;
	return false;
}

static int list_ranks(
	const struct rd_shrink *shrink, const struct rd_control *made, struct rd_vote *plan)
{
	const struct rd_member *members = made ? rd_control_members(made) : NULL;

	plan->size = members ? shrink->planned : 1;
	plan->origins = calloc((size_t)plan->size, sizeof(*plan->origins));
	if (!plan->origins)
		return rd_fail(RONDO_MEMORY, "no memory to shrink a comm");
	for (int i = 0; i < plan->size; i++)
		plan->origins[i] =
			members ? members[i].lineage.origin : shrink->lineage->place.origin;
	return 0;
}

/* Where all that are missing are dead for certain, nobody can go on elsewhere. */
static int check(const struct rd_shrink *shrink, const struct rd_vote *plan)
{
	const struct rd_vote *before = shrink->vote;
	int here = 0;

	for (int i = 0; i < before->size; i++)
		here += is_in(plan, before->origins[i]);
	if (before->size == 0 || shrink->lost == 0 || 2 * here > before->size ||
		(2 * here == before->size && is_in(plan, before->origins[0])))
		return 0;
	return rd_fail(RONDO_TIMEOUT,
		"rank %d made a comm of %d ranks, and was cut off before it knew whether they go "
		"on: %d of them are here, fewer than half, or half without the first",
		shrink->rank, before->size, here);
}

int rd_vote(struct rd_shrink *shrink, const struct rd_control *made)
{
	struct rd_vote plan;
	int err = list_ranks(shrink, made, &plan);

	if (!err)
		err = check(shrink, &plan);
	if (err) {
		free(plan.origins);
		return err;
	}
	rd_vote_forget(shrink->vote);
	*shrink->vote = plan;
	return 0;
}

void rd_vote_forget(struct rd_vote *vote)
{
	free(vote->origins);
	*vote = (struct rd_vote){ 0 };
}
