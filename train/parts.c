#include "train/parts.h"

#include <stdlib.h>

#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/model/cut.h"

static bool is_whole(const struct train *train)
{
	return train->groups->replica.size == 1;
}

int parts_options(const struct train *train)
{
	const struct options *options = &train->options;
	const char *refused = options->checkpoint ? "--checkpoint"
			      : options->resume   ? "--resume"
						  : NULL;
	/* Every rank sees it. Rank 0 alone fails, which aborts the others. */
	if (is_whole(train) || !refused || train->world->rank)
		return 0;
	return fail(
		"%s: not with --tensor or --pipeline, where no rank has all parameters", refused);
}

int parts_config(
	const struct train *train, const struct samples *samples, struct model_config *config)
{
	const struct groups *groups = train->groups;
	const struct options *options = &train->options;
	int stage = groups->pipeline.rank, stages = groups->pipeline.size;
	config->tensor_group = &groups->tensor;
	if (stages == 1)
		return 0;
	int *first = calloc(stages + 1, sizeof(*first));
	if (!first)
		return fail("out of memory");
	int err = network_cut(options->network, train->device, samples, config, stages, first);
	config->first_layer = first[stage];
	config->last_layer = first[stage + 1];
	config->passes = turns_passes(stage, stages, train->micro_batches);
	free(first);
	return err;
}

int parts_create(struct train *train)
{
	const struct groups *groups = train->groups;
	if (is_whole(train))
		return 0;
	report_line(train->report, "%d x data, %d x tensor, %d x pipeline (%d micro-batches)",
		groups->data.size, groups->tensor.size, groups->pipeline.size,
		train->micro_batches);
	if (groups->pipeline.size == 1)
		return 0;
	return pipeline_create(&train->pipeline, &groups->pipeline, &groups->ends, train->model,
		train->micro_batches);
}

bool parts_measures(const struct train *train)
{
	return train->groups->tensor.rank == 0 &&
	       train->groups->pipeline.rank == train->groups->pipeline.size - 1;
}

/* The squares of each gradient count on one rank of the replica. */
static bool is_measured(const struct train *train, const struct tensor *tensor)
{
	const struct groups *groups = train->groups;
	if (tensor->split < 0 && groups->tensor.rank)
		return false;
	return tensor != model_shared(train->model) || groups->pipeline.rank == 0;
}

static int clip(struct train *train)
{
	struct optimizer *optimizer = train->optimizer;
	const struct tensors *parameters = &train->model->parameters;
	struct device *device = train->device;
	double sum;
	for (int t = 0; t < parameters->count; t++)
		if (is_measured(train, &parameters->list[t]))
			optimizer_measure(
				optimizer, parameters->list[t].count, parameters->list[t].grad);
	int err = device->ops->get(device, &sum, optimizer->square_sum, sizeof(sum));
	if (!err)
		err = world_sum(&train->groups->replica, &sum, 1);
	if (err)
		return err;
	device->ops->put(device, optimizer->square_sum, &sum, sizeof(sum));
	optimizer_clip(optimizer);
	return 0;
}

int parts_update(struct train *train, float rate)
{
	const struct tensors *parameters = &train->model->parameters;
	int err = train->pipeline ? pipeline_sum_shared(train->pipeline) : 0;
	if (err)
		return err;
	if (is_whole(train) || !optimizer_measures(train->optimizer)) {
		optimizer_step(train->optimizer, parameters, rate);
		return 0;
	}
	optimizer_begin(train->optimizer);
	err = clip(train);
	if (!err)
		optimizer_apply(train->optimizer, parameters, rate);
	return err;
}

int parts_hash(const struct train *train, uint64_t *hash)
{
	const struct train_world *replica = &train->groups->replica;
	if (is_whole(train))
		return 0;
	uint64_t *hashes = calloc(replica->size, sizeof(*hashes));
	if (!hashes)
		return fail("out of memory");
	int err = rondo_all_gather(replica->comm, hash, hashes, 1, RONDO_U64, NULL);
	*hash = hash_bytes(HASH_START, hashes, replica->size * sizeof(*hashes));
	free(hashes);
	return err ? fail_comm(err, "gather from the ranks of a replica") : 0;
}
