/*
 * In which order rings and trees visit the ranks: layouts (rondo/layout.h) made from the ranks'
 * places, the same on every rank.
 *
 * Hosts come in the order of their lowest ranks, and each is entered and left once. Within a host
 * the ranks of one NUMA node follow each other, and of those the ranks near one NIC; otherwise
 * ranks follow by slot, core and number. Each channel turns that order, so that it enters and
 * leaves a host by other ranks than the channels before it, by the ranks of another NIC first: the
 * NICs of a host share its traffic. Where all ranks are on one host there is nothing to enter, and
 * all channels are alike.
 */
#ifndef RD_RANK_ORDER_H
#define RD_RANK_ORDER_H

#include <stdbool.h>

#include "rondo/layout.h"
#include "topo/place.h"

/* The layout of a channel, from the places of all ranks: [size]. */
int rd_order_create(
	struct rd_layout **layout, const struct rd_place *places, int size, int channel);
void rd_order_destroy(struct rd_layout *layout);

bool rd_order_equal(const struct rd_layout *a, const struct rd_layout *b);

#endif
