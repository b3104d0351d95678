#include "line.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "bench/percentile.h"
#include "pair.h"

#define STRETCHES 9
#define TIMEOUT_NS 2000000000

static bool await(struct bench_line *line, uint32_t turn)
{
	int64_t deadline = 0;

	for (unsigned spins = 1; atomic_load_explicit(&line->turn, memory_order_acquire) != turn;
		spins++) {
		if (spins & 0xffff)
			continue;
		int64_t now = rd_clock_ns();
		if (deadline == 0)
			deadline = now + TIMEOUT_NS;
		else if (now > deadline)
			return false;
	}
	return true;
}

/* Side 0 writes odd numbers and waits for the even one that follows; side 1 the other way round. */
static bool run_stretch(struct bench_line *line, int side, uint32_t first, int rounds)
{
	for (uint32_t turn = first; turn < first + 2 * (uint32_t)rounds; turn += 2) {
		if (side == 1 && !await(line, turn + 1))
			return false;
		atomic_store_explicit(&line->turn, turn + 1 + (uint32_t)side, memory_order_release);
		if (side == 0 && !await(line, turn + 2))
			return false;
	}
	return true;
}

double bench_line_ping_pong(struct bench_line *line, int side, int rounds)
{
	double each_ns[STRETCHES];
	/* Both sides leave the number at a multiple of this, so the next call needs no reset. */
	uint32_t length = 2 * (uint32_t)rounds * (STRETCHES + 1);
	uint32_t first = atomic_load_explicit(&line->turn, memory_order_acquire) / length * length;

	/* The first stretch waits for the other side, and warms up. */
	if (!run_stretch(line, side, first, rounds))
		return NAN;
	for (int i = 0; i < STRETCHES; i++) {
		int64_t start = rd_clock_ns();
		if (!run_stretch(line, side, first + 2 * (uint32_t)(rounds * (i + 1)), rounds))
			return NAN;
		each_ns[i] = (double)(rd_clock_ns() - start) / rounds;
	}
	bench_sort(each_ns, STRETCHES);
	return each_ns[STRETCHES / 2];
}

struct round_trip {
	struct bench_line line;
	double ns;
};

static void run_side(int side, void *argument)
{
	struct round_trip *trip = argument;
	double ns = bench_line_ping_pong(&trip->line, side, 2000);

	if (side == 0)
		trip->ns = ns;
}

double bench_line_round_trip_ns(void)
{
	struct round_trip trip;
	int processors[2];

	memset(&trip, 0, sizeof(trip));
	bench_pair_processors(processors);
	if (processors[0] == processors[1] || !bench_pair_run(run_side, &trip))
		return NAN;
	return trip.ns;
}
