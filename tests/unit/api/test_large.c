/* Pieces larger than all buffers between two ranks, exchanged in place. A rank can receive only
   after its own piece has left, so the transport must accept pieces before a receive. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "world.h"

#define PIECE ((size_t)16 << 20)
/* A piece and a bit. */
#define COUNT (PIECE / sizeof(int) + 1000)

static int value(int from, int to, size_t i)
{
	return from * 1000003 + to * 10007 + (int)i;
}

static int exchange(struct rank_env *env)
{
	int rank = env->rank, size = env->size, err, wrong = 0;
	int *all = calloc(size * COUNT, sizeof(int));

	for (int to = 0; to < size; to++)
		for (size_t i = 0; i < COUNT; i++)
			all[to * COUNT + i] = value(rank, to, i);
	err = rondo_all_to_all(env->comm, all, all, COUNT, RONDO_I32, NULL);
	for (int from = 0; from < size; from++)
		for (size_t i = 0; i < COUNT; i++)
			wrong += all[from * COUNT + i] != value(from, rank, i);
	free(all);
	if (err)
		return world_report(env, "%s", rondo_last_error());
	return wrong ? world_report(env, "%d elements are wrong", wrong) : 0;
}

static void run(int size, const char *transport, int channels)
{
	WORLD_TRY(exchange, .size = size, .transport = transport, .channels = channels,
		.piece_size = PIECE, .timeout_ms = 20000);
}

Test(large_pieces, are_exchanged_in_place_over_tcp, .timeout = 120)
{
	run(2, "tcp", 1);
	run(3, "tcp", 2);
}

Test(large_pieces, are_exchanged_in_place_over_shm, .timeout = 120)
{
	run(3, "shm", 1);
}

Test(large_pieces, are_exchanged_in_place_between_hosts, .timeout = 120)
{
	run(4, "mixed", 1);
}
