#include "train/recovery.h"

#include <stdio.h>
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/replica.h"

static int allocate(float **copy, size_t elements)
{
	if (!*copy)
		*copy = calloc(elements + 1, sizeof(**copy));
	return *copy ? 0 : fail("out of memory to keep %zu values of a step", elements);
}

static int allocate_all(struct recovery *recovery, const struct train *train)
{
	const struct model *model = train->model;
	int err = allocate(&recovery->parameters, model->parameters.elements);
	if (!err)
		err = allocate(&recovery->buffers, model->buffers.elements);
	for (int s = 0; !err && s < train->optimizer->state_count; s++)
		err = allocate(&recovery->state[s], model->parameters.elements);
	return err;
}

void recovery_finish(struct recovery *recovery)
{
	free(recovery->parameters);
	free(recovery->buffers);
	free(recovery->state[0]);
	free(recovery->state[1]);
	*recovery = (struct recovery){ 0 };
}

/* ---- Keeping ---- */

int recovery_keep(struct recovery *recovery, struct train *train)
{
	const struct device_ops *ops = train->device->ops;
	const struct tensors *parameters = &train->model->parameters;
	const struct tensors *buffers = &train->model->buffers;
	int err = allocate_all(recovery, train);
	/* While it changes, it is no step's: no call can fail between here and the end but by the
	   device, which ends the run. */
	if (!err)
		err = ops->get(train->device, recovery->parameters, parameters->values,
			parameters->elements * sizeof(float));
	if (!err && buffers->elements)
		err = ops->get(train->device, recovery->buffers, buffers->values,
			buffers->elements * sizeof(float));
	for (int s = 0; !err && s < train->optimizer->state_count; s++)
		err = ops->get(train->device, recovery->state[s], replica_state(train, s),
			parameters->elements * sizeof(float));
	recovery->global_batch = train->options.global_batch;
	recovery->point = (struct recovery_point){ .step = train->step,
		.last_step = train->last_step,
		.optimizer_step = train->optimizer->step,
		.epochs = train->epochs,
		.scale = train->loss_scale.value,
		.good_steps = train->loss_scale.good_steps };
	return err;
}

/* ---- Going on ---- */

bool recovery_shrink(struct train_world *world)
{
	rondo_comm *shrunk;
	if (!world->comm || rondo_comm_failed(world->comm, NULL, 0) < 1)
		return false;
	if (rondo_comm_shrink(world->comm, &shrunk)) {
		fprintf(stderr, "rondo-train: cannot go on: %s\n", rondo_last_error());
		return false;
	}
	rondo_comm_destroy(world->comm);
	*world = (struct train_world){
		.comm = shrunk, .rank = rondo_comm_rank(shrunk), .size = rondo_comm_size(shrunk)
	};
	return true;
}

static int broadcast(const struct train_world *world, void *bytes, size_t size, int root)
{
	int err = rondo_broadcast(world->comm, bytes, bytes, size, RONDO_U8, root, NULL);
	return err ? fail_comm(err, "broadcast of the last step") : 0;
}

/* The lowest rank with the latest step; -1: none has one. */
static int find_latest(const struct recovery *recovery, const struct train_world *world, int *root)
{
	int64_t latest = recovery->parameters ? recovery->point.step : -1;
	int32_t first = world->size;
	int64_t mine = latest;
	int err = rondo_all_reduce(world->comm, &latest, &latest, 1, RONDO_I64, RONDO_MAX, NULL);
	if (!err && mine == latest)
		first = world->rank;
	if (!err)
		err = rondo_all_reduce(world->comm, &first, &first, 1, RONDO_I32, RONDO_MIN, NULL);
	*root = latest < 0 ? -1 : first;
	return err ? fail_comm(err, "search for the last step") : 0;
}

static void put(struct recovery *recovery, struct train *train)
{
	const struct model *model = train->model;
	const struct device_ops *ops = train->device->ops;
	ops->put(train->device, model->parameters.values, recovery->parameters,
		model->parameters.elements * sizeof(float));
	ops->put(train->device, model->buffers.values, recovery->buffers,
		model->buffers.elements * sizeof(float));
	for (int s = 0; s < train->optimizer->state_count; s++)
		ops->put(train->device, train->optimizer->state[s], recovery->state[s],
			model->parameters.elements * sizeof(float));
	train->step = recovery->point.step;
	train->last_step = recovery->point.last_step;
	train->epochs = recovery->point.epochs;
	train->optimizer->step = recovery->point.optimizer_step;
	train->loss_scale.value = recovery->point.scale;
	train->loss_scale.good_steps = recovery->point.good_steps;
}

static int share(struct recovery *recovery, const struct train *train, int root)
{
	const struct train_world *world = train->world;
	const struct model *model = train->model;
	size_t size = model->parameters.elements * sizeof(float);
	int err = broadcast(world, &recovery->point, sizeof(recovery->point), root);
	if (!err)
		err = broadcast(world, recovery->parameters, size, root);
	if (!err)
		err = broadcast(
			world, recovery->buffers, model->buffers.elements * sizeof(float), root);
	for (int s = 0; !err && s < train->optimizer->state_count; s++)
		err = broadcast(world, recovery->state[s], size, root);
	return err;
}

static int receive(struct recovery *taken, const struct train *train, int root)
{
	int err = world_agree(train->world, allocate_all(taken, train));
	return err ? err : share(taken, train, root);
}

int recovery_restore(struct recovery *recovery, struct train *train)
{
	const struct train_world *world = train->world;
	int root, err = find_latest(recovery, world, &root);
	if (err || root < 0)
		return err;
	/* The root may die now: until all is there, this rank's own step stays. */
	struct recovery taken = { .global_batch = recovery->global_batch };
	if (world->rank != root) {
		err = receive(&taken, train, root);
		if (err)
			recovery_finish(&taken);
		if (err)
			return err;
		recovery_finish(recovery);
		*recovery = taken;
	} else {
		err = world_agree(world, 0);
		if (!err)
			err = share(recovery, train, root);
		if (err)
			return err;
	}
	put(recovery, train);
	report_line(train->report, "Going on with %d rank%s after step %lld", world->size,
		world->size > 1 ? "s" : "", (long long)train->step);
	return train->device->ops->wait(train->device);
}
