#include "rehearse.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "comm.h"
#include "error.h"
#include "gauge.h"

/* What all ranks hold together in a rehearsal, and how long a block must be to say anything. */
#define MOST (1 << 20)
#define LEAST (16 << 10)
#define REHEARSALS 3
/* Only by more than this part of what copying took has lending won: where long calls of the two
   were alike here, it lost by a quarter in longer ones. */
#define DOUBT 10

/* Real calls, to compare lending with not: the sum of what all ranks have, or all that they have.
 */
struct rehearsal {
	size_t block; /* bytes that a rank brings, or of which a message is */
	char *in, *out; /* [size * block] */
};

static int rehearse(struct rondo_comm *comm, const struct rehearsal *rehearsal,
	enum rd_dealing dealing, bool lends, int64_t *took_ns)
{
	bool reduces = dealing == RD_REDUCES;
	int64_t began;
	int err;

	/* As in a program, which has just written what it sends. What nobody ever wrote is one page
	   of zeros that never leaves the reader's cache. */
	memset(rehearsal->in, 1, rehearsal->block * comm->size);
	err = rd_gauge_meet(comm);
	if (err)
		return err;
	rd_gauge_lend(comm, lends);
	began = rd_clock_ns();
	err = rd_gauge_call(
		comm, (struct rd_call){
			      .problem = { reduces ? RD_ALL_REDUCE : RD_ALL_GATHER, comm->rank,
				      comm->size, 0, 0, comm->layouts[0] },
			      .type = RONDO_U8,
			      .op = RONDO_MAX,
			      .count = reduces ? rehearsal->block * comm->size : rehearsal->block,
			      .in = rehearsal->in,
			      .out = rehearsal->out,
		      });
	*took_ns = rd_clock_ns() - began;
	return err;
}

static size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Both ways in turn, the first of each for the caches; *wins where lending was the quicker. */
static int compare(struct rondo_comm *comm, const struct rehearsal *rehearsal,
	enum rd_dealing dealing, bool *wins)
{
	int64_t best_ns[2] = { INT64_MAX, INT64_MAX }, took_ns;
	int err = 0;

	for (int i = 0; i < 2 * (1 + REHEARSALS) && !err; i++) {
		err = rehearse(comm, rehearsal, dealing, i % 2, &took_ns);
		if (i >= 2 && took_ns < best_ns[i % 2])
			best_ns[i % 2] = took_ns;
	}
	*wins = best_ns[1] < best_ns[0] - best_ns[0] / DOUBT;
	return err;
}

/*
 * Whether the long and the short messages are better lent. It must be seen in real calls: what a
 * message costs does not say who would have been idle meanwhile, nor what is still in whose cache.
 */
static int rehearse_dealing(struct rondo_comm *comm, struct rehearsal *rehearsal,
	enum rd_dealing dealing, uint32_t *lend_min)
{
	size_t longest = rehearsal->block, piece = min(longest, comm->piece_size);
	bool wins_long, wins_short = false;
	int err = compare(comm, rehearsal, dealing, &wins_long);

	rehearsal->block = LEAST;
	if (!err)
		err = compare(comm, rehearsal, dealing, &wins_short);
	rehearsal->block = longest;
	*lend_min = !wins_long ? RD_LEND_NEVER : wins_short ? 0 : (uint32_t)(piece / 2);
	return err;
}

/* Rank 0's times decide. */
static int rehearse_all(struct rondo_comm *comm, struct rehearsal *rehearsal)
{
	uint32_t lend_min[RD_DEALING_COUNT] = { 0 };
	bool possible = comm->introduction.possible;
	int err = 0;

	/* It is messages that are compared. */
	comm->introduction.possible = false;
	for (int dealing = 0; dealing < RD_DEALING_COUNT && !err; dealing++)
		err = rehearse_dealing(
			comm, rehearsal, (enum rd_dealing)dealing, &lend_min[dealing]);
	comm->introduction.possible = possible;
	if (!err)
		err = rd_gauge_tell(comm, lend_min, sizeof(lend_min));
	memcpy(comm->costs.lend_min, lend_min, sizeof(lend_min));
	return err;
}

/* Bytes of a block; 0 where there is nothing to compare, or it would take long. The same on all
 * ranks. */
static size_t rehearsed_block(const struct rondo_comm *comm)
{
	size_t block = MOST / (size_t)comm->size;

	if (!comm->costs.links[RD_NEAR].lends || comm->layouts[0]->group_count > 1 ||
		comm->size > (int)comm->costs.cores || block < LEAST || comm->piece_size < LEAST)
		return 0;
	return block;
}

int rd_rehearse(struct rondo_comm *comm)
{
	struct rehearsal rehearsal = { .block = rehearsed_block(comm) };
	size_t size = rehearsal.block * comm->size;
	int err;

	if (size == 0)
		return 0;
	rehearsal.in = calloc(2, size);
	if (!rehearsal.in)
		return rd_comm_fail(
			comm, rd_fail(RONDO_MEMORY, "no memory to measure links"), comm->rank);
	rehearsal.out = rehearsal.in + size;
	err = rehearse_all(comm, &rehearsal);
	free(rehearsal.in);
	return err;
}
