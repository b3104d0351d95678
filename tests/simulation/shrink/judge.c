/* The properties that each run must have, whatever the faults. */
#include "world.h"

#include <stdio.h>

/* A refusal is doubted for so long; then one more attempt is made, after a pause. */
#define SHRINK_REFUSAL_MS (RD_QUORUM_DOUBTS_MS + 300)

static int count_bits(unsigned bits)
{
	return __builtin_popcount(bits);
}

static int delays_ms(void)
{
	int sum = 0;

	for (int i = 0; i < sim.faults.count; i++) {
		const struct fault *fault = &sim.faults.at[i];

		if (sim.fired[i] && (fault->kind == FAULT_pause || fault->kind == FAULT_partition ||
					    fault->kind == FAULT_reject))
			sum += fault->number[1] ? fault->number[1] : 100000;
	}
	return sum;
}

static bool is_there(const struct shrink_rank *rank)
{
	return !rank->dead && rank->paused_until != NEVER;
}

/* No two comms go on: of comms with ranks that call, all but one have others that know better. */
static void judge_one_comm(void)
{
	int found = -1;

	for (int i = 0; i < world.size; i++) {
		const struct shrink_rank *rank = &world.ranks[i];

		if (!is_there(rank) || rank->stage != STAGE_CALLING)
			continue;
		if (found >= 0 && rank->comm != world.ranks[found].comm)
			sim_fail("ranks %d and %d of the lineage go on in two comms", found, i);
		found = i;
	}
}

/* A comm that continues has all its ranks. */
static void judge_whole(const struct shrink_rank *rank)
{
	const struct shrink_comm *comm = &world.comms[rank->comm];

	for (int i = 0; i < comm->size; i++) {
		int origin = comm->origins[i];

		if (!is_there(&world.ranks[origin]))
			sim_fail("rank %d of the lineage continues with rank %d, which is gone",
				rank->origin, origin);
		if (i > 0 && origin <= comm->origins[i - 1])
			sim_fail("the ranks of a comm are not in their order");
	}
}

/* Whether so few ranks are gone, and no one was cut off, that all others have to go on. */
static bool must_go_on(void)
{
	unsigned gone = 0;
	bool known = world.hosts == 1;

	for (int i = 0; i < world.size; i++) {
		gone |= (unsigned)world.ranks[i].dead << i;
		known &= !(sim.vanished >> i & 1);
	}
	/* A rank that is dead for certain does not count. */
	return delays_ms() < SHRINK_HARMLESS_MS && (known || 2 * count_bits(gone) < world.size);
}

/* Deaths that are seen at once are no reason to wait for anything, but for what a firewall may have
   refused. */
static void judge_time(const struct shrink_rank *rank)
{
	int refusals = world.hosts > 1 ? sim.faults.count : 0;
	uint64_t bound_ms = SHRINK_SWIFT_MS + (uint64_t)refusals * SHRINK_REFUSAL_MS;

	for (int i = 0; i < sim.faults.count; i++)
		if (sim.fired[i] && sim.faults.at[i].kind != FAULT_kill)
			return;
	if (rank->since_ns > sim.struck_ns + bound_ms * MS)
		sim_fail("rank %d of the lineage took %llu ms after the last death", rank->origin,
			(unsigned long long)((rank->since_ns - sim.struck_ns) / MS));
}

void shrink_judge(void)
{
	bool must = must_go_on();

	judge_one_comm();
	for (int i = 0; i < world.size; i++) {
		const struct shrink_rank *rank = &world.ranks[i];

		if (!is_there(rank))
			continue;
		judge_time(rank);
		if (rank->stage == STAGE_SHRINKING)
			sim_fail("rank %d of the lineage hangs", i);
		else if (rank->stage == STAGE_CALLING)
			judge_whole(rank);
		else if (must)
			sim_fail("rank %d of the lineage ends: %s", i, rank->error);
	}
}
