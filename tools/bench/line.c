#include "line.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "pair.h"

#define STRETCHES 9
#define PATIENCE_NS 2000000000

static bool await(struct bench_line *line, uint32_t turn)
{
	int64_t deadline = 0;

	for (unsigned spins = 1; atomic_load_explicit(&line->turn, memory_order_acquire) != turn;
		spins++) {
		if (spins & 0xffff)
			continue;
		int64_t now = bench_now_ns();
		if (deadline == 0)
			deadline = now + PATIENCE_NS;
		else if (now > deadline)
			return false;
	}
	return true;
}

/* Side 0 writes odd numbers and waits for the even one that follows; side 1 the other way round. */
static bool play_stretch(struct bench_line *line, int side, uint32_t first, int rounds)
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

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double bench_line_play(struct bench_line *line, int side, int rounds)
{
	double each_ns[STRETCHES];
	/* Both sides leave the number at a multiple of this, so the next game needs no reset. */
	uint32_t game = 2 * (uint32_t)rounds * (STRETCHES + 1);
	uint32_t first = atomic_load_explicit(&line->turn, memory_order_acquire) / game * game;

	/* The first stretch waits for the other side, and warms up. */
	if (!play_stretch(line, side, first, rounds))
		return NAN;
	for (int i = 0; i < STRETCHES; i++) {
		int64_t start = bench_now_ns();
		if (!play_stretch(line, side, first + 2 * (uint32_t)(rounds * (i + 1)), rounds))
			return NAN;
		each_ns[i] = (double)(bench_now_ns() - start) / rounds;
	}
	qsort(each_ns, STRETCHES, sizeof(*each_ns), ascending);
	return each_ns[STRETCHES / 2];
}

struct game {
	struct bench_line line;
	double ns;
};

static void play_side(int side, void *argument)
{
	struct game *game = argument;
	double ns = bench_line_play(&game->line, side, 2000);

	if (side == 0)
		game->ns = ns;
}

double bench_line_round_trip_ns(void)
{
	struct game game;
	int processors[2];

	memset(&game, 0, sizeof(game));
	bench_pair_processors(processors);
	if (processors[0] == processors[1] || !bench_pair_run(play_side, &game))
		return NAN;
	return game.ns;
}
