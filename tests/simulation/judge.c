/* The properties that each run must have, whatever the faults. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "world.h"

/* ---- Which faults do harm ------------------------------------------------------------------ */

/* Times that are bearable alone add up. */
static int delays_ms(void)
{
	int sum = 0;

	for (int i = 0; i < sim.faults.count; i++) {
		const struct fault *fault = &sim.faults.at[i];

		if (fault->kind == FAULT_pause || fault->kind == FAULT_partition ||
			fault->kind == FAULT_late)
			sum += fault->number[1] ? fault->number[1] : 100000;
		if (fault->kind == FAULT_lag)
			sum += fault->number[2] / 4;
	}
	return sum;
}

/* The coordinator ended with the process of rank 0, which had left. */
static bool has_departed(void)
{
	return world_fault(FAULT_depart, 0, -1) != NULL;
}

static bool does_harm(int i)
{
	const struct fault *fault = &sim.faults.at[i];

	if (fault_strikes(fault) && !sim.fired[i])
		return false;
	switch (fault->kind) {
	case FAULT_pause:
	case FAULT_partition:
	case FAULT_late:
	case FAULT_lag:
	case FAULT_refuse:
		return delays_ms() >= HARMLESS_MS;
	case FAULT_deaf:
	case FAULT_shut:
		/* Nobody is there to choose another transport. */
		return delays_ms() >= HARMLESS_MS || has_departed();
	case FAULT_strange:
	case FAULT_depart:
		return false;
	default:
		return true;
	}
}

/* The ranks (bits) that a fault that does harm concerns. */
static unsigned guilty_ranks(const struct world *world)
{
	unsigned guilty = 0;

	for (int i = 0; i < sim.faults.count; i++) {
		const struct fault *fault = &sim.faults.at[i];

		if (!does_harm(i))
			continue;
		if (fault->kind == FAULT_partition || fault->kind == FAULT_reject)
			guilty |= (1u << world->size) - 1;
		else
			guilty |= 1u << fault->number[0];
		if (fault->kind == FAULT_sever || fault->kind == FAULT_flip ||
			fault->kind == FAULT_deaf || fault->kind == FAULT_shut)
			guilty |= 1u << fault->number[1];
	}
	return guilty;
}

/* Those that may have lost their coordinator. */
static unsigned cut_off_ranks(const struct world *world)
{
	unsigned cut = 0;

	for (int i = 0; i < sim.faults.count; i++) {
		const struct fault *fault = &sim.faults.at[i];

		if (!does_harm(i))
			continue;
		if (fault->kind == FAULT_partition || fault->kind == FAULT_reject)
			cut |= fault->number[0] & 1 ? ~(unsigned)fault->number[0]
						    : (unsigned)fault->number[0];
		if (fault->kind == FAULT_reset || fault->kind == FAULT_pause ||
			fault->kind == FAULT_late)
			cut |= fault->number[0] == 0 ? ~0u : 1u << fault->number[0];
		if ((fault->kind == FAULT_kill || fault->kind == FAULT_vanish ||
			    fault->kind == FAULT_absent || fault->kind == FAULT_quit) &&
			fault->number[0] == 0)
			cut = ~0u;
		/* The coordinator takes it for one of the ranks that are still to come. So it does
		   with a rank that comes again before the end of its first connection is known. */
		if (fault->kind == FAULT_twice ||
			(fault->kind == FAULT_reset && world->coordinator_error == RONDO_SETTING))
			cut = ~0u;
	}
	return cut;
}

static bool has_fault(enum fault_kind kind)
{
	for (int i = 0; i < sim.faults.count; i++)
		if (sim.faults.at[i].kind == kind)
			return true;
	return false;
}

static bool comes_at_the_bound(void)
{
	for (int i = 0; i < sim.faults.count; i++)
		if (((sim.faults.at[i].kind == FAULT_late ||
			     sim.faults.at[i].kind == FAULT_pause) &&
			    sim.faults.at[i].number[1] > INIT_MS - 2000) ||
			(sim.faults.at[i].kind == FAULT_lag &&
				sim.faults.at[i].number[2] > CALL_MS - 1000 &&
				sim.faults.at[i].number[2] < CALL_MS + 1000))
			return true;
	return false;
}

/* ---- Properties ---------------------------------------------------------------------------- */

static const char *reason_of(const struct sim_rank *rank)
{
	return rank->result ? rank->result_reason : "success";
}

static void judge_end(struct world *world, const struct sim_rank *rank)
{
	if (rank->stage != STAGE_GONE)
		sim_fail("rank %d hangs (stage %d, call %d, waiting for rank %d)", rank->rank,
			rank->stage, rank->call, rank->started ? rank->exec.waiting_for : -1);
	else if (rank->wrong)
		sim_fail("rank %d returned success with a wrong result: %s", rank->rank,
			rank->wrong_text);
	else if (!rank->result && rank->call < world->calls &&
		 !world_fault(FAULT_leave, rank->rank, -1))
		sim_fail("rank %d ended well after %d of %d calls", rank->rank, rank->call,
			world->calls);
}

