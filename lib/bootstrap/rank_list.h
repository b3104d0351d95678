/* A list of ranks that grows; all zero: empty. */
#ifndef RD_RANK_LIST_H
#define RD_RANK_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct rd_rank_list {
	int32_t *at;
	int count, capacity;
};

/* False: no memory. */
bool rd_rank_list_add(struct rd_rank_list *list, int32_t rank);
void rd_rank_list_finish(struct rd_rank_list *list);

#endif
