#include "train/world/world.h"

#include <stdlib.h>

#include "train/base/fail.h"

int world_find_launch(struct rondo_launch *launch)
{
	return rondo_get_launch(launch) ? fail("%s", rondo_last_error()) : 0;
}

void world_set_environment(void)
{
	/* A run can be repeated, and resumed, to the bit. That is worth more here than the quickest
	   algorithm of each bucket. The user's setting stays. */
	setenv("RONDO_REPRODUCIBLE", "1", 0);
}

int world_open_as(struct train_world *world, int gpu, const struct rondo_config *config)
{
	struct rondo_config mine = *config;
	*world = (struct train_world){ .size = 1 };
	mine.gpu = gpu;
	int err = rondo_comm_create(&world->comm, &mine);
	if (err)
		return fail_comm(err, "cannot meet the other ranks");
	world->rank = rondo_comm_rank(world->comm);
	world->size = rondo_comm_size(world->comm);
	return 0;
}

int world_open(struct train_world *world, int gpu)
{
	const struct rondo_config config = RONDO_CONFIG_INIT;
	struct rondo_launch launch;
	*world = (struct train_world){ .size = 1 };
	int err = world_find_launch(&launch);
	if (err || launch.size == 1)
		return err;
	world_set_environment();
	return world_open_as(world, gpu, &config);
}

void world_abort(const struct train_world *world)
{
	if (world->comm)
		rondo_comm_revoke(world->comm, failure());
}

int world_close(struct train_world *world, int err)
{
	if (!world->comm)
		return err;
	if (err > 0)
		world_abort(world);
	int left = rondo_comm_destroy(world->comm);
	world->comm = NULL;
	if (left && !err)
		err = fail_comm(left, "leaving the other ranks");
	return err;
}

int world_agree(const struct train_world *world, int err)
{
	int32_t mine = err ? world->rank : world->size, first = mine;
	int failed = 0;
	if (world->comm)
		failed =
			rondo_all_reduce(world->comm, &mine, &first, 1, RONDO_I32, RONDO_MIN, NULL);
	if (failed)
		return fail_comm(failed, "agreement of all ranks");
	if (first == world->size)
		return 0;
	return first == world->rank ? err : RONDO_REVOKED;
}

int world_broadcast(const struct train_world *world, void *bytes, size_t size)
{
	int err = 0;
	if (world->comm)
		err = rondo_broadcast(world->comm, bytes, bytes, size, RONDO_U8, 0, NULL);
	return err ? fail_comm(err, "broadcast from rank 0") : 0;
}

/* The sum of numbers that lie `stride` apart. */
static double tree_sum(const double *values, int count, size_t stride)
{
	if (count == 1)
		return *values;
	return tree_sum(values, count / 2, stride) +
	       tree_sum(values + count / 2 * stride, count - count / 2, stride);
}

int world_sum(const struct train_world *world, double *values, size_t count)
{
	if (!world->comm)
		return 0;
	double *all = calloc(world->size * count, sizeof(*all)); /* [size][count] */
	if (!all)
		return fail("out of memory");
	int err = rondo_all_gather(world->comm, values, all, count, RONDO_F64, NULL);
	for (size_t i = 0; !err && i < count; i++)
		values[i] = tree_sum(all + i, world->size, count);
	free(all);
	return err ? fail_comm(err, "sum over all ranks") : 0;
}

int world_max(const struct train_world *world, double *values, size_t count)
{
	int err = 0;
	if (world->comm)
		err = rondo_all_reduce(
			world->comm, values, values, count, RONDO_F64, RONDO_MAX, NULL);
	return err ? fail_comm(err, "greatest value of all ranks") : 0;
}

int world_barrier(const struct train_world *world)
{
	int err = world->comm ? rondo_barrier(world->comm, NULL) : 0;
	return err ? fail_comm(err, "barrier") : 0;
}

int world_same(const struct train_world *world, uint64_t number, bool *same)
{
	/* The greatest number, and the greatest of its complement: the least. */
	uint64_t most[2] = { number, ~number };
	int err = 0;
	if (world->comm)
		err = rondo_all_reduce(world->comm, most, most, 2, RONDO_U64, RONDO_MAX, NULL);
	*same = most[0] == ~most[1];
	return err ? fail_comm(err, "comparison of ranks") : 0;
}
