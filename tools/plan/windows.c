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

struct message_list *windows_next(struct windows *windows, int *err)
{
	if (windows->lists[0].count > 0)
		return &windows->lists[0];
	if (!windows->used)
		return NULL;

	int index = 1 + __builtin_ctzll(windows->used);
	struct message_list *list = &windows->lists[index];

	windows->now = first_window(windows, list);
	windows->used &= windows->used - 1;
	/* All go to lists before this. */
	for (int i = 0; i < list->count; i++)
		if (!windows_put(windows, &list->messages[i])) {
			*err = rd_fail(RONDO_MEMORY, "no memory for the messages under way");
			return NULL;
		}
	list->count = 0;
	return &windows->lists[0];
}

void windows_finish(struct windows *windows)
{
	for (int i = 0; i < 65; i++)
		free(windows->lists[i].messages);
}
