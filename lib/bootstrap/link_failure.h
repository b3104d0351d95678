/*
 * Losses: pairs of ranks whose link over a transport did not come about, though the transport says
 * that it reaches. Whoever of a pair sees it tells the coordinator; the coordinator tells both, each loss once and
 * in one order, so both go on to the same next transport (rendezvous.h, route.c).
 */
#ifndef RD_LINK_FAILURE_H
#define RD_LINK_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#define RD_LOSS_NAME 16
#define RD_LOSS_REASON 160

struct rd_loss {
	int32_t low, high; /* the pair */
	int32_t by; /* which of them saw it */
	char transport[RD_LOSS_NAME];
	char reason[RD_LOSS_REASON];
};

/* As many as there are; all zero: none. */
struct rd_losses {
	struct rd_loss *at;
	int count, capacity;
};

/* False: no memory. */
bool rd_losses_add(struct rd_losses *losses, const struct rd_loss *loss);
void rd_losses_finish(struct rd_losses *losses);

/* Whether the same pair's link over the same transport is among them, whoever saw it. */
bool rd_losses_have(const struct rd_losses *losses, const struct rd_loss *loss);

#endif
