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

/* ---- Values -------------------------------------------------------------------------------- */

#define RANKS_NAMED 8

/* Where their values differ, ranks gather a row of each, of count + 1 numbers. */
struct rows {
	const struct tensors *tensors;
	int size;
	uint64_t *all; /* [size][count + 1]: the rank's number, and the hash of each tensor */
};

static const uint64_t *row_of(const struct rows *rows, int rank)
{
	return rows->all + (size_t)rank * (rows->tensors->count + 1);
}

static bool equals(const struct rows *rows, int rank, int other)
{
	return !memcmp(row_of(rows, rank) + 1, row_of(rows, other) + 1,
		rows->tensors->count * sizeof(uint64_t));
}

/* The lowest of those ranks of which most have the same values. */
static int find_usual(const struct rows *rows)
{
	int usual = 0, most = 0;
	for (int rank = 0; most <= rows->size / 2 && rank < rows->size; rank++) {
		int same = 0;
		for (int other = 0; other < rows->size; other++)
			same += equals(rows, rank, other);
		if (same > most) {
			most = same;
			usual = rank;
		}
	}
	return usual;
}

/* Fails with the ranks that differ from the usual one, and the first tensor in which one does. */
static int fail_by_rows(const struct rows *rows, const char *what)
{
	int usual = find_usual(rows), others = 0, first = rows->tensors->count;
	char ranks[RANKS_NAMED * 24 + 8] = "";
	for (int rank = 0; rank < rows->size; rank++) {
		size_t length = strlen(ranks);
		int tensor = 0;
		if (equals(rows, rank, usual))
			continue;
		while (row_of(rows, rank)[tensor + 1] == row_of(rows, usual)[tensor + 1])
			tensor++;
		first = tensor < first ? tensor : first;
		if (++others <= RANKS_NAMED)
			snprintf(ranks + length, sizeof(ranks) - length, "%s%llu",
				length ? ", " : "", (unsigned long long)row_of(rows, rank)[0]);
		else if (others == RANKS_NAMED + 1)
			strcat(ranks, ", ...");
	}
	if (!others)
		return fail("%s differ between ranks, in no tensor", what);
	return fail("%s differ: rank%s %s from rank %llu, first in %s", what, others > 1 ? "s" : "",
		ranks, (unsigned long long)row_of(rows, usual)[0], rows->tensors->list[first].name);
}

static int find_values(const struct train_world *world, int number, const struct tensors *tensors,
	const float *values, const char *what)
{
	size_t count = tensors->count + 1;
	struct rows rows = { .tensors = tensors, .size = world->size };
	uint64_t *mine = calloc(count, sizeof(*mine));
	rows.all = calloc(world->size * count, sizeof(*rows.all));
	int err = mine && rows.all ? 0 : fail("out of memory");
	if (!err) {
		mine[0] = number;
		for (int t = 0; t < tensors->count; t++) {
			const struct tensor *tensor = &tensors->list[t];
			mine[t + 1] =
				hash_bytes(HASH_START, values + (tensor->value - tensors->values),
					tensor->count * sizeof(float));
		}
		err = rondo_all_gather(world->comm, mine, rows.all, count, RONDO_U64, NULL);
		err = err ? fail_comm(err, "gather of hashes") : fail_by_rows(&rows, what);
	}
	free(mine);
	free(rows.all);
	return err;
}

int same_values(const struct train_world *world, int number, const struct tensors *tensors,
	const float *values, const char *what, uint64_t *hash)
{
	bool same = true;
	*hash = hash_bytes(HASH_START, values, tensors->elements * sizeof(float));
	int err = world_same(world, *hash, &same);
	if (!err && !same)
		err = world_agree(world, find_values(world, number, tensors, values, what));
	return err;
}
