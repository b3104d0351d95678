/*
 * The members of a meeting: the agents that its leader has welcomed.
 */
#ifndef RUN_NODES_MEMBERS_H
#define RUN_NODES_MEMBERS_H

#include <stdbool.h>

#include "run/nodes/message.h"

enum member_state {
	MEMBER_HERE, /* its JOIN is awaited */
	MEMBER_WAITS, /* a newcomer that has sent JOIN: ready at ready_at */
	MEMBER_READY,
	MEMBER_RUNS,
	MEMBER_DONE, /* its ranks have ended well */
	MEMBER_ENDED, /* after STOP */
};

struct member {
	int id; /* the leader's; greater for later ones */
	enum member_state state;
	struct hello hello;
	struct join join;
	char address[ADDRESS_SIZE]; /* where the leader sees it */
	int node; /* in the last world; -1: it was not in it */
	int64_t ready_at; /* on the meeting's clock */
	bool leaves; /* it is ending its ranks, and goes then */
};

/* In the order of their coming. */
struct members {
	struct member *list;
	int count, capacity;
};

void members_finish(struct members *members);

/* NULL: there is none of this id. The pointer is valid until a member comes or goes. */
struct member *members_find(struct members *members, int id);
/* A member to be filled in. */
struct member *members_add(struct members *members);
void members_remove(struct members *members, const struct member *member);

/* Those in this state, without those that leave. */
int members_count(const struct members *members, enum member_state state);

/* The earliest ready_at of those that wait; 0: none waits. */
int64_t members_next_ready(const struct members *members);
/* The first number that no node has, where nodes have given ones; -1: they have none. */
int members_missing(const struct members *members);

/* Sorts all, or those that are ready, by their nodes in the last world; newcomers follow, as they
   came. Returns their number; the caller frees *sorted. */
int members_sort(const struct members *members, bool ready, struct member ***sorted);

/* Those whose wanted number is free get it as their place; the others fill the gaps in their
   order. */
void members_number(struct member **sorted, int count);

#endif
