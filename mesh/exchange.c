#include "mesh/exchange.h"

/* Messages that a link holds before its receiver takes one. */
#define ROOM 2

static void send(struct rd_plan *plan, const struct rd_exchange *exchange, int first, int end)
{
	for (int i = first; i < end; i++)
		rd_send(plan, exchange->to,
			(exchange->out + i * exchange->stride) % exchange->chunks);
}

static void take(struct rd_plan *plan, const struct rd_exchange *exchange)
{
	for (int i = 0; i < exchange->count; i++) {
		int chunk = (exchange->in + i * exchange->stride) % exchange->chunks;

		if (exchange->taking == RD_TAKE)
			rd_recv(plan, exchange->from, chunk);
		else if (exchange->taking == RD_TAKE_REDUCE)
			rd_recv_reduce(plan, exchange->from, chunk);
		else
			rd_recv_reduce_last(plan, exchange->from, chunk);
	}
}

void rd_exchange(struct rd_plan *plan, const struct rd_exchange *exchange)
{
	int ahead = exchange->sends_first || exchange->count < ROOM ? exchange->count : ROOM;

	send(plan, exchange, 0, ahead);
	take(plan, exchange);
	send(plan, exchange, ahead, exchange->count);
}
