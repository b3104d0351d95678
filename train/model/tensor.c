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
	size_t outer = 1, inner = 1;
	size_t whole = 1, block = 1, first = 0, part = 1;
	if (tensor->split >= 0) {
		whole = tensor->whole;
		block = whole / tensor->groups;
		first = tensor->first;
		part = tensor->shape[tensor->split] / tensor->groups;
	}
	for (int d = 0; d < tensor->dims; d++) {
		if (d < tensor->split)
			outer *= tensor->shape[d];
		else if (d > tensor->split)
			inner *= tensor->shape[d];
	}
	for (size_t o = 0; o < outer; o++) {
		for (size_t w = 0; w < whole; w++) {
			for (size_t i = 0; i < inner; i++) {
				float number = draw(&rng, &tensor->start);
				if (w % block >= first && w % block < first + part)
					*values++ = number;
			}
		}
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
