#include "train/reference.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { UNIFORM, BELOW, VALUES };

static const char *const kind_names[] = { "uniform", "below", "values" };

struct entry {
	char *name;
	enum kind kind;
	size_t count;
	size_t stride; /* VALUES: element i * stride is stored as numbers[2 + i] */
	double *numbers; /* UNIFORM: centre, bound. BELOW: limit. VALUES: sum, squares, elements */
	size_t number_count;
};

struct reference {
	char path[512];
	struct entry *entries; /* [count] */
	size_t count;
};

/* ---- Reading ---- */

/* The next word of the line, which ends there; NULL: there is none. */
static char *next_word(char **line)
{
	char *word;
	while ((word = strsep(line, " \n")) && !*word)
		;
	return word;
}

static double number_of(const struct reference *reference, size_t line, const char *word)
{
	char *end = NULL;
	double number = word ? strtod(word, &end) : NAN;
	cr_assert(end != word && end && !*end && isfinite(number), "%s:%zu: not a number: %s",
		reference->path, line, word ? word : "(nothing)");
	return number;
}

static size_t count_of(const struct reference *reference, size_t line, const char *word)
{
	double number = number_of(reference, line, word);
	cr_assert(number >= 1 && number <= 1e9 && number == floor(number),
		"%s:%zu: not a count: %s", reference->path, line, word);
	return (size_t)number;
}

static void read_numbers(
	const struct reference *reference, size_t line, struct entry *entry, char *text)
{
	size_t wanted = entry->kind == UNIFORM ? 2 : 1;
	if (entry->kind == VALUES)
		wanted = 2 + (entry->count + entry->stride - 1) / entry->stride;
	/* Two bytes at least for each: no count makes this allocation large. */
	cr_assert(text && strlen(text) / 2 + 1 >= wanted, "%s:%zu: the line is cut off",
		reference->path, line);
	entry->numbers = calloc(wanted, sizeof(*entry->numbers));
	cr_assert(entry->numbers);
	for (char *word; (word = next_word(&text)); entry->number_count++) {
		cr_assert(entry->number_count < wanted, "%s:%zu: more numbers than %zu",
			reference->path, line, wanted);
		entry->numbers[entry->number_count] = number_of(reference, line, word);
	}
	cr_assert_eq(entry->number_count, wanted, "%s:%zu: %zu numbers, not %zu", reference->path,
		line, entry->number_count, wanted);
}

static void read_entry(
	const struct reference *reference, size_t line, struct entry *entry, char *text)
{
	const char *name = next_word(&text), *kind = next_word(&text);
	int k = 0;
	while (kind && k < 3 && strcmp(kind, kind_names[k]) != 0)
		k++;
	cr_assert(kind && k < 3, "%s:%zu: no entry", reference->path, line);
	*entry = (struct entry){ .name = strdup(name), .kind = k };
	cr_assert(entry->name);
	entry->count = count_of(reference, line, next_word(&text));
	if (k == VALUES)
		entry->stride = count_of(reference, line, next_word(&text));
	read_numbers(reference, line, entry, text);
}

struct reference *reference_read(const char *name)
{
	struct reference *reference = calloc(1, sizeof(*reference));
	char *text = NULL;
	size_t room = 0;
	cr_assert(reference);
	snprintf(reference->path, sizeof(reference->path), "%s/%s.txt", TRAIN_FIXTURES, name);
	FILE *file = fopen(reference->path, "r");
	cr_assert(file, "%s: cannot be read", reference->path);
	for (size_t line = 1; getline(&text, &room, file) > 0; line++) {
		if (*text == '#')
			continue;
		reference->entries = realloc(
			reference->entries, (reference->count + 1) * sizeof(*reference->entries));
		cr_assert(reference->entries);
		read_entry(reference, line, &reference->entries[reference->count++], text);
	}
	free(text);
	fclose(file);
	return reference;
}

void reference_destroy(struct reference *reference)
{
	if (!reference)
		return;
	for (size_t i = 0; i < reference->count; i++) {
		free(reference->entries[i].name);
		free(reference->entries[i].numbers);
	}
	free(reference->entries);
	free(reference);
}

/* ---- Entries ---- */

static const struct entry *find(const struct reference *reference, const char *name)
{
	for (size_t i = 0; i < reference->count; i++)
		if (strcmp(reference->entries[i].name, name) == 0)
			return &reference->entries[i];
	return NULL;
}

static const struct entry *find_kind(
	const struct reference *reference, const char *name, enum kind kind)
{
	const struct entry *entry = find(reference, name);
	cr_assert(entry, "%s: no entry %s", reference->path, name);
	cr_assert_eq(entry->kind, kind, "%s: %s is of kind %s, not %s", reference->path, name,
		kind_names[entry->kind], kind_names[kind]);
	return entry;
}

