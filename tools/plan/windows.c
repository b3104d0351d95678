#include "windows.h"

#include <stdlib.h>

#include "base/error.h"

/* Messages that insertion sorts quickly. */
#define FEW 32

static int compare(const void *a, const void *b)
{
	const struct message *x = a, *y = b;

	if (x->at_ps != y->at_ps)
		return x->at_ps > y->at_ps ? -1 : 1;
	return x->queue > y->queue ? -1 : x->queue < y->queue;
}

void message_list_sort(struct message_list *list)
{
	if (list->count > FEW) {
		qsort(list->messages, (size_t)list->count, sizeof(*list->messages), compare);
		return;
	}
	for (int i = 1; i < list->count; i++) {
		struct message message = list->messages[i];
		int at = i;

		for (; at > 0 && compare(&message, &list->messages[at - 1]) < 0; at--)
			list->messages[at] = list->messages[at - 1];
		list->messages[at] = message;
	}
}

static uint64_t first_window(const struct windows *windows, const struct message_list *list)
{
	int64_t first = INT64_MAX;

	for (int i = 0; i < list->count; i++)
		if (list->messages[i].at_ps < first)
			first = list->messages[i].at_ps;
	return (uint64_t)first >> windows->shift;
}

/* Moves those of the first far windows that have messages to lists before theirs. */
static bool bring_near(struct windows *windows)
{
	int index = __builtin_ctzll(windows->far_used);
	struct message_list *list = &windows->far[index];

	windows->now = first_window(windows, list);
	windows->far_used &= windows->far_used - 1;
	for (int i = 0; i < list->count; i++)
		if (!windows_put(windows, &list->messages[i]))
			return false;
	list->count = 0;
	return true;
}

bool windows_next(struct windows *windows, struct message_list *list, int *err)
{
	struct message_list empty = *list;
	int index;

	if (!windows->near_used && windows->far_used && !bring_near(windows)) {
		*err = rd_fail(RONDO_MEMORY, "no memory for the messages under way");
		return false;
	}
	if (!windows->near_used)
		return false;
	index = __builtin_ctzll(windows->near_used);
	windows->near_used &= windows->near_used - 1;
	windows->now = windows->now / WINDOWS_NEAR * WINDOWS_NEAR + (unsigned)index;
	*list = windows->near[index];
	windows->near[index] = empty;
	return true;
}

void windows_finish(struct windows *windows)
{
	for (int i = 0; i < WINDOWS_NEAR; i++)
		free(windows->near[i].messages);
	for (int i = 0; i < 64 - WINDOWS_NEAR_BITS; i++)
		free(windows->far[i].messages);
}
