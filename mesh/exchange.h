/*
 * One round in which every rank sends some chunks to one rank and receives as many from one,
 * possibly another.
 *
 * Links hold two messages. If all ranks first sent all their chunks, they would all wait for room.
 * If each sent one chunk and waited for one, each chunk would be a round. In a circle of
 * exchanges, therefore, some ranks send first and the others receive first. The round then costs
 * two messages in a row, for any number of chunks; one where there are at most two chunks.
 */
#ifndef RD_EXCHANGE_H
#define RD_EXCHANGE_H

#include "plan/plan.h"

enum rd_taking { RD_TAKE, RD_TAKE_REDUCE, RD_TAKE_REDUCE_LAST };

struct rd_exchange {
	int to, from;
	bool sends_first; /* must differ between some ranks of a circle of exchanges */
	int out, in; /* the first chunk each way */
	/* each way: `count` chunks, `stride` apart, in a circle of `chunks` */
	int count, stride, chunks;
	enum rd_taking taking;
};

void rd_exchange(struct rd_plan *plan, const struct rd_exchange *exchange);

#endif
