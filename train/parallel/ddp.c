#include "train/parallel/ddp.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"

/* The first bucket is this much smaller than the others, so that communication starts early. */
#define FIRST_BUCKET_PART 25

/* The moments that a step records: of each bucket, and of the computation. */
enum { STARTED, ENDED, BUCKET_MOMENTS };
enum { PAUSED = BUCKET_MOMENTS * MODEL_TENSORS_MAX, RESUMED, STEP_MOMENTS };

_Static_assert(2 * STEP_MOMENTS <= DEVICE_MOMENTS, "two steps' moments have room");

static bool is_order(const int *order, int count)
{
	bool seen[MODEL_TENSORS_MAX] = { false };
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

int ddp_create(struct ddp **out, const struct train_world *world, struct device *device,
	struct tensor *tensors, int tensor_count, size_t bucket_size, const int *order)
{
	*out = NULL;
	if (order && !is_order(order, tensor_count))
		return fail("the order of the gradients is none");
	struct ddp *ddp = calloc(1, sizeof(*ddp));
	if (!ddp)
		return fail("out of memory");
	*ddp = (struct ddp){ .world = world,
		.device = device,
		.tensors = tensors,
		.tensor_count = tensor_count,
		.bucket_size = bucket_size,
		.settled = order };
	for (int t = 0; t < tensor_count; t++)
		ddp->order[t] = order ? order[t] : tensor_count - 1 - t;
	int err = place_gradients(ddp);
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
	free(ddp);
}

/* After the first backward: takes rank 0's order, so that all ranks cut the same buckets. */
static int agree_on_order(struct ddp *ddp)
{
	int order[MODEL_TENSORS_MAX];
	memcpy(order, ddp->seen, sizeof(order));
	int err = world_broadcast(ddp->world, order, sizeof(order));
	if (err)
		return err;
	if (!is_order(order, ddp->tensor_count))
		return fail("backward did not produce every gradient once");
	memcpy(ddp->order, order, sizeof(order));
	ddp->settled = true;
	lay_out(ddp);
	return 0;
}

/* ---- Times ---- */

static void record(struct ddp *ddp, enum track track, int moment)
{
	ddp->device->ops->record(ddp->device, track, ddp->turn * STEP_MOMENTS + moment);
}

static double between(struct ddp *ddp, int turn, int from, int to)
{
	return ddp->device->ops->between(
		ddp->device, turn * STEP_MOMENTS + from, turn * STEP_MOMENTS + to);
}

/* Adds up the times that the last step of this turn recorded. Waits for the end of that step. */
static void add_times(struct ddp *ddp, int turn)
{
	if (ddp->noted[turn])
		ddp->wait_s += between(ddp, turn, PAUSED, RESUMED);
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

int ddp_ready(void *argument, int tensor)
{
	struct ddp *ddp = argument;
	if (!ddp->settled && ddp->seen_count < ddp->tensor_count)
		ddp->seen[ddp->seen_count++] = tensor;
	ddp->buckets[ddp->bucket_of[tensor]].pending--;
	/* Every rank must make the same calls in the same order: a full bucket waits for its turn.
	 */
	while (ddp->launched < ddp->bucket_count && !ddp->buckets[ddp->launched].pending) {
		int err = ddp->stream ? launch(ddp, ddp->launched) : 0;
		if (err)
			return err;
		ddp->launched++;
	}
	return 0;
}

int ddp_wait(struct ddp *ddp)
{
	if (ddp->launched != ddp->bucket_count)
		return fail("backward left a gradient out");
	if (!ddp->stream)
		return 0;
	record(ddp, COMPUTATION, PAUSED);
	int err = ddp->device->ops->join(ddp->device, COMPUTATION);
	record(ddp, COMPUTATION, RESUMED);
	ddp->noted[ddp->turn] = ddp->bucket_count;
	return err;
}
