/*
 * The making of comms, without their messages: a comm is made once all its ranks have come to its
 * port. Its ranks learn that it has failed each at its own moment.
 */
#include "world.h"

#include <stdio.h>

#include "base/error.h"

#define RETRY_MS 20

static unsigned bit(int origin)
{
	return 1u << origin;
}

/* ---- Failures ------------------------------------------------------------------------------- */

/* The member will know; lost: an origin that it takes for dead or lost; -1: none. */
static void tell(int index, int member, int lost, int state, uint64_t after_ns)
{
	struct shrink_comm *comm = &world.comms[index];
	int first = comm->origins[0];

	if (comm->told & bit(member))
		return;
	comm->told |= bit(member);
	/* The verdict comes by way of the first rank. A member that is cut off from it for long
	   finds that alone. */
	if (first >= 0 && first != member && sim_cut(member, first)) {
		uint64_t silent_ns = sim.now_ns + SHRINK_HEARTBEAT_MS * MS;
		uint64_t until_ns = sim_cut(member, first);

		after_ns += (until_ns < silent_ns ? until_ns : silent_ns) - sim.now_ns;
		if (until_ns > silent_ns) {
			lost = first;
			state = RD_LOST;
		}
	}
	comm->lost[member] = lost;
	comm->state_of_lost[member] = state;
	sim_event(EVENT_BREAK, index * SHRINK_RANKS + member,
		sim.now_ns + after_ns + sim_delay(world.network_ns));
}

static void tell_others(int index, int than, int lost, int state, uint64_t after_ns)
{
	for (int i = 0; i < world.comms[index].size; i++) {
		int member = world.comms[index].origins[i];

		if (member >= 0 && member != than)
			tell(index, member, lost, state, after_ns);
	}
}

/* The comm's rank of this origin, while it takes part; -1. */
static int rank_in(int index, int origin)
{
	const struct shrink_comm *comm = &world.comms[index];

	for (int i = 0; i < comm->size; i++)
		if (comm->origins[i] == origin && !(comm->gone & bit(origin)))
			return i;
	return -1;
}

void comms_lose(int origin, int presence, uint64_t after_ns)
{
	for (int i = 0; i < world.comm_count; i++) {
		if (rank_in(i, origin) < 0)
			continue;
		world.comms[i].gone |= bit(origin);
		tell_others(i, origin, origin, presence, after_ns);
	}
}

void comms_revoke(int origin)
{
	int index = world.ranks[origin].comm;

	tell(index, origin, -1, RD_PRESENT, 0);
	tell_others(index, origin, -1, RD_PRESENT, 0);
}

/* The rank is paused, and runs again later. The first of a comm then finds that all have hung up,
   which it takes for a death. */
static void lose_paused(int origin)
{
	for (int i = 0; i < world.comm_count; i++) {
		const struct shrink_comm *comm = &world.comms[i];
		int rank = rank_in(i, origin);
		int other = comm->origins[1 + (int)draw(&sim.run, (uint64_t)comm->size - 1)];

		if (rank < 0)
			continue;
		if (rank > 0 || other < 0)
			tell(i, origin, origin, RD_LOST, 0);
		else
			tell(i, origin, other, RD_DEAD, 0);
	}
	comms_lose(origin, RD_LOST, 0);
}

/* The connection of a member that is not on the first one's host is reset. */
void comms_reject(void)
{
	for (int i = 0; i < world.comm_count; i++) {
		const struct shrink_comm *comm = &world.comms[i];

		for (int rank = 1; rank < comm->size; rank++) {
			int first = comm->origins[0], member = comm->origins[rank];

			if (first < 0 || member < 0 || (comm->gone & bit(member)) ||
				!sim_rejects(member, first))
				continue;
			tell(i, member, first, RD_CUT_OFF, 0);
			tell_others(i, member, member, RD_CUT_OFF, 0);
		}
	}
}

static void notice_cuts(int index)
{
	const struct shrink_comm *comm = &world.comms[index];
	int first = comm->origins[0];

	for (int i = 1; i < comm->size && first >= 0; i++) {
		int member = comm->origins[i];

		if (member < 0 || (comm->gone & bit(member)) ||
			!sim_silent(member, first, SHRINK_HEARTBEAT_MS))
			continue;
		tell(index, member, first, RD_LOST, 0);
		tell_others(index, member, member, RD_LOST, 0);
	}
}

void comms_take_event(enum shrink_event kind, int subject)
{
	struct shrink_comm *comm = &world.comms[subject / SHRINK_RANKS];
	int member = subject % SHRINK_RANKS;

	if (kind == EVENT_CUTS) {
		for (int i = 0; i < world.comm_count; i++)
			notice_cuts(i);
	} else if (kind == EVENT_PAUSE) {
		const struct shrink_rank *rank = &world.ranks[subject];

		if (rank->paused_until && sim.now_ns >= rank->paused_ns + SHRINK_HEARTBEAT_MS * MS)
			lose_paused(subject);
	} else {
		comm->broken[member] = true;
		if (comm->lost[member] >= 0)
			comm->presence[member][comm->lost[member]] =
				(unsigned char)comm->state_of_lost[member];
		shrink_touch(member);
	}
}

/* ---- Comms ---------------------------------------------------------------------------------- */

