#include "train/parallel/ddp.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/parallel/hook.h"
#include "train/parallel/times.h"
#include "train/parallel/tree.h"

/* The first bucket is this much smaller than the others, so that communication starts early. */
#define FIRST_BUCKET_PART 25

/* ---- Beginning and end ---- */

/* Cuts the gradients into buckets, last tensor first. */
static void lay_out(struct ddp *ddp)
{
	const struct tensors *parameters = ddp->parameters;
	size_t limit = ddp->config.bucket_size / FIRST_BUCKET_PART / sizeof(float);
	size_t offset = parameters->elements;
	struct bucket *bucket = NULL;
	for (int t = parameters->count - 1; t >= 0; t--) {
		size_t span = tensor_span(&parameters->list[t]);
		offset -= span;
		if (!bucket || bucket->count + span > limit) {
			if (bucket)
				limit = ddp->config.bucket_size / sizeof(float);
			bucket = &ddp->buckets[ddp->bucket_count];
			*bucket = (struct bucket){ .number = ddp->bucket_count++, .last = t };
		}
		ddp->tensors[t] = (struct ddp_tensor){ .offset = offset, .bucket = bucket->number };
		bucket->first = t;
		bucket->offset = offset;
		bucket->count += span;
	}
}

static int allocate(struct ddp *ddp)
{
	struct device *device = ddp->device;
	size_t count = ddp->parameters->count, size = ddp->parameters->elements * sizeof(float);
	int levels = accumulate_levels(&ddp->config);
	ddp->buckets = calloc(count, sizeof(*ddp->buckets));
	ddp->tensors = calloc(count, sizeof(*ddp->tensors));
	ddp->shard_counts = calloc(ddp->world->size, sizeof(*ddp->shard_counts));
	if (!ddp->buckets || !ddp->tensors || !ddp->shard_counts)
		return fail("out of memory for %zu tensors", count);
	int err = device->ops->alloc(device, (void **)&ddp->gradients, size);
	if (!err && levels)
		err = device->ops->alloc(device, (void **)&ddp->partial, levels * size);
	return err;
}

/* Ahead of the first step, whose time the buckets would share. */
static int open_links(struct ddp *ddp)
{
	const char *collective = ddp->config.zero ? "reduce_scatter" : "all_reduce";
	int err = 0;
	for (int b = 0; b < ddp->bucket_count && !err; b++) {
		size_t count = ddp->buckets[b].count / (ddp->config.zero ? ddp->world->size : 1);
		err = rondo_comm_connect(ddp->world->comm, collective, count, RONDO_F32);
	}
	return err ? fail_comm(err, "links for gradients") : 0;
}

static int connect_ranks(struct ddp *ddp)
{
	const struct ddp *beside = ddp->config.beside;
	if (beside) {
		ddp->stream = beside->stream;
		ddp->tree = beside->tree;
		return 0;
	}
	int err = ddp->device->ops->stream(ddp->device, &ddp->stream);
	if (!err && ddp->config.deterministic && ddp->world->size > 1)
		err = tree_create(&ddp->tree, ddp->world);
	if (!err && !ddp->tree)
		err = open_links(ddp);
	return err;
}

int ddp_create(struct ddp **out, const struct train_world *world, struct device *device,
	const struct tensors *parameters, const struct ddp_config *config)
{
	*out = NULL;
	if (config->deterministic &&
		!(is_power_of_two(world->size) && is_power_of_two(config->micro_batches)))
		return fail("a deterministic sum needs powers of two: it has %d ranks with %d "
			    "micro-batches",
			world->size, config->micro_batches);
	struct ddp *ddp = calloc(1, sizeof(*ddp));
	if (!ddp)
		return fail("out of memory");
	*ddp = (struct ddp){
		.world = world, .device = device, .parameters = parameters, .config = *config
	};
	if (!ddp->config.hook.launch)
		ddp->config.hook.launch = hook_sum;
	int err = allocate(ddp);
	if (!err) {
		lay_out(ddp);
		for (int t = 0; t < parameters->count; t++)
			parameters->list[t].grad = ddp->gradients + ddp->tensors[t].offset;
	}
	if (!err)
		err = times_open(ddp);
	if (!err && world->comm)
		err = connect_ranks(ddp);
	if (err)
		ddp_destroy(ddp);
	else
		*out = ddp;
	return err;
}

void ddp_destroy(struct ddp *ddp)
{
	if (!ddp)
		return;
	struct device *device = ddp->device;
	if (!ddp->config.beside) {
		rondo_stream_destroy(ddp->stream);
		tree_destroy(ddp->tree);
	}
	device->ops->free(device, ddp->gradients);
	device->ops->free(device, ddp->partial);
	free(ddp->buckets);
	free(ddp->tensors);
	free(ddp->shard_counts);
	free(ddp);
}

/* ---- A step ---- */

static bool is_last(const struct ddp *ddp)
{
	return ddp->micro_batch == ddp->micro_batches - 1;
}

/* Launches the buckets that are full. Every rank must make the same calls in the same order: a full
   bucket waits for its turn. */
