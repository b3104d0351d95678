#include "train/parallel/same.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/base/hash.h"

#define LINE (TENSOR_NAME + 64) /* bytes of a line, at most */

/* "NAME: f32 [64, 3, 5, 5]\n"; returns its length. */
static size_t describe(const struct tensor *tensor, char line[LINE])
{
	size_t length = snprintf(line, LINE, "%s: f32 [", tensor->name);
	for (int d = 0; d < tensor->dims; d++)
		length += snprintf(
			line + length, LINE - length, "%s%d", d ? ", " : "", tensor->shape[d]);
	return length + snprintf(line + length, LINE - length, "]\n");
}

static char *describe_all(const struct tensors *tensors, size_t *size)
{
	char *text = malloc((size_t)tensors->count * LINE + 1);
	*size = 0;
	if (!text)
		return NULL;
	text[0] = 0;
	for (int t = 0; t < tensors->count; t++)
		*size += describe(&tensors->list[t], text + *size);
	return text;
}

/* Cuts the next line off *text. */
static void next_line(const char **text, const char *end, char line[LINE])
{
	const char *stop = *text < end ? memchr(*text, '\n', end - *text) : NULL;
	if (!stop) {
		snprintf(line, LINE, "nothing");
		return;
	}
	snprintf(line, LINE, "%.*s", (int)(stop - *text), *text);
	*text = stop + 1;
}

/* Fails for the first line in which two texts differ; 0: in none. */
static int compare(
	const char *first, size_t first_size, const char *other, size_t other_size, int other_rank)
{
	const char *first_end = first + first_size, *other_end = other + other_size;
	char left[LINE], right[LINE];
	for (int number = 0; first < first_end || other < other_end; number++) {
		next_line(&first, first_end, left);
		next_line(&other, other_end, right);
		if (strcmp(left, right))
			return fail("ranks have different models: parameter %d is %s on rank 0, "
				    "but %s on rank %d",
				number, left, right, other_rank);
	}
	return 0;
}

/* Gathers all descriptions, which differ. */
static int find_difference(const struct train_world *world, const char *text, size_t size)
{
	size_t *sizes = calloc(world->size, sizeof(*sizes));
	void *texts = NULL;
	int err = sizes ? 0 : fail("out of memory");
	if (!err) {
		err = rondo_all_gather_bytes(world->comm, text, size, &texts, sizes);
		if (err)
			fail_comm(err, "gather of the names of parameters");
	}
	const char *next = texts;
	for (int rank = 0; !err && rank < world->size; rank++) {
		err = compare(texts, sizes[0], next, sizes[rank], rank);
		next += sizes[rank];
	}
	free(texts);
	free(sizes);
	return err;
}

int same_tensors(const struct train_world *world, const struct tensors *tensors)
{
	size_t size;
	if (!world->comm)
		return 0;
	char *text = describe_all(tensors, &size);
	int err = world_agree(world, text ? 0 : fail("out of memory"));
	bool same = true;
	if (!err)
		err = world_same(world, hash_bytes(HASH_START, text, size), &same);
	if (!err && !same)
		err = world_agree(world, find_difference(world, text, size));
	free(text);
	return err;
}
