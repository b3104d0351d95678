/*
 * One round in which every rank sends some chunks to one rank and receives as many from one,
 * possibly another. Were all to send all they have first, they would all wait for room in links
 * that hold two messages; were each to send one and wait for one, that would be a round for each
 * chunk. So of those who exchange, some send first and the others receive first: two messages in a
 * row, however many the chunks; and one where they are two or fewer.
 */
#ifndef RD_EXCHANGE_H
#define RD_EXCHANGE_H

#include "plan/plan.h"

enum rd_taking { RD_TAKE, RD_TAKE_REDUCE, RD_TAKE_REDUCE_LAST };

struct rd_exchange {
	int to, from;
	bool sends_first; /* not the same on all ranks of a circle of such exchanges */
	int out, in; /* the first chunk each way */
	int count, stride, chunks; /* each way: so many, so far apart, of so many in a circle */
	enum rd_taking taking;
};

void rd_exchange(struct rd_plan *plan, const struct rd_exchange *exchange);

#endif
