/* A list of ranks that grows; all zero: empty. */
#ifndef RD_RANK_LIST_H
#define RD_RANK_LIST_H

#include <stdbool.h>
#include <stdint.h>

/* In an OPEN: added to the rank where the link is that of tagged messages (comm/mailbox.h). */
#define RD_OPEN_TAGGED (1 << 20)

static inline int rd_open_rank(int listed)
{
	return listed & (RD_OPEN_TAGGED - 1);
}

struct rd_rank_list {
	int32_t *at;
	int count, capacity;
};

/* False: no memory. */
bool rd_rank_list_add(struct rd_rank_list *list, int32_t rank);
void rd_rank_list_finish(struct rd_rank_list *list);

#endif
