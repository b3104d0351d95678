/* What is lent to a peer and what is written into a link's room: the costs decide. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "world.h"

#define COUNT (64 << 10) /* bytes a rank brings */

static int share(struct citizen *citizen, const char *in, char *out, uint64_t *lent)
{
	const struct rd_link *link = citizen->comm->links[1 - citizen->rank];
	uint64_t before = link->posted;
	int err = rondo_all_gather(citizen->comm, in, out, COUNT, RONDO_U8, NULL);

	if (err || memcmp(out + (size_t)citizen->rank * COUNT, in, COUNT) != 0 ||
		out[(1 - citizen->rank) * COUNT] != 'b' - citizen->rank)
		return world_say(citizen, "all_gather: %s", err ? rondo_last_error() : "wrong");
	*lent = link->posted - before;
	return 0;
}

static int lend_and_not(struct citizen *citizen)
{
	uint32_t *lend_min = citizen->comm->costs.lend_min;
	char *in = malloc(COUNT), *out = malloc(2 * COUNT);
	uint64_t lent[3] = { 0 };
	int err;

	memset(in, 'a' + citizen->rank, COUNT);
	lend_min[RD_MOVES] = 0;
	err = share(citizen, in, out, &lent[0]);
	lend_min[RD_MOVES] = COUNT + 1;
	if (!err)
		err = share(citizen, in, out, &lent[1]);
	/* However short the picker has cut the pieces. */
	lend_min[RD_MOVES] = COUNT / 64;
	if (!err)
		err = share(citizen, in, out, &lent[2]);
	free(in);
	free(out);
	if (!err && (lent[0] == 0 || lent[1] != 0 || lent[2] == 0))
		return world_say(citizen, "lent %d, %d and %d messages", (int)lent[0], (int)lent[1],
			(int)lent[2]);
	return err;
}

Test(lending, begins_where_the_costs_say)
{
	struct world world = { .size = 2, .transport = "shm", .algo = "ring" };

	cr_assert_eq(world_run(&world, lend_and_not, NULL, NULL), 0);
}

/* Every rank says what it found, as a number that must be one on all. */
static int say_costs(struct citizen *citizen)
{
	const uint32_t *lend_min = citizen->comm->costs.lend_min;

	if (citizen->comm->crowded && lend_min[RD_MOVES] != RD_LEND_NEVER)
		return world_say(citizen, "ranks that share cores lend");
	*citizen->number = (uint64_t)lend_min[RD_MOVES] << 32 | lend_min[RD_REDUCES];
	return 0;
}

static void agree(int size, bool threads)
{
	struct world world = { .size = size, .transport = "shm", .threads = threads };
	struct fate fates[WORLD_MAX];

	cr_assert_eq(world_run(&world, say_costs, NULL, fates), 0);
	for (int rank = 1; rank < size; rank++)
		cr_assert_eq(fates[rank].number, fates[0].number, "rank %d of %d", rank, size);
}

Test(lending, is_decided_alike_on_all_ranks)
{
	for (int size = 2; size <= 5; size++)
		agree(size, false);
	agree(2, true);
}
