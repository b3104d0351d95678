/* The properties that each run must have, whatever the faults. */
#include "world.h"

#include <stdio.h>

/* A refusal is doubted for so long; then one more attempt is made, after a pause. */
#define LINE_REFUSAL_MS (RD_QUORUM_DOUBTS_MS + 300)

static int count_bits(unsigned bits)
{
	return __builtin_popcount(bits);
}

static int delays_ms(void)
{
	int sum = 0;

	for (int i = 0; i < line.faults.count; i++) {
		const struct fault *fault = &line.faults.at[i];

		if (line.fired[i] &&
			(fault->kind == FAULT_pause || fault->kind == FAULT_partition ||
				fault->kind == FAULT_reject))
			sum += fault->number[1] ? fault->number[1] : 100000;
	}
	return sum;
}

static bool is_there(const struct line_rank *rank)
{
	return !rank->dead && rank->paused_until != NEVER;
}

/* No two comms go on: of comms with ranks that call, all but one have others that know better. */
static void judge_one_comm(void)
{
	int found = -1;

	for (int i = 0; i < line.size; i++) {
		const struct line_rank *rank = &line.ranks[i];

		if (!is_there(rank) || rank->stage != STAGE_CALLING)
			continue;
		if (found >= 0 && rank->comm != line.ranks[found].comm)
			line_fail("ranks %d and %d of the line go on in two comms", found, i);
		found = i;
	}
}

/* A comm that goes on has all its ranks. */
static void judge_whole(const struct line_rank *rank)
{
	const struct line_comm *comm = &line.comms[rank->comm];

	for (int i = 0; i < comm->size; i++) {
		int origin = comm->origins[i];

		if (!is_there(&line.ranks[origin]))
			line_fail("rank %d of the line goes on with rank %d, which is gone",
				rank->origin, origin);
		if (i > 0 && origin <= comm->origins[i - 1])
			line_fail("the ranks of a comm are not in their order");
	}
}

/* Whether so few ranks are gone, and no one was cut off, that all others have to go on. */
static bool must_go_on(void)
{
	unsigned gone = 0;
	bool known = line.hosts == 1;

	for (int i = 0; i < line.size; i++) {
		gone |= (unsigned)line.ranks[i].dead << i;
		known &= !line.ranks[i].vanished;
	}
	/* A rank that is dead for certain does not count. */
	return delays_ms() < LINE_HARMLESS_MS && (known || 2 * count_bits(gone) < line.size);
}

/* Deaths that are seen at once are no reason to wait for anything, but for what a firewall may have
   refused. */
static void judge_time(const struct line_rank *rank)
{
	int refusals = line.hosts > 1 ? line.faults.count : 0;
	uint64_t bound_ms = LINE_SWIFT_MS + (uint64_t)refusals * LINE_REFUSAL_MS;

	for (int i = 0; i < line.faults.count; i++)
		if (line.fired[i] && line.faults.at[i].kind != FAULT_kill)
			return;
	if (rank->since_ns > line.struck_ns + bound_ms * MS)
		line_fail("rank %d of the line took %llu ms after the last death", rank->origin,
			(unsigned long long)((rank->since_ns - line.struck_ns) / MS));
}

void line_judge(void)
{
	bool must = must_go_on();

	judge_one_comm();
	for (int i = 0; i < line.size; i++) {
		const struct line_rank *rank = &line.ranks[i];

		if (!is_there(rank))
			continue;
		judge_time(rank);
		if (rank->stage == STAGE_SHRINKING)
			line_fail("rank %d of the line hangs", i);
		else if (rank->stage == STAGE_CALLING)
			judge_whole(rank);
		else if (must)
			line_fail("rank %d of the line ends: %s", i, rank->error);
	}
}