/* All that the coordinator reaches have its verdict. */
static void judge_agreement(struct world *world, const struct sim_rank *rank)
{
	bool reached = !world->ranks[0].dead && world->coordinator_error &&
		       !(cut_off_ranks(world) >> rank->rank & 1);

	if (reached && rank->result &&
		(rank->result != world->coordinator_error ||
			strcmp(rank->result_reason, world->coordinator_reason) != 0))
		sim_fail("rank %d has \"%s\", the coordinator \"%s\"", rank->rank,
			rank->result_reason, world->coordinator_reason);
	if (rank->result && !world->coordinator_error && !cut_off_ranks(world) && !has_departed())
		sim_fail("rank %d fails without a verdict: %s", rank->rank, rank->result_reason);
}

/* The verdict names a rank that a fault concerns; a death, that rank and no other. */
static void judge_culprit(struct world *world, const struct sim_rank *rank)
{
	unsigned cut_off = cut_off_ranks(world), guilty = guilty_ranks(world) | cut_off;
	int first;
	unsigned named = named_ranks(reason_of(rank), &first);

	if (!rank->result)
		return;
	/* Nobody judges what follows from what. */
	if (has_departed())
		guilty = ~0u;
	/* To a rank that is cut off, rank 0 is gone. */
	if (cut_off >> rank->rank & 1)
		guilty |= 1;
	/* Ranks gave up on one that came at the bound, while the coordinator asked for it. */
	if (rank->result == RONDO_TIMEOUT && comes_at_the_bound())
		return;
	/* The last messages of a host may be lost with it, though its rank had left. */
	if (strstr(rank->result_reason, "not left") && has_fault(FAULT_vanish))
		return;
	/* A rank's wrong call can come once the others are done, and have left. */
	if (rank->result == RONDO_LEFT && has_fault(FAULT_differ))
		return;
	if (!(named & guilty))
		sim_fail("rank %d blames an innocent: %s: %s", rank->rank,
			rondo_error_name(rank->result), rank->result_reason);
	if ((rank->result == RONDO_DIED || rank->result == RONDO_REVOKED) &&
		!(first >= 0 && guilty >> first & 1))
		sim_fail("rank %d names the wrong rank: %s", rank->rank, rank->result_reason);
	/* A foreign connection that sends a rank's HELLO again ends as it likes. */
	if (rank->result == RONDO_DIED && first >= 0 && !world->ranks[first].dead &&
		!has_fault(FAULT_twice))
		sim_fail("rank %d calls a living rank dead: %s", rank->rank, rank->result_reason);
}

/* The error of a run with this fault alone; 0: there are several. */
static int error_of(enum fault_kind kind)
{
	switch (kind) {
	case FAULT_kill:
	case FAULT_quit:
		return RONDO_DIED;
	case FAULT_vanish:
		return RONDO_TIMEOUT;
	case FAULT_revoke:
		return RONDO_REVOKED;
	case FAULT_leave:
		return RONDO_LEFT;
	case FAULT_setting:
		return RONDO_SETTING;
	case FAULT_decline:
		return RONDO_MEMORY;
	default:
		return 0;
	}
}

/* Where one fault alone did harm: the error is its own, and comes in time. */
static void judge_alone(struct world *world, const struct sim_rank *rank, int alone)
{
	enum fault_kind kind = sim.faults.at[alone].kind;
	int error = error_of(kind);

	/* A rank that dies before it comes is one that does not come. */
	if ((kind == FAULT_kill || kind == FAULT_vanish) && !world->struck_all_open)
		return;
	if (!rank->result || cut_off_ranks(world))
		return;
	/* Nobody can tell whether its kernel reset the connection, or the network. */
	if ((kind == FAULT_kill || kind == FAULT_quit) && rank->result == RONDO_BROKEN &&
		world_is_far(sim.faults.at[alone].number[0]))
		return;
	if (error && rank->result != error)
		sim_fail("rank %d has %s instead of %s: %s", rank->rank,
			rondo_error_name(rank->result), rondo_error_name(error),
			rank->result_reason);
}

/* Within the bound on heartbeats, not that on calls, once all ranks had met. */
static void judge_time(struct world *world, const struct sim_rank *rank, int alone)
{
	enum fault_kind kind = sim.faults.at[alone].kind;
	uint64_t took_ns = rank->end_ns - sim.struck_ns;

	if ((kind == FAULT_kill || kind == FAULT_vanish) && world->struck_all_open &&
		rank->result && took_ns > (HEARTBEAT_MS + 2000) * MS)
		sim_fail("rank %d ended only %llu ms after the fault: %s", rank->rank,
			(unsigned long long)(took_ns / MS), rank->result_reason);
}

void judge(struct world *world)
{
	int harms = 0, alone = 0;

	for (int i = 0; i < sim.faults.count; i++) {
		if (!does_harm(i))
			continue;
		harms++;
		alone = i;
	}
	for (int i = 0; i < world->size; i++) {
		const struct sim_rank *rank = &world->ranks[i];

		if (rank->dead || rank->paused_until == NEVER || world_fault(FAULT_absent, i, -1))
			continue;
		judge_end(world, rank);
		if (harms == 0 && rank->result)
			sim_fail("rank %d fails though no fault does harm: %s", i,
				rank->result_reason);
		judge_agreement(world, rank);
		judge_culprit(world, rank);
		/* Without a coordinator, the bound on calls holds alone. */
		if (harms != 1 || delays_ms() > 0 || has_departed())
			continue;
		judge_alone(world, rank, alone);
		judge_time(world, rank, alone);
	}
}
