#include "tuner/choices.h"

#include <stdlib.h>
#include <string.h>

/* The index of the first choice whose key is not less. */
static int index_of(const struct rd_choices *choices, uint32_t key)
{
	int from = 0, to = choices->count;

	while (from < to) {
		int middle = (from + to) / 2;

		if (choices->made[middle].key < key)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

struct rd_choice *rd_choices_find(const struct rd_choices *choices, uint32_t key)
{
	int index = index_of(choices, key);

	if (index == choices->count || choices->made[index].key != key)
		return NULL;
	return choices->made[index].choice;
}

struct rd_choice *rd_choices_add(
	struct rd_choices *choices, uint32_t key, const struct rd_choice *choice)
{
	int index = index_of(choices, key);
	size_t after = (size_t)(choices->count - index), count = (size_t)choices->count + 1;
	struct rd_made_choice *grown = realloc(choices->made, count * sizeof(*grown));
	struct rd_choice *copy = calloc(1, sizeof(*copy));

	if (grown)
		choices->made = grown;
	if (!grown || !copy) {
		free(copy);
		return NULL;
	}
	*copy = *choice;
	memmove(&grown[index + 1], &grown[index], after * sizeof(*grown));
	grown[index] = (struct rd_made_choice){ key, copy };
	choices->count++;
	return copy;
}

void rd_choices_finish(struct rd_choices *choices)
{
	for (int i = 0; i < choices->count; i++)
		free(choices->made[i].choice);
	free(choices->made);
}
