#include "tuner/single_copy.h"

#include <stddef.h>

/* A trial is the first calls of each period: in stretches, of which the first call finds caches as
   the other way has left them and does not count. Sizes that take turns in a program are in every
   stretch alike, if they are two. */
#define PERIOD 1024
static const bool stretches[] = { false, true, true, false };
#define STRETCHES (sizeof(stretches) / sizeof(stretches[0]))
/* Short calls differ more among themselves; long ones are dear. */
#define LONG (1 << 20)
#define STRETCH 4
#define LONG_STRETCH 2
/* Lending has won by more than this part of what copying took only: a rank that has lent must wait
   until its memory has been read. */
#define DOUBT 20

bool rd_lending_next(struct rd_lending *lending, uint64_t bytes, bool *tried)
{
	size_t call = lending->calls++ % PERIOD;

	if (call == 0) {
		lending->stretch = bytes < LONG ? STRETCH : LONG_STRETCH;
		lending->settled = false;
	}
	*tried = !lending->settled && call < STRETCHES * lending->stretch;
	return *tried ? stretches[call / lending->stretch] : lending->wins;
}

/* The better stretch of each way counts: what disturbs one seldom disturbs both. */
static void end_stretch(struct rd_lending *lending, bool lent)
{
	int64_t *best = &lending->best_ps[lent];

	if (*best == 0 || lending->stretch_ps < *best)
		*best = lending->stretch_ps;
	lending->stretch_ps = 0;
}

/* At the end; and where lending has lost clearly, which is known halfway. */
static bool is_over(const struct rd_lending *lending)
{
	int64_t copied = lending->best_ps[false], lent = lending->best_ps[true];

	return lending->calls % PERIOD == STRETCHES * lending->stretch ||
	       lent > copied + copied / DOUBT;
}

static void settle(struct rd_lending *lending)
{
	int64_t copied = lending->best_ps[false], lent = lending->best_ps[true];

	lending->settled = true;
	lending->wins = lent < copied - copied / DOUBT;
	lending->best_ps[false] = lending->best_ps[true] = 0;
}

void rd_lending_note(struct rd_lending *lending, bool lent, uint64_t bytes, int64_t took_ns)
{
	size_t noted = lending->calls % PERIOD;

	/* No link lends, or this rank sends nothing: both ways are one, and noise must not choose.
	 */
	if (stretches[(noted - 1) / lending->stretch] && !lent) {
		lending->best_ps[true] = INT64_MAX;
		settle(lending);
		return;
	}
	if (noted % lending->stretch != 1)
		lending->stretch_ps += took_ns * 1000 / (int64_t)bytes + 1;
	if (noted % lending->stretch != 0)
		return;
	end_stretch(lending, lent);
	if (is_over(lending))
		settle(lending);
}
