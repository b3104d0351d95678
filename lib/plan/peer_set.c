#include "plan/peer_set.h"

#include <stdlib.h>

#include "base/error.h"

/* Marks the peers of a plan with 1; `marks` has a byte for each rank. */
static void mark_peers(unsigned char *marks, const struct rd_plan *plan)
{
	for (int i = 0; i < plan->step_count; i++) {
		const struct rd_step *step = &plan->steps[i];

		if (rd_step_puts(step))
			marks[step->to] = 1;
		if (rd_step_takes(step))
			marks[step->peer] = 1;
	}
}

/* The set of all marked ranks. */
static int collect(struct rd_peer_set *peers, const unsigned char *marks, int size)
{
	int count = 0;

	for (int rank = 0; rank < size; rank++)
		count += marks[rank];
	peers->count = 0;
	peers->at = malloc((size_t)count * sizeof(*peers->at) + 1);
	if (!peers->at)
		return rd_fail(RONDO_MEMORY, "no memory for the peers of a plan");
	for (int rank = 0; rank < size; rank++)
		if (marks[rank])
			peers->at[peers->count++] = rank;
	return 0;
}

int rd_peer_set_of_plans(
	struct rd_peer_set *peers, const struct rd_plan *const *plans, int plan_count)
{
	int size = plans[0]->real.size, err;
	unsigned char *marks = calloc((size_t)size, 1);

	if (!marks)
		return rd_fail(RONDO_MEMORY, "no memory for the peers of a plan");
	for (int i = 0; i < plan_count; i++)
		if (i == 0 || plans[i] != plans[i - 1])
			mark_peers(marks, plans[i]);
	marks[plans[0]->real.rank] = 0;
	err = collect(peers, marks, size);
	free(marks);
	return err;
}

int rd_peer_set_of_all(struct rd_peer_set *peers, int rank, int size)
{
	peers->count = 0;
	peers->at = malloc((size_t)size * sizeof(*peers->at));
	if (!peers->at)
		return rd_fail(RONDO_MEMORY, "no memory for %d peers", size);
	for (int peer = 0; peer < size; peer++)
		if (peer != rank)
			peers->at[peers->count++] = peer;
	return 0;
}

void rd_peer_set_finish(struct rd_peer_set *peers)
{
	free(peers->at);
	*peers = (struct rd_peer_set){ .at = NULL };
}
