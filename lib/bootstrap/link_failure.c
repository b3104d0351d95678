#include "bootstrap/link_failure.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

bool rd_link_failures_add(
	struct rd_link_failures *link_failures, const struct rd_link_failure *link_failure)
{
	if (!rd_grow(&link_failures->at, link_failures->count, &link_failures->capacity,
		    sizeof(*link_failure)))
		return false;
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
	if (!rd_grow(&list->at, list->count, &list->capacity, sizeof(rank)))
		return false;
	list->at[list->count++] = rank;
	return true;
}

void rd_rank_list_finish(struct rd_rank_list *list)
{
	free(list->at);
	*list = (struct rd_rank_list){ 0 };
}
