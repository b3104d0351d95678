/*
 * The order in which rings and trees visit the ranks: layouts (rondo/layout.h) from the ranks'
 * places, the same on every rank.
 *
 * Hosts come in the order of their lowest ranks. A ring enters and leaves each host once. Within a
 * host the ranks of one NUMA node follow each other, and among these the ranks near one NIC. Then
 * slot, core and number decide.
 *
 * Each channel rotates that order. So it enters and leaves a host by other ranks than the channels
 * before it, first by ranks of another NIC: a host's NICs share its traffic. On a single host all
 * channels are alike.
 */
#ifndef RD_RANK_ORDER_H
#define RD_RANK_ORDER_H

#include <stdbool.h>

#include "rondo/layout.h"
#include "topo/place.h"

/* Creates the layout of a channel, from the places of all ranks: [size]. */
int rd_order_create(
	struct rd_layout **layout, const struct rd_place *places, int size, int channel);
void rd_order_destroy(struct rd_layout *layout);

bool rd_order_equal(const struct rd_layout *a, const struct rd_layout *b);

#endif
