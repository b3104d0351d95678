#include "train/parallel/ddp.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"

/* The first bucket is this much smaller than the others, so that communication starts early. */
#define FIRST_BUCKET_PART 25

/* The moments that a step records: of each bucket, and of the computation. */
enum { STARTED, ENDED, BUCKET_MOMENTS };
/* After those of the buckets: computation waits, and goes on. */
enum { PAUSED, RESUMED, WAIT_MOMENTS };

static int step_moments(const struct ddp *ddp)
{
	return BUCKET_MOMENTS * ddp->tensor_count + WAIT_MOMENTS;
}

/* Whether it has each tensor once. `seen` has room for [count]. */
static bool is_order(const int *order, int count, bool *seen)
{
	memset(seen, 0, count * sizeof(*seen));
	for (int i = 0; i < count; i++) {
		if (order[i] < 0 || order[i] >= count || seen[order[i]])
			return false;
		seen[order[i]] = true;
	}
	return true;
}

/* Buckets begin at multiples of 64 bytes, from which devices copy fastest. */
#define ALIGNMENT (64 / sizeof(float))

static size_t align(size_t count)
{
	return (count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Cuts the gradients into buckets, and gives each tensor its view. */
static void lay_out(struct ddp *ddp)
{
	float *next = ddp->gradients;
	size_t limit = ddp->bucket_size / FIRST_BUCKET_PART / sizeof(float);
	struct bucket *bucket = NULL;
	ddp->bucket_count = 0;
	for (int i = 0; i < ddp->tensor_count; i++) {
		struct tensor *tensor = &ddp->tensors[ddp->order[i]];
		if (!bucket || bucket->count + tensor->count > limit) {
			if (bucket) {
				limit = ddp->bucket_size / sizeof(float);
				next = bucket->grad + align(bucket->count);
			}
			bucket = &ddp->buckets[ddp->bucket_count++];
			*bucket = (struct bucket){ .grad = next };
		}
		ddp->bucket_of[ddp->order[i]] = ddp->bucket_count - 1;
		tensor->grad = next;
		bucket->count += tensor->count;
		bucket->tensors++;
		next += tensor->count;
	}
}

static int place_gradients(struct ddp *ddp)
{
	size_t count = 0;
	/* Room for any order: as if each tensor had a bucket of its own. */
	for (int t = 0; t < ddp->tensor_count; t++)
		count += align(ddp->tensors[t].count);
	int err = ddp->device->ops->alloc(
		ddp->device, (void **)&ddp->gradients, count * sizeof(float));
	if (!err)
		lay_out(ddp);
	return err;
}

static int allocate(struct ddp *ddp)
{
	size_t count = ddp->tensor_count;
	ddp->order = calloc(count, sizeof(*ddp->order));
	ddp->seen = calloc(count, sizeof(*ddp->seen));
	ddp->bucket_of = calloc(count, sizeof(*ddp->bucket_of));
	ddp->buckets = calloc(count, sizeof(*ddp->buckets));
	ddp->marks = calloc(count, sizeof(*ddp->marks));
	if (!ddp->order || !ddp->seen || !ddp->bucket_of || !ddp->buckets || !ddp->marks)
		return fail("out of memory for %zu tensors", count);
	return ddp->device->ops->moments(ddp->device, 2 * step_moments(ddp));
}

int ddp_create(struct ddp **out, const struct train_world *world, struct device *device,
	struct tensor *tensors, int tensor_count, const struct ddp_config *config)
{
	const int *order = config->order;
	*out = NULL;
	struct ddp *ddp = calloc(1, sizeof(*ddp));
	if (!ddp)
		return fail("out of memory");
	*ddp = (struct ddp){ .world = world,
		.device = device,
		.tensors = tensors,
		.tensor_count = tensor_count,
		.bucket_size = config->bucket_size,
		.no_overlap = config->no_overlap,
		.settled = order };
	int err = allocate(ddp);
	for (int t = 0; !err && t < tensor_count; t++)
		ddp->order[t] = order ? order[t] : tensor_count - 1 - t;
	if (!err && !is_order(ddp->order, tensor_count, ddp->marks))
		err = fail("the order of the gradients is none");
	if (!err)
		err = place_gradients(ddp);
	if (!err && world->comm)
		err = device->ops->stream(device, &ddp->stream);
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
	rondo_stream_destroy(ddp->stream);
	ddp->device->ops->free(ddp->device, ddp->gradients);
	free(ddp->order);
	free(ddp->seen);
	free(ddp->bucket_of);
	free(ddp->buckets);
	free(ddp->marks);
	free(ddp);
}

/* After the first backward: takes rank 0's order, so that all ranks cut the same buckets. */
static int agree_on_order(struct ddp *ddp)
{
	size_t size = ddp->tensor_count * sizeof(*ddp->order);
	int err = world_broadcast(ddp->world, ddp->seen, size);
	if (err)
		return err;
	if (!is_order(ddp->seen, ddp->tensor_count, ddp->marks))
		return fail("backward did not produce every gradient once");
	memcpy(ddp->order, ddp->seen, size);
	ddp->settled = true;
	lay_out(ddp);
	return 0;
}

/* ---- Times ---- */

static int waiting(const struct ddp *ddp, int moment)
{
	return BUCKET_MOMENTS * ddp->tensor_count + moment;
}

static void record(struct ddp *ddp, enum track track, int moment)
{
	ddp->device->ops->record(ddp->device, track, ddp->turn * step_moments(ddp) + moment);
}

static double between(struct ddp *ddp, int turn, int from, int to)
{
	return ddp->device->ops->between(
		ddp->device, turn * step_moments(ddp) + from, turn * step_moments(ddp) + to);
}

/* Adds up the times that the last step of this turn recorded. Waits for the end of that step. */
static void add_times(struct ddp *ddp, int turn)
{
	if (ddp->noted[turn])
		ddp->wait_s += between(ddp, turn, waiting(ddp, PAUSED), waiting(ddp, RESUMED));
	for (int b = 0; b < ddp->noted[turn]; b++)
		ddp->busy_s += between(
			ddp, turn, BUCKET_MOMENTS * b + STARTED, BUCKET_MOMENTS * b + ENDED);
	ddp->noted[turn] = 0;
}

int ddp_times(struct ddp *ddp, double *busy_s, double *wait_s)
{
	int err = ddp->stream ? rondo_stream_synchronize(ddp->stream) : 0;
	if (err)
		return fail_comm(err, "average of gradients");
	add_times(ddp, 0);
	add_times(ddp, 1);
	*busy_s = ddp->busy_s;
	*wait_s = ddp->wait_s;
	ddp->busy_s = ddp->wait_s = 0;
	return 0;
}

/* ---- A step ---- */

int ddp_begin(struct ddp *ddp)
{
	/* Not at the end of the first step: there the optimizer still reads the old places. */
	if (!ddp->settled && ddp->seen_count) {
		int err = agree_on_order(ddp);
		if (err)
			return err;
	}
	ddp->turn = !ddp->turn;
	add_times(ddp, ddp->turn);
	ddp->launched = 0;
	for (int b = 0; b < ddp->bucket_count; b++)
		ddp->buckets[b].pending = ddp->buckets[b].tensors;
	return 0;
}

static int launch(struct ddp *ddp, int number)
{
	const struct bucket *bucket = &ddp->buckets[number];
	int err = ddp->device->ops->join(ddp->device, COMMUNICATION);
	if (err)
		return err;
	record(ddp, COMMUNICATION, BUCKET_MOMENTS * number + STARTED);
	err = rondo_all_reduce(ddp->world->comm, bucket->grad, bucket->grad, bucket->count,
		RONDO_F32, RONDO_AVG, ddp->stream);
	record(ddp, COMMUNICATION, BUCKET_MOMENTS * number + ENDED);
	return err ? fail_comm(err, "average of gradients") : 0;
}

/* Launches the buckets that are full. Every rank must make the same calls in the same order: a full
   bucket waits for its turn. */
static int launch_full(struct ddp *ddp)
{
	while (ddp->launched < ddp->bucket_count && !ddp->buckets[ddp->launched].pending) {
		int err = ddp->stream ? launch(ddp, ddp->launched) : 0;
		if (err)
			return err;
		ddp->launched++;
	}
	return 0;
}

int ddp_ready(void *argument, int tensor)
{
	struct ddp *ddp = argument;
	if (!ddp->settled && ddp->seen_count < ddp->tensor_count)
		ddp->seen[ddp->seen_count++] = tensor;
	ddp->buckets[ddp->bucket_of[tensor]].pending--;
	return ddp->no_overlap ? 0 : launch_full(ddp);
}

int ddp_wait(struct ddp *ddp)
{
	int err = launch_full(ddp);
	if (err)
		return err;
	if (ddp->launched != ddp->bucket_count)
		return fail("backward left a gradient out");
	if (!ddp->stream)
		return 0;
	record(ddp, COMPUTATION, waiting(ddp, PAUSED));
	err = ddp->device->ops->join(ddp->device, COMPUTATION);
	record(ddp, COMPUTATION, waiting(ddp, RESUMED));
	ddp->noted[ddp->turn] = ddp->bucket_count;
	return err;
}