static int launch_full(struct ddp *ddp)
{
	for (; ddp->launched < ddp->bucket_count; ddp->launched++) {
		struct bucket *bucket = &ddp->buckets[ddp->launched];
		if (bucket->pending)
			return 0;
		if (!ddp->stream)
			continue;
		int err = ddp->config.hook.launch(ddp, bucket, ddp->config.hook.argument);
		if (err)
			return err;
		times_bucket(ddp, COMMUNICATION, bucket, BUCKET_ENDED);
	}
	return 0;
}

int ddp_ready(void *argument, int tensor)
{
	struct ddp *ddp = argument;
	struct ddp_tensor *mine = &ddp->tensors[tensor];
	struct bucket *bucket = &ddp->buckets[mine->bucket];
	if (mine->produced)
		return fail("%s: backward produced its gradient twice",
			ddp->parameters->list[tensor].name);
	mine->produced = true;
	accumulate(ddp, mine->offset, ddp->parameters->list[tensor].count);
	if (!is_last(ddp))
		return 0;
	if (--bucket->pending == 0)
		times_bucket(ddp, COMPUTATION, bucket, BUCKET_READY);
	return ddp->config.no_overlap ? 0 : launch_full(ddp);
}

int ddp_unused(struct ddp *ddp, int tensor)
{
	size_t size = ddp->parameters->list[tensor].count * sizeof(float);
	ddp->device->ops->clear(
		ddp->device, accumulate_target(ddp) + ddp->tensors[tensor].offset, size);
	return ddp_ready(ddp, tensor);
}

/* Backward of this micro-batch is over. */
static int complete(struct ddp *ddp)
{
	int err = 0;
	for (int t = ddp->parameters->count - 1; !err && t >= 0; t--) {
		if (ddp->tensors[t].produced)
			continue;
		if (!ddp->config.find_unused)
			return fail("%s: backward left its gradient out (find_unused takes zeros)",
				ddp->parameters->list[t].name);
		err = ddp_unused(ddp, t);
	}
	return err;
}

static void begin_last(struct ddp *ddp)
{
	for (int b = 0; b < ddp->bucket_count; b++)
		ddp->buckets[b].pending = ddp->buckets[b].last - ddp->buckets[b].first + 1;
	times_begin(ddp);
}

int ddp_begin(struct ddp *ddp, int number, int count)
{
	int err = number > 0 ? complete(ddp) : 0;
	if (err)
		return err;
	ddp->micro_batch = number;
	ddp->micro_batches = count;
	float *target = accumulate_target(ddp);
	for (int t = 0; t < ddp->parameters->count; t++) {
		ddp->tensors[t].produced = false;
		ddp->parameters->list[t].grad = target + ddp->tensors[t].offset;
	}
	ddp->launched = 0;
	if (is_last(ddp))
		begin_last(ddp);
	return 0;
}

int ddp_wait(struct ddp *ddp)
{
	const struct ddp_hook *hook = &ddp->config.hook;
	int err = complete(ddp);
	if (!err)
		err = launch_full(ddp);
	if (err)
		return err;
	for (int t = 0; t < ddp->parameters->count; t++)
		ddp->parameters->list[t].grad = ddp->gradients + ddp->tensors[t].offset;
	if (!ddp->stream)
		return 0;
	times_step(ddp, STEP_PAUSED);
	err = ddp->device->ops->join(ddp->device, COMPUTATION);
	times_step(ddp, STEP_RESUMED);
	times_end(ddp);
	for (int b = 0; !err && hook->finish && b < ddp->bucket_count; b++)
		hook->finish(ddp, &ddp->buckets[b], hook->argument);
	return err;
}

/* ---- Micro-batches ---- */

int accumulate_levels(const struct ddp_config *config)
{
	int levels = 0;
	if (!config->deterministic)
		return config->micro_batches > 1;
	while (1 << levels < config->micro_batches)
		levels++;
	return levels;
}

/* The sums that this micro-batch completes: one for each trailing 1 of its number. */
static int completed(int number)
{
	int levels = 0;
	for (; number & 1; number >>= 1)
		levels++;
	return levels;
}

static float *level(const struct ddp *ddp, int number)
{
	return ddp->partial + number * ddp->parameters->elements;
}

float *accumulate_target(const struct ddp *ddp)
{
	int number = ddp->micro_batch;
	if (!ddp->config.deterministic)
		return number ? ddp->partial : ddp->gradients;
	return number == ddp->micro_batches - 1 ? ddp->gradients : level(ddp, completed(number));
}

void accumulate(struct ddp *ddp, size_t offset, size_t count)
{
	struct device *device = ddp->device;
	float *target = accumulate_target(ddp) + offset, *sum = ddp->gradients + offset;
	if (!ddp->config.deterministic) {
		if (target != sum)
			device->ops->add(device, count, sum, target, sum);
		return;
	}
	for (int l = 0; l < completed(ddp->micro_batch); l++)
		device->ops->add(device, count, level(ddp, l) + offset, target, target);
}
