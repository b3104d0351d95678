#include "ddp.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "fail.h"

/* The first bucket is this much smaller than the others, so that communication starts early. */
#define FIRST_BUCKET_PART 25

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
			if (bucket)
				limit = ddp->bucket_size / sizeof(float);
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

int ddp_create(struct ddp **out, const struct world *world, struct tensor *tensors,
	int tensor_count, size_t bucket_size, const int *order)
{
	*out = NULL;
	if (order && !is_order(order, tensor_count))
		return fail("the order of the gradients is none");
	struct ddp *ddp = calloc(1, sizeof(*ddp));
	size_t count = 0;
	if (!ddp)
		return fail("out of memory");
	*ddp = (struct ddp){ .world = world,
		.tensors = tensors,
		.tensor_count = tensor_count,
		.bucket_size = bucket_size,
		.settled = order };
	for (int t = 0; t < tensor_count; t++) {
		count += tensors[t].count;
		ddp->order[t] = order ? order[t] : tensor_count - 1 - t;
	}
	ddp->gradients = calloc(count, sizeof(float));
	if (!ddp->gradients) {
		ddp_destroy(ddp);
		return fail("out of memory for %zu gradients", count);
	}
	lay_out(ddp);
	if (world->comm) {
		int err = rondo_stream_create(&ddp->stream);
		if (err) {
			ddp_destroy(ddp);
			return fail_comm(err, "cannot start a stream");
		}
	}
	*out = ddp;
	return 0;
}

void ddp_destroy(struct ddp *ddp)
{
	if (!ddp)
		return;
	rondo_stream_destroy(ddp->stream);
	free(ddp->gradients);
	free(ddp);
}

/* The first backward has shown its order: take rank 0's, so that all ranks cut alike. */
static int settle(struct ddp *ddp)
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

int ddp_begin(struct ddp *ddp)
{
	/* Not at the end of the first step: the optimizer still reads the old places then. */
	if (!ddp->settled && ddp->seen_count) {
		int err = settle(ddp);
		if (err)
			return err;
	}
	ddp->launched = 0;
	for (int b = 0; b < ddp->bucket_count; b++)
		ddp->buckets[b].pending = ddp->buckets[b].tensors;
	return 0;
}

static void note_start(void *bucket)
{
	((struct bucket *)bucket)->start_s = clock_seconds();
}

static void note_end(void *bucket)
{
	((struct bucket *)bucket)->end_s = clock_seconds();
}

static int launch(struct ddp *ddp, struct bucket *bucket)
{
	int err = rondo_stream_call(ddp->stream, note_start, bucket);
	if (!err)
		err = rondo_all_reduce(ddp->world->comm, bucket->grad, bucket->grad, bucket->count,
			RONDO_F32, RONDO_AVG, ddp->stream);
	if (!err)
		err = rondo_stream_call(ddp->stream, note_end, bucket);
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
		struct bucket *bucket = &ddp->buckets[ddp->launched++];
		int err = ddp->stream ? launch(ddp, bucket) : 0;
		if (err)
			return err;
	}
	return 0;
}

int ddp_wait(struct ddp *ddp)
{
	if (ddp->launched != ddp->bucket_count)
		return fail("backward left a gradient out");
	if (!ddp->stream)
		return 0;
	double start_s = clock_seconds();
	int err = rondo_stream_synchronize(ddp->stream);
	if (err)
		return fail_comm(err, "average of gradients");
	ddp->wait_s += clock_seconds() - start_s;
	for (int b = 0; b < ddp->bucket_count; b++)
		ddp->busy_s += ddp->buckets[b].end_s - ddp->buckets[b].start_s;
	return 0;
}
