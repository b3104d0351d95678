#include "tuner/single_copy.h"

#include <stddef.h>

#include "tuner/cost.h"
#include "tuner/thresholds.h"

/* A trial is the first calls of each period, in stretches. A stretch's first call finds caches
   as the other way has left them, and does not count. Two sizes that alternate in a program
   appear in every stretch alike. */
static const bool stretches[] = { false, true, true, false };
#define STRETCHES (sizeof(stretches) / sizeof(stretches[0]))

bool rd_single_copy_next(struct rd_single_copy *learned, uint64_t bytes, bool *tried)
{
	size_t call = learned->calls++ % RD_TRIAL_PERIOD;

	if (call == 0) {
		learned->stretch = bytes < RD_LONG_LEAST ? RD_STRETCH : RD_LONG_STRETCH;
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

	return learned->calls % RD_TRIAL_PERIOD == STRETCHES * learned->stretch ||
	       copied_once > copied + copied / RD_SINGLE_COPY_GAIN;
}

static void settle(struct rd_single_copy *learned)
{
	int64_t copied = learned->best_ps[false], copied_once = learned->best_ps[true];

	learned->settled = true;
	learned->wins = copied_once < copied - copied / RD_SINGLE_COPY_GAIN;
	if (learned->wins)
		learned->share = (uint32_t)(copied_once * 1000 / copied);
	learned->best_ps[false] = learned->best_ps[true] = 0;
}

void rd_single_copy_record(
	struct rd_single_copy *learned, bool copied_once, uint64_t bytes, int64_t took_ns)
{
	size_t call = learned->calls % RD_TRIAL_PERIOD;

	/* No link has single copy, or this rank sends nothing: both ways are the same, and noise
	   must not choose. */
	if (stretches[(call - 1) / learned->stretch] && !copied_once) {
		learned->best_ps[true] = INT64_MAX;
		settle(learned);
		return;
	}
	if (call % learned->stretch != 1)
		learned->stretch_ps += took_ns * 1000 / (int64_t)bytes + 1;
	if (call % learned->stretch != 0)
		return;
	end_stretch(learned, copied_once);
	if (is_over(learned))
		settle(learned);
}

int64_t rd_single_copy_expect(const struct rd_single_copy *learned, int64_t slots_ns)
{
	return learned->wins ? rd_bytes_ns((uint64_t)slots_ns, learned->share) : slots_ns;
}
