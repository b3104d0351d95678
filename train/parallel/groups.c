#include "train/parallel/groups.h"

#include <string.h>

#include "train/base/fail.h"

static const struct train_world alone = { .size = 1 };

/* The ranks with the same color, in the order of the world. A negative color: this rank alone. */
static int split(struct train_world *group, const struct train_world *world, int color)
{
	rondo_comm *comm = NULL;
	*group = alone;
	int err = rondo_comm_split(world->comm, color, 0, &comm);
	if (err)
		return fail_comm(err, "cannot divide the ranks into groups");
	if (!comm)
		return 0;
	*group = (struct train_world){
		.comm = comm, .rank = rondo_comm_rank(comm), .size = rondo_comm_size(comm)
	};
	if (group->size > 1)
		return 0;
	/* It needs none. */
	rondo_comm_destroy(comm);
	group->comm = NULL;
	return 0;
}

int groups_open(struct groups *groups, const struct train_world *world, int tensor, int stages)
{
	*groups = (struct groups){ .world = world,
		.tensor = alone,
		.pipeline = alone,
		.data = *world,
		.replica = alone,
		.ends = alone };
	int parts = tensor * stages, rank = world->rank;
	if (parts == 1)
		return 0;
	groups->data = alone;
	/* Every rank sees it. Rank 0 alone fails, which aborts the others. */
	if (world->size % parts)
		return rank ? world_barrier(world)
			    : fail("--tensor %d --pipeline %d: needs a multiple of %d "
				   "ranks, not %d",
				      tensor, stages, parts, world->size);
	int stage = rank / tensor % stages, column = rank % tensor;
	bool is_end = stages > 1 && (stage == 0 || stage == stages - 1);
	int err = split(&groups->tensor, world, rank / tensor);
	if (!err)
		err = split(&groups->pipeline, world, rank / parts * tensor + column);
	if (!err)
		err = split(&groups->data, world, rank % parts);
	if (!err)
		err = split(&groups->replica, world, rank / parts);
	if (!err)
		err = split(&groups->ends, world, is_end ? rank / parts * tensor + column : -1);
	return err;
}

/* All but the world. */
static void abort_groups(const struct groups *groups)
{
	const struct train_world *all[] = { &groups->tensor, &groups->pipeline, &groups->data,
		&groups->replica, &groups->ends };
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i]->comm && all[i]->comm != groups->world->comm)
			rondo_comm_revoke(all[i]->comm, failure());
}

void groups_abort(const struct groups *groups)
{
	abort_groups(groups);
	world_abort(groups->world);
}

int groups_close(struct groups *groups, int err)
{
	struct train_world *all[] = { &groups->tensor, &groups->pipeline, &groups->data,
		&groups->replica, &groups->ends };
	size_t count = sizeof(all) / sizeof(*all);
	/* All of them before the first is left: leaving waits for the others. */
	if (err)
		abort_groups(groups);
	for (size_t i = 0; i < count; i++) {
		rondo_comm *comm = all[i]->comm;
		*all[i] = alone;
		if (!comm || comm == groups->world->comm)
			continue;
		int left = rondo_comm_destroy(comm);
		if (left && !err)
			err = fail_comm(left, "leaving a group of ranks");
	}
	return err;
}
