/* The properties that each run must have, whatever the faults. */
#include <stdio.h>
#include <string.h>

#include "world.h"

static int delays_ms(enum fault_kind kind)
{
	int sum = 0;

	for (int i = 0; i < sim.faults.count; i++)
		if (sim.fired[i] && sim.faults.at[i].kind == kind)
			sum += sim.faults.at[i].number[1] ? sim.faults.at[i].number[1] : 100000;
	return sum;
}

static int all_delays_ms(void)
{
	return delays_ms(FAULT_pause) + delays_ms(FAULT_partition) + delays_ms(FAULT_reject);
}

static bool is_there(int rank)
{
	return !job.ranks[rank].dead && job.ranks[rank].paused_until != NEVER;
}

/* Whether a fault may have made others lose this rank. */
static bool is_suspect(int rank)
{
	return !is_there(rank) || job.ranks[rank].cut_off || all_delays_ms() >= JOB_HARMLESS_MS;
}

/* Whether this part itself ends its comm. */
static bool is_guilty(const struct job_comm *comm, int number)
{
	const struct part *part = &comm->parts[number];

	return is_suspect(comm->members[number]) || !part->called || part->odd || part->cancelled ||
	       (part->revoke_ms >= 0 && part->made);
}

static bool is_clean(const struct job_comm *comm)
{
	for (int i = 0; i < comm->size; i++)
		if (is_guilty(comm, i))
			return false;
	return true;
}

static bool has_clean_parents(const struct job_comm *comm)
{
	while (comm->parent >= 0) {
		comm = &job.comms[comm->parent];
		if (!is_clean(comm))
			return false;
	}
	return true;
}

/* Whether the comm's parent failed with this reason, on any rank. */
static bool is_inherited(const struct job_comm *comm, const char *reason)
{
	while (comm->parent >= 0) {
		comm = &job.comms[comm->parent];
		for (int i = 0; i < comm->size; i++)
			if (comm->parts[i].error && strcmp(comm->parts[i].reason, reason) == 0)
				return true;
	}
	return false;
}

/* A parent's failure may have come before the end of the making, and be seen later. */
static bool all_made(const struct job_comm *comm)
{
	for (int i = 0; i < comm->size; i++)
		if (!comm->parts[i].made ||
			(comm->parts[i].error && is_inherited(comm, comm->parts[i].reason)))
			return false;
	return true;
}

/* The reason names a rank that is at fault, or that its parent's failure took out. */
static void judge_culprit(int index, int number)
{
	const struct job_comm *comm = &job.comms[index];
	const struct part *part = &comm->parts[number];
	int first;
	unsigned named = named_ranks(part->reason, &first), guilty = 0;

	if (!part->error || !part->called || is_inherited(comm, part->reason))
		return;
	for (int i = 0; i < comm->size; i++)
		if (is_guilty(comm, i) ||
			(comm->parts[i].error && is_inherited(comm, comm->parts[i].reason)))
			guilty |= 1u << i;
	/* No one listens: rank 0 never came, or has ended. */
	if (part->error == RONDO_UNREACHABLE) {
		named |= 1;
		guilty |= comm->parts[0].error != 0;
	}
	if (!(named & guilty))
		sim_fail("rank %d of comm %d blames an innocent: %s: %s", number, index,
			rondo_error_name(part->error), part->reason);
	if (part->error == RONDO_DIED && first >= 0 &&
		(first >= comm->size || !job.ranks[comm->members[first]].dead))
		sim_fail("rank %d of comm %d calls a living rank dead: %s", number, index,
			part->reason);
}

/* A comm fails for its own ranks alone, once all have it. */
static void judge_spared(int index, int number)
{
	const struct job_comm *comm = &job.comms[index];
	const struct part *part = &comm->parts[number];

	if (part->error && is_clean(comm) && (all_made(comm) || has_clean_parents(comm)))
		sim_fail("rank %d of comm %d fails, though none of its ranks is at fault: %s",
			number, index, part->reason);
}

/* A rank learns in time that another one of its comm has died. Once rank 0 has left and its process
   has ended, only its calls show that. */
static void judge_told(int index, int number)
{
	const struct job_comm *comm = &job.comms[index];
	const struct part *part = &comm->parts[number];

	if (!part->made || all_delays_ms() > 0 ||
		(job.ranks[comm->members[0]].dead && comm->parts[0].stage != PART_HAS))
		return;
	for (int i = 0; i < comm->size; i++) {
		const struct job_rank *lost = &job.ranks[comm->members[i]];
		uint64_t bound_ns = lost->dead_ns + (JOB_HEARTBEAT_MS + 2000) * MS;

		if (lost->dead && comm->parts[i].made && comm->parts[i].stage == PART_HAS &&
			part->made_ns < lost->dead_ns && part->end_ns > bound_ns)
			sim_fail("rank %d of comm %d has it %llu ms after rank %d died: %s", number,
				index, (unsigned long long)((part->end_ns - lost->dead_ns) / MS), i,
				part->reason);
	}
}

void job_judge(void)
{
	for (int i = 0; i < job.size; i++)
		if (is_there(i) && fibers_has(i))
			sim_fail("rank %d hangs", i);
	for (int i = 0; i < job.comm_count; i++) {
		for (int k = 0; k < job.comms[i].size; k++) {
			if (!is_there(job.comms[i].members[k]))
				continue;
			judge_spared(i, k);
			judge_culprit(i, k);
			judge_told(i, k);
		}
	}
}
