#include "bootstrap/rank_list.h"

#include <stdlib.h>

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
