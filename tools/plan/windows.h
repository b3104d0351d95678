/*
 * Messages under way in a simulation, by windows of time of 2^shift ps: those of a window come out
 * together, in no order. It is a radix heap of two levels (R. Ahuja, K. Mehlhorn, J. Orlin, R.
 * Tarjan, "Faster algorithms for the shortest path problem", JACM 1990): no message is put before
 * the window that came out last. Most are put a few windows after it, and move once at most.
 */
#ifndef PLAN_WINDOWS_H
#define PLAN_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/grow.h"

/* A message that comes to a link of its route; or the time at which its sender may go on. */
struct message {
	int64_t at_ps, tail_ps; /* its first byte, and its last */
	int queue, hop;
	int link; /* that it comes to; -1: its sender goes on */
	int next; /* for its user */
	bool has_bytes;
};

struct message_list {
	struct message *messages;
	int count, room;
};

/* False: no memory. */
static inline bool message_list_add(struct message_list *list, const struct message *message)
{
	if (!rd_grow(&list->messages, list->count, &list->room, sizeof(*list->messages)))
		return false;
	list->messages[list->count++] = *message;
	return true;
}

/* The first to pass goes last. If two have the same time, that of the lower queue passes first. */
void message_list_sort(struct message_list *list);

#define WINDOWS_NEAR_BITS 6
#define WINDOWS_NEAR (1 << WINDOWS_NEAR_BITS)

struct windows {
	int shift;
	uint64_t now; /* the number of the window that came out last */
	/* Windows whose numbers differ from that in the last bits alone, by these. */
	struct message_list near[WINDOWS_NEAR];
	/* [i]: WINDOWS_NEAR_BITS + i is the highest bit in which their window's number differs. */
	struct message_list far[64 - WINDOWS_NEAR_BITS];
	uint64_t near_used, far_used; /* bit i: list i has messages */
};

/* Starts from all zero, and `shift`. False: no memory. */
static inline bool windows_put(struct windows *windows, const struct message *message)
{
	uint64_t window = (uint64_t)message->at_ps >> windows->shift, other = window ^ windows->now;
	int index = (int)(window % WINDOWS_NEAR);

	if (other < WINDOWS_NEAR) {
		windows->near_used |= UINT64_C(1) << index;
		return message_list_add(&windows->near[index], message);
	}
	index = 63 - WINDOWS_NEAR_BITS - __builtin_clzll(other);
	windows->far_used |= UINT64_C(1) << index;
	return message_list_add(&windows->far[index], message);
}

/* Sets the list, which is empty, to the messages of the next window that has any: those of the same
   window as before, if some were put there since. False: there is none, or no memory, which *err
   then says. */
bool windows_next(struct windows *windows, struct message_list *list, int *err);
void windows_finish(struct windows *windows);

#endif