bool reference_has(const struct reference *reference, const char *name)
{
	return find(reference, name) != NULL;
}

size_t reference_count(const struct reference *reference, const char *name)
{
	const struct entry *entry = find(reference, name);
	cr_assert(entry, "%s: no entry %s", reference->path, name);
	return entry->count;
}

/* FNV-1a: the seed of a tensor. */
static uint64_t seed_of(const char *name)
{
	uint64_t seed = 0xcbf29ce484222325u;
	for (; *name; name++)
		seed = (seed ^ (unsigned char)*name) * 0x100000001b3u;
	return seed;
}

/* Number i + 1 of splitmix64. Not the trainer's: a fault there must not change both sides. */
static uint64_t hash_of(uint64_t seed, size_t i)
{
	uint64_t x = seed + (i + 1) * 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

void reference_fill(const struct reference *reference, const char *name, float *out, size_t count)
{
	const struct entry *entry = find_kind(reference, name, UNIFORM);
	uint64_t seed = seed_of(name);
	cr_assert_eq(count, entry->count, "%s: %s has %zu elements, not %zu", reference->path, name,
		entry->count, count);
	for (size_t i = 0; i < count; i++) {
		double unit = (double)(hash_of(seed, i) >> 42) * 0x1p-21 - 1;
		out[i] = (float)(entry->numbers[0] + entry->numbers[1] * unit);
	}
}

int32_t reference_integer(const struct reference *reference, const char *name, size_t i)
{
	const struct entry *entry = find_kind(reference, name, BELOW);
	cr_assert_lt(
		i, entry->count, "%s: %s has %zu elements", reference->path, name, entry->count);
	return (int32_t)((hash_of(seed_of(name), i) >> 32) * (uint64_t)entry->numbers[0] >> 32);
}

double reference_value(const struct reference *reference, const char *name, size_t i)
{
	const struct entry *entry = find_kind(reference, name, VALUES);
	cr_assert(i < entry->count && i % entry->stride == 0, "%s: %s has no element %zu",
		reference->path, name, i);
	return entry->numbers[2 + i / entry->stride];
}

/* ---- Comparing ---- */

/* The greatest stored element, or the root mean square of all. */
static double scale_of(const struct entry *entry)
{
	double scale = sqrt(entry->numbers[1] / (double)entry->count);
	for (size_t i = 2; i < entry->number_count; i++)
		scale = fmax(scale, fabs(entry->numbers[i]));
	return scale;
}

/* !(error <= bound), so that NaN differs. */
static bool is_off(double got, double wanted, double bound)
{
	return !(fabs(got - wanted) <= bound);
}

bool reference_differs(const struct reference *reference, const char *name, const float *values,
	size_t count, double tolerance, char reason[256])
{
	const struct entry *entry = find_kind(reference, name, VALUES);
	double sum = 0, squares = 0, bound = tolerance * scale_of(entry);
	reason[0] = '\0';
	if (count != entry->count) {
		snprintf(reason, 256, "%s: %zu elements, not %zu", name, count, entry->count);
		return true;
	}
	for (size_t i = 0; i < count; i++) {
		double wanted = entry->numbers[2 + i / entry->stride];
		sum += values[i];
		squares += (double)values[i] * values[i];
		if (i % entry->stride == 0 && is_off(values[i], wanted, bound)) {
			snprintf(reason, 256, "%s: element %zu is %.9g, not %.9g within %g", name,
				i, values[i], wanted, bound);
			return true;
		}
	}
	/* Errors seldom have one sign: their sum grows with the root of their number. */
	double sum_bound = 4 * sqrt((double)count) * bound;
	double squares_bound = 2 * sum_bound * sqrt(entry->numbers[1] / (double)count);
	if (is_off(sum, entry->numbers[0], sum_bound + tolerance * fabs(sum))) {
		snprintf(reason, 256, "%s: the sum is %.9g, not %.9g within %g", name, sum,
			entry->numbers[0], sum_bound);
	} else if (is_off(squares, entry->numbers[1], squares_bound + 2 * tolerance * squares)) {
		snprintf(reason, 256, "%s: the sum of squares is %.9g, not %.9g within %g", name,
			squares, entry->numbers[1], squares_bound);
	}
	return reason[0] != '\0';
}

void reference_expect(const struct reference *reference, const char *name, const float *values,
	size_t count, double tolerance)
{
	char reason[256];
	cr_assert(!reference_differs(reference, name, values, count, tolerance, reason), "%s: %s",
		reference->path, reason);
}
