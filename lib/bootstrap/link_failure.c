#include "bootstrap/link_failure.h"

#include <stdlib.h>
#include <string.h>

bool rd_link_failures_add(
	struct rd_link_failures *link_failures, const struct rd_link_failure *link_failure)
{
	if (link_failures->count == link_failures->capacity) {
		int capacity = link_failures->capacity ? 2 * link_failures->capacity : 8;
		struct rd_link_failure *at =
			realloc(link_failures->at, (size_t)capacity * sizeof(*at));

		if (!at)
			return false;
		link_failures->at = at;
		link_failures->capacity = capacity;
	}
	link_failures->at[link_failures->count++] = *link_failure;
	return true;
}

void rd_link_failures_finish(struct rd_link_failures *link_failures)
{
	free(link_failures->at);
	*link_failures = (struct rd_link_failures){ 0 };
}

bool rd_link_failures_have(
	const struct rd_link_failures *link_failures, const struct rd_link_failure *link_failure)
{
	for (int i = 0; i < link_failures->count; i++) {
		const struct rd_link_failure *other = &link_failures->at[i];

		if (other->low == link_failure->low && other->high == link_failure->high &&
			other->tagged == link_failure->tagged &&
			strcmp(other->transport, link_failure->transport) == 0)
			return true;
	}
	return false;
}

bool rd_rank_list_add(struct rd_rank_list *list, int32_t rank)
{
	if (list->count == list->capacity) {
		int capacity = list->capacity ? 2 * list->capacity : 8;
		int32_t *at = realloc(list->at, (size_t)capacity * sizeof(*at));

		if (!at)
			return false;
		list->at = at;
		list->capacity = capacity;
	}
	list->at[list->count++] = rank;
	return true;
}

void rd_rank_list_finish(struct rd_rank_list *list)
{
	free(list->at);
	*list = (struct rd_rank_list){ 0 };
}
