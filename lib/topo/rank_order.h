/*
 * The order in which rings and trees visit the ranks: layouts (rondo/layout.h) from the ranks'
 * places, the same on every rank.
 *
 * Hosts come in the order of their lowest ranks. A ring enters and leaves each host once. Within a
 * host the ranks of one NUMA node follow each other, and among these the ranks near one NIC. Then
 * slot, core and number decide.
 *
 * Each channel rotates that order. So it enters and leaves a host by other ranks than the channels
 * before it, first by ranks of another NIC: a host's NICs share its traffic. On a single host every
 * second channel reverses the order: links between its cores and sockets are then busy both ways.
 */
#ifndef RD_RANK_ORDER_H
#define RD_RANK_ORDER_H

#include "rondo/layout.h"
#include "topo/place.h"

/* Creates the layout of a channel, from the places of all ranks: [size]. */
int rd_order_create(
	struct rd_layout **layout, const struct rd_place *places, int size, int channel);
void rd_order_destroy(struct rd_layout *layout);

/* Creates the layouts of all channels, [channels]; channels of one order share one. After an error
   the caller destroys them, too. They are NULL before. */
int rd_orders_create(
	struct rd_layout **layouts, int channels, const struct rd_place *places, int size);
void rd_orders_destroy(struct rd_layout **layouts, int channels);

/* The first channel that has this channel's layout. */
static inline int rd_orders_first(struct rd_layout *const *layouts, int channel)
{
	int first = 0;

	while (layouts[first] != layouts[channel])
		first++;
	return first;
}

#endif
