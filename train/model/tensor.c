#include "train/model/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/base/rng.h"

#define ALIGNMENT (64 / sizeof(float))

size_t tensor_span(const struct tensor *tensor)
{
	return (tensor->count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int tensors_add(struct tensors *tensors, const struct tensor *tensor, int *number)
{
	if (tensors->count == tensors->room) {
		int room = tensors->room ? 2 * tensors->room : 16;
		struct tensor *list = realloc(tensors->list, room * sizeof(*list));
		if (!list)
			return fail("out of memory for %d tensors", room);
		tensors->list = list;
		tensors->room = room;
	}
	struct tensor *added = &tensors->list[tensors->count];
	*added = *tensor;
	added->count = 1;
	for (int d = 0; d < tensor->dims; d++)
		added->count *= tensor->shape[d];
	tensors->elements += tensor_span(added);
	*number = tensors->count++;
	return 0;
}

size_t tensor_whole_count(const struct tensor *tensor)
{
	if (tensor->split < 0)
		return tensor->count;
	return tensor->count / tensor->shape[tensor->split] * tensor->whole;
}

/* The runs of elements that lie side by side in the part and in the whole. */
struct runs {
	size_t count, length; /* of the part: one after the other */
	size_t first, distance; /* in the whole */
};

static struct runs runs_of(const struct tensor *tensor)
{
	struct runs runs = { .count = 1, .length = tensor->count, .distance = tensor->count };
	if (tensor->split < 0)
		return runs;
	size_t inner = 1;
	for (int d = tensor->split + 1; d < tensor->dims; d++)
		inner *= tensor->shape[d];
	runs.length = tensor->shape[tensor->split] / tensor->groups * inner;
	runs.count = tensor->count / runs.length;
	runs.first = tensor->first * inner;
	runs.distance = tensor->whole / tensor->groups * inner;
	return runs;
}

void tensor_to_whole(const struct tensor *tensor, const float *part, float *whole)
{
	const struct runs runs = runs_of(tensor);
	for (size_t r = 0; r < runs.count; r++)
		memcpy(whole + runs.first + r * runs.distance, part + r * runs.length,
			runs.length * sizeof(*part));
}

static float draw(struct rng *rng, const struct start *start)
{
	switch (start->kind) {
	case START_UNIFORM:
		return rng_between(rng, -start->number, start->number);
	case START_NORMAL:
		return start->number * rng_normal(rng);
	case START_CONSTANT:
		break;
	}
	return start->number;
}

/* Draws the whole, and keeps the elements of this part. */
static void draw_tensor(const struct tensor *tensor, uint64_t seed, float *values)
{
	struct rng rng = rng_make(seed, hash_bytes(HASH_START, tensor->name, strlen(tensor->name)));
	const struct runs runs = runs_of(tensor);
	size_t count = tensor_whole_count(tensor);
	for (size_t i = 0; i < count; i++) {
		float number = draw(&rng, &tensor->start);
		size_t at = i % runs.distance;
		if (at >= runs.first && at < runs.first + runs.length)
			*values++ = number;
	}
}

void tensors_draw(const struct tensors *tensors, uint64_t seed, float *values)
{
	memset(values, 0, tensors->elements * sizeof(*values));
	for (int t = 0; t < tensors->count; t++) {
		draw_tensor(&tensors->list[t], seed, values);
		values += tensor_span(&tensors->list[t]);
	}
}
