/*
 * Link failures: pairs of ranks whose link over a transport failed to open, though the transport
 * reaches both. Either rank of the pair sends it to the coordinator. The coordinator sends it to
 * both, each once and all in one order, so both take the same next transport (rendezvous.h,
 * comm/route.c).
 */
#ifndef RD_LINK_FAILURE_H
#define RD_LINK_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#define RD_LINK_FAILURE_NAME 16
#define RD_LINK_FAILURE_REASON 160

struct rd_link_failure {
	int32_t low, high; /* the pair */
	int32_t by; /* which of them saw it */
	char transport[RD_LINK_FAILURE_NAME];
	char reason[RD_LINK_FAILURE_REASON];
	bool tagged; /* the link of their tagged messages: those of calls stay */
};

/* A list that grows; all zero: empty. */
struct rd_link_failures {
	struct rd_link_failure *at;
	int count, capacity;
};

/* False: no memory. */
bool rd_link_failures_add(
	struct rd_link_failures *link_failures, const struct rd_link_failure *link_failure);
void rd_link_failures_finish(struct rd_link_failures *link_failures);

/* Whether the list has this pair, transport and kind of link, whichever rank saw it. */
bool rd_link_failures_have(
	const struct rd_link_failures *link_failures, const struct rd_link_failure *link_failure);

/* ---- Links to open --------------------------------------------------------------------------- */

/* In an OPEN: added to the rank where the link is that of tagged messages (comm/mailbox.h). */
#define RD_OPEN_TAGGED (1 << 20)

static inline int rd_open_rank(int listed)
{
	return listed & (RD_OPEN_TAGGED - 1);
}

/* A list that grows; all zero: empty. */
struct rd_rank_list {
	int32_t *at;
	int count, capacity;
};

/* False: no memory. */
bool rd_rank_list_add(struct rd_rank_list *list, int32_t rank);
void rd_rank_list_finish(struct rd_rank_list *list);

#endif
