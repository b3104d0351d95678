/*
 * Messages under way in a simulation, by windows of time of 2^shift ps: those of a window come out
 * together, in no order. It is a radix heap (R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, "Faster
 * algorithms for the shortest path problem", JACM 1990): no message is put before the window that
 * came out last.
 */
#ifndef PLAN_WINDOWS_H
#define PLAN_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "arrays.h"

/* A message that comes to a link of its route. */
struct message {
	int64_t at_ps, tail_ps; /* its first byte, and its last */
	int queue, hop;
	bool is_first : 1; /* its sender waits until it comes out */
	bool has_bytes : 1;
	int next; /* for its user */
};

struct message_list {
	struct message *messages;
	int count, room;
};

/* False: no memory. */
static inline bool message_list_add(struct message_list *list, const struct message *message)
{
	if (!plan_grow(&list->messages, list->count, &list->room, sizeof(*list->messages)))
		return false;
	list->messages[list->count++] = *message;
	return true;
}

/* The first to pass goes last. If two have the same time, that of the lower queue passes first. */
void message_list_sort(struct message_list *list);

struct windows {
	int shift;
	uint64_t now; /* the number of the window that came out last */
	/* [0]: of that window. [i]: bit i - 1 is the highest in which their window's number and
	   that differ. */
	struct message_list lists[65];
	uint64_t used; /* bit i: lists[i + 1] has messages */
};

/* Starts from all zero, and `shift`. False: no memory. */
static inline bool windows_put(struct windows *windows, const struct message *message)
{
	uint64_t other = ((uint64_t)message->at_ps >> windows->shift) ^ windows->now;
	int index = other ? 64 - __builtin_clzll(other) : 0;

	if (index > 0)
		windows->used |= UINT64_C(1) << (index - 1);
	return message_list_add(&windows->lists[index], message);
}

/* Gives the messages of the next window that has any: those of the same window as before, if some
   were put there since. The caller takes them and sets the list's count to 0. NULL: there is none,
   or no memory, which *err then says. */
struct message_list *windows_next(struct windows *windows, int *err);
void windows_finish(struct windows *windows);

#endif