static int comm_at(uint32_t port)
{
	for (int i = 0; i < world.comm_count; i++)
		if (world.comms[i].port == port)
			return i;
	return -1;
}

int comms_add(int size, uint32_t port)
{
	int index = world.comm_count;

	if (index == COMMS_MAX) {
		sim_fail("more than %d comms were made", COMMS_MAX);
		return index - 1;
	}
	world.comm_count++;
	world.comms[index] = (struct shrink_comm){ .size = size, .port = port };
	for (int i = 0; i < SHRINK_RANKS; i++)
		world.comms[index].origins[i] = -1;
	return index;
}

void comms_begin(void)
{
	int index = comms_add(world.size, 0);

	for (int i = 0; i < world.size; i++)
		world.comms[index].origins[i] = i;
	world.comms[index].go = true;
}

void comms_give_up(int index, int origin)
{
	world.comms[index].gone |= bit(origin);
	tell_others(index, origin, -1, RD_PRESENT, 0);
}

/* ---- Making --------------------------------------------------------------------------------- */

static int leave(struct shrink_rank *rank, int error, const char *reason)
{
	if (rank->making.comm >= 0) {
		world.comms[rank->making.comm].gone |= bit(rank->origin);
		tell_others(rank->making.comm, rank->origin, -1, error, 0);
	}
	snprintf(rank->error, sizeof(rank->error), "rank %d of the lineage: %s", rank->origin,
		reason);
	return error;
}

/* One that dies before it comes ends the making. */
static bool has_lost_one(const struct shrink_rank *rank)
{
	for (int i = 0; i < rank->quorum.size; i++)
		if ((rank->dialled[i] >= 0 && sockets_have_ended(rank->dialled[i])) ||
			(rank->arrived[i] >= 0 && sockets_have_ended(rank->arrived[i])))
			return true;
	return false;
}

/* Finds the comm at the leader's port, and takes this rank's place. 1: not yet. */
static int come(struct shrink_rank *rank)
{
	const struct rd_quorum *quorum = &rank->quorum;
	int leader = rank->members[quorum->leader].lineage.origin, index = -1;

	if (quorum->number == 0) {
		index = comms_add(quorum->planned, quorum->port);
	} else if (rank->making.next_ns == 0) {
		rank->making.next_ns = sim.now_ns + MS + sim_delay(world.network_ns);
		return 1;
	} else if (has_lost_one(rank)) {
		return leave(rank, RONDO_DIED, "a rank died while the comm was made");
	} else if (sim.now_ns >= rank->making.until_ns) {
		return leave(rank, RONDO_UNREACHABLE, "no one listens where they meet");
	} else if (!sim_cut(rank->origin, leader) && world.ranks[leader].port == quorum->port &&
		   !world.ranks[leader].dead) {
		index = comm_at(quorum->port);
	}
	if (index < 0) {
		rank->making.next_ns = sim.now_ns + RETRY_MS * MS;
		return 1;
	}
	if (world.comms[index].origins[quorum->number] >= 0)
		sim_fail("two ranks are rank %d of one comm", quorum->number);
	if (world.comms[index].size != quorum->planned)
		sim_fail("ranks of one comm differ in its size");
	world.comms[index].origins[quorum->number] = rank->origin;
	rank->making.comm = index;
	rank->making.next_ns = rank->making.until_ns;
	return 0;
}

static bool all_have_come(const struct shrink_comm *comm)
{
	for (int i = 0; i < comm->size; i++)
		if (comm->origins[i] < 0)
			return false;
	return true;
}

static int error_of(const struct shrink_comm *comm, int origin)
{
	if (comm->lost[origin] < 0)
		return comm->state_of_lost[origin] ? comm->state_of_lost[origin] : RONDO_REVOKED;
	return comm->state_of_lost[origin] == RD_DEAD ? RONDO_DIED : RONDO_TIMEOUT;
}

/* 1: not all have come, or the message that says so is on its way. */
static int await_others(struct shrink_rank *rank)
{
	struct shrink_comm *comm = &world.comms[rank->making.comm];

	if (all_have_come(comm) && !comm->gone && !comm->go) {
		comm->go = true;
		for (int i = 0; i < comm->size; i++)
			shrink_touch(comm->origins[i]);
	}
	if (comm->go && !rank->making.come) {
		rank->making.come = true;
		rank->making.next_ns = sim.now_ns + sim_delay(world.network_ns);
	}
	if (rank->making.come) {
		if (sim.now_ns < rank->making.next_ns)
			return 1;
		/* The verdict may be there before the rank looks. */
		return comm->broken[rank->origin] && draw_one_in(&sim.run, 2)
			       ? leave(rank, error_of(comm, rank->origin), "the new comm failed")
			       : 0;
	}
	if (comm->broken[rank->origin])
		return leave(rank, error_of(comm, rank->origin), "the new comm failed");
	if (has_lost_one(rank))
		return leave(rank, RONDO_DIED, "a rank died while the comm was made");
	if (sim.now_ns >= rank->making.until_ns)
		return leave(rank, RONDO_TIMEOUT, "not all ranks came");
	return 1;
}

int comms_make(int origin)
{
	struct shrink_rank *rank = &world.ranks[origin];
	int err = 0;

	if (rank->making.comm < 0)
		err = come(rank);
	return err ? err : await_others(rank);
}
