#include "train/parallel/same.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/base/hash.h"

/* How a reason names line `number` of what the ranks compare. */
enum subject { MODELS, SETTINGS };

/* "NAME: f32 [64, 3, 5, 5]\n"; returns its length. */
static size_t describe(const struct tensor *tensor, char line[SAME_LINE])
{
	size_t length = snprintf(line, SAME_LINE, "%s: f32 [", tensor->name);
	for (int d = 0; d < tensor->dims; d++)
		length += snprintf(
			line + length, SAME_LINE - length, "%s%d", d ? ", " : "", tensor->shape[d]);
	return length + snprintf(line + length, SAME_LINE - length, "]\n");
}

static char *describe_all(const struct tensors *tensors, size_t *size)
{
	char *text = malloc((size_t)tensors->count * SAME_LINE + 1);
	*size = 0;
	if (!text)
		return NULL;
	text[0] = 0;
	for (int t = 0; t < tensors->count; t++)
		*size += describe(&tensors->list[t], text + *size);
	return text;
}

/* Cuts the next line off *text. */
static void next_line(const char **text, const char *end, char line[SAME_LINE])
{
	const char *stop = *text < end ? memchr(*text, '\n', end - *text) : NULL;
	if (!stop) {
		snprintf(line, SAME_LINE, "nothing");
		return;
	}
	snprintf(line, SAME_LINE, "%.*s", (int)(stop - *text), *text);
	*text = stop + 1;
}

/* Fails for the first line in which two texts differ; 0: in none. */
static int compare(enum subject subject, const char *first, size_t first_size, const char *other,
	size_t other_size, int other_rank)
{
	const char *first_end = first + first_size, *other_end = other + other_size;
	char left[SAME_LINE], right[SAME_LINE];
	for (int number = 0; first < first_end || other < other_end; number++) {
		next_line(&first, first_end, left);
		next_line(&other, other_end, right);
		if (strcmp(left, right) && subject == SETTINGS)
			return fail("ranks have different settings: %s on rank 0, but %s on rank "
				    "%d",
				left, right, other_rank);
		if (strcmp(left, right))
			return fail("ranks have different models: parameter %d is %s on rank 0, "
				    "but %s on rank %d",
				number, left, right, other_rank);
	}
	return 0;
}

/* Gathers all descriptions, which differ. */
static int find_difference(
	const struct train_world *world, enum subject subject, const char *text, size_t size)
{
	size_t *sizes = calloc(world->size, sizeof(*sizes));
	void *texts = NULL;
	int err = sizes ? 0 : fail("out of memory");
	if (!err) {
		err = rondo_all_gather_bytes(world->comm, text, size, &texts, sizes);
		if (err)
			fail_comm(err, "gather of what ranks compare");
	}
	const char *next = texts;
	for (int rank = 0; !err && rank < world->size; rank++) {
		err = compare(subject, texts, sizes[0], next, sizes[rank], rank);
		next += sizes[rank];
	}
	free(texts);
	free(sizes);
	return err;
}

static int expect_same(
	const struct train_world *world, enum subject subject, const char *text, size_t size)
{
	bool same = true;
	int err = world_same(world, hash_bytes(HASH_START, text, size), &same);
	if (!err && !same)
		err = world_agree(world, find_difference(world, subject, text, size));
	return err;
}

int same_settings(const struct train_world *world, const char *text, size_t size)
{
	return world->comm ? expect_same(world, SETTINGS, text, size) : 0;
}

int same_tensors(const struct train_world *world, const struct tensors *tensors)
{
	size_t size;
	if (!world->comm)
		return 0;
	char *text = describe_all(tensors, &size);
	int err = world_agree(world, text ? 0 : fail("out of memory"));
	if (!err)
		err = expect_same(world, MODELS, text, size);
	free(text);
	return err;
}
