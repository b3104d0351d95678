#include "tuner/single_copy.h"

#include <stddef.h>

/* A trial is the first calls of each period, in stretches. A stretch's first call finds caches
   as the other way has left them, and does not count. Two sizes that alternate in a program
   appear in every stretch alike. */
#define PERIOD 1024
static const bool stretches[] = { false, true, true, false };
#define STRETCHES (sizeof(stretches) / sizeof(stretches[0]))
/* Short calls vary more; long ones are expensive. */
#define LONG (1 << 20)
#define STRETCH 4
#define LONG_STRETCH 2
/* Single copy must win by more than this part of the time with slots: its sender has to wait
   until its memory has been read. */
#define DOUBT 20

bool rd_single_copy_next(struct rd_single_copy *learned, uint64_t bytes, bool *tried)
{
	size_t call = learned->calls++ % PERIOD;

	if (call == 0) {
		learned->stretch = bytes < LONG ? STRETCH : LONG_STRETCH;
		learned->settled = false;
	}
	*tried = !learned->settled && call < STRETCHES * learned->stretch;
	return *tried ? stretches[call / learned->stretch] : learned->wins;
}

/* The better stretch of each way counts: what disturbs one seldom disturbs both. */
static void end_stretch(struct rd_single_copy *learned, bool copied_once)
{
	int64_t *best = &learned->best_ps[copied_once];

	if (*best == 0 || learned->stretch_ps < *best)
		*best = learned->stretch_ps;
	learned->stretch_ps = 0;
}

/* At the end; also halfway, where single copy has clearly lost. */
static bool is_over(const struct rd_single_copy *learned)
{
	int64_t copied = learned->best_ps[false], copied_once = learned->best_ps[true];

	return learned->calls % PERIOD == STRETCHES * learned->stretch ||
	       copied_once > copied + copied / DOUBT;
}

static void settle(struct rd_single_copy *learned)
{
	int64_t copied = learned->best_ps[false], copied_once = learned->best_ps[true];

	learned->settled = true;
	learned->wins = copied_once < copied - copied / DOUBT;
	learned->best_ps[false] = learned->best_ps[true] = 0;
}

void rd_single_copy_record(
	struct rd_single_copy *learned, bool copied_once, uint64_t bytes, int64_t took_ns)
{
	size_t noted = learned->calls % PERIOD;

	/* No link has single copy, or this rank sends nothing: both ways are the same, and noise
	   must not choose. */
	if (stretches[(noted - 1) / learned->stretch] && !copied_once) {
		learned->best_ps[true] = INT64_MAX;
		settle(learned);
		return;
	}
	if (noted % learned->stretch != 1)
		learned->stretch_ps += took_ns * 1000 / (int64_t)bytes + 1;
	if (noted % learned->stretch != 0)
		return;
	end_stretch(learned, copied_once);
	if (is_over(learned))
		settle(learned);
}
