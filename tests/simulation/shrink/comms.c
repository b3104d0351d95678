/*
 * The making of comms, without their messages: a comm is made once all its ranks have come to its
 * port. Its ranks learn that it has failed each at its own moment.
 */
#include "world.h"

#include <stdio.h>

#include "api/communicator.h"
#include "base/error.h"
#include "bootstrap/shrink/watch.h"
#include "rondo.h"

#define RETRY_MS 20

struct rd_control {
	int comm; /* of line.comms */
	int origin; /* whose it is */
	struct rd_member *members;
	struct rd_lineage lineage;
};

static unsigned bit(int origin)
{
	return 1u << origin;
}

/* ---- Failures ------------------------------------------------------------------------------ */

/* The member will know; lost: an origin that it takes for dead or lost; -1: none. */
static void tell(int index, int member, int lost, int state, uint64_t after_ns)
{
	struct line_comm *comm = &line.comms[index];
	int first = comm->origins[0];

	if (comm->told & bit(member))
		return;
	comm->told |= bit(member);
	/* The verdict comes by way of the first rank. A member that is cut off from it for long
	   finds that alone. */
	if (first >= 0 && first != member && line_cut(member, first)) {
		uint64_t silent_ns = line.now_ns + LINE_HEARTBEAT_MS * MS;
		uint64_t until_ns = line_cut(member, first);

		after_ns += (until_ns < silent_ns ? until_ns : silent_ns) - line.now_ns;
		if (until_ns > silent_ns) {
			lost = first;
			state = RD_LOST;
		}
	}
	comm->lost[member] = lost;
	comm->state_of_lost[member] = state;
	line_event(EVENT_BREAK, index * LINE_RANKS + member,
		line.now_ns + after_ns + line_delay(line.network_ns));
}

static void tell_others(int index, int than, int lost, int state, uint64_t after_ns)
{
	for (int i = 0; i < line.comms[index].size; i++) {
		int member = line.comms[index].origins[i];

		if (member >= 0 && member != than)
			tell(index, member, lost, state, after_ns);
	}
}

/* The comm's rank of this origin, while it takes part; -1. */
static int rank_in(int index, int origin)
{
	const struct line_comm *comm = &line.comms[index];

	for (int i = 0; i < comm->size; i++)
		if (comm->origins[i] == origin && !(comm->gone & bit(origin)))
			return i;
	return -1;
}

void comms_lose(int origin, int presence, uint64_t after_ns)
{
	for (int i = 0; i < line.comm_count; i++) {
		if (rank_in(i, origin) < 0)
			continue;
		line.comms[i].gone |= bit(origin);
		tell_others(i, origin, origin, presence, after_ns);
	}
}

void comms_revoke(int origin)
{
	int index = line.ranks[origin].comm;

	tell(index, origin, -1, RD_PRESENT, 0);
	tell_others(index, origin, -1, RD_PRESENT, 0);
}

/* The rank is paused, and runs again later. The first of a comm then finds that all have hung up,
   which it takes for a death. */
static void lose_paused(int origin)
{
	for (int i = 0; i < line.comm_count; i++) {
		const struct line_comm *comm = &line.comms[i];
		int rank = rank_in(i, origin);
		int other = comm->origins[1 + (int)draw(&line.run, (uint64_t)comm->size - 1)];

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
	for (int i = 0; i < line.comm_count; i++) {
		const struct line_comm *comm = &line.comms[i];

		for (int rank = 1; rank < comm->size; rank++) {
			int first = comm->origins[0], member = comm->origins[rank];

			if (first < 0 || member < 0 || (comm->gone & bit(member)) ||
				!line_rejects(member, first))
				continue;
			tell(i, member, first, RD_CUT_OFF, 0);
			tell_others(i, member, member, RD_CUT_OFF, 0);
		}
	}
}

static void notice_cuts(int index)
{
	const struct line_comm *comm = &line.comms[index];
	int first = comm->origins[0];

	for (int i = 1; i < comm->size && first >= 0; i++) {
		int member = comm->origins[i];

		if (member < 0 || (comm->gone & bit(member)) || !line_silent(member, first))
			continue;
		tell(index, member, first, RD_LOST, 0);
		tell_others(index, member, member, RD_LOST, 0);
	}
}

void comms_take_event(enum line_event kind, int subject)
{
	struct line_comm *comm = &line.comms[subject / LINE_RANKS];
	int member = subject % LINE_RANKS;

	if (kind == EVENT_CUTS) {
		for (int i = 0; i < line.comm_count; i++)
			notice_cuts(i);
	} else if (kind == EVENT_PAUSE) {
		const struct line_rank *rank = &line.ranks[subject];

		if (rank->paused_until && line.now_ns >= rank->paused_ns + LINE_HEARTBEAT_MS * MS)
			lose_paused(subject);
	} else {
		comm->broken[member] = true;
		if (comm->lost[member] >= 0)
			comm->presence[member][comm->lost[member]] =
				(unsigned char)comm->state_of_lost[member];
		line_touch(member);
	}
}

/* ---- In place of bootstrap/control.h ------------------------------------------------------- */

const struct rd_lineage *sim_control_lineage(const struct rd_control *control)
{
	return &control->lineage;
}

const struct rd_member *sim_control_members(const struct rd_control *control)
{
	return control->members;
}

static unsigned char *presence_of(const struct rd_control *control, int rank)
{
	struct line_comm *comm = &line.comms[control->comm];

	return &comm->presence[control->origin][comm->origins[rank]];
}

enum rd_presence sim_control_presence(const struct rd_control *control, int rank)
{
	return (enum rd_presence) * presence_of(control, rank);
}

void sim_control_lose(struct rd_control *control, int rank, enum rd_presence state)
{
	if (*presence_of(control, rank) < state)
		*presence_of(control, rank) = (unsigned char)state;
}

void sim_control_end_lineage(struct rd_control *control)
{
	control->lineage.listen_fd = -1;
}

/* ---- In place of shrink/watch.h ------------------------------------------------------------ */

static void watch(const struct rd_control_socket *connection)
{
	struct line_rank *self = line_self();

	if (connection)
		self->watched[self->watched_count++] = connection->connection.wire.fd;
}

void sim_shrink_watch_start(struct rd_shrink *shrink)
{
	line_self()->children_failed = false;
	line_self()->watched_count = 0;
	watch(shrink->host);
	for (int i = 0; i < shrink->visit_count; i++)
		if (shrink->visits[i].rank >= 0)
			watch(shrink->visits[i].connection);
}

void sim_shrink_watch_stop(struct rd_shrink *shrink)
{
	(void)shrink;
	line_self()->watched_count = 0;
}

static bool children_fail(void)
{
	struct line_rank *self = line_self();

	for (int i = 0; i < self->watched_count; i++)
		self->children_failed |= socks_has_ended(self->watched[i]);
	return self->children_failed;
}

/* ---- Comms --------------------------------------------------------------------------------- */

static struct rondo_comm *new_comm(int index, int rank)
{
	const struct line_comm *from = &line.comms[index];
	struct rondo_comm *comm = sim_calloc(1, sizeof(*comm));

	comm->rank = comm->settings.rank = rank;
	comm->size = comm->settings.size = from->size;
	comm->settings.timeout_ms = LINE_CALL_MS;
	comm->settings.heartbeat_timeout_ms = LINE_HEARTBEAT_MS;
	comm->settings.init_timeout_ms = LINE_INIT_MS;
	comm->settings.rendezvous_fd = -1;
	atomic_store(&comm->timeout_ms, LINE_CALL_MS);
	if (comm->size == 1)
		return comm;
	comm->control = sim_calloc(1, sizeof(*comm->control));
	comm->control->comm = index;
	comm->control->origin = line.current;
	comm->control->members = sim_calloc((size_t)comm->size, sizeof(struct rd_member));
	for (int i = 0; i < comm->size; i++) {
		struct rd_member *member = &comm->control->members[i];
		int origin = from->origins[i];
		int fd = line.ranks[origin].line_fd;

		snprintf(member->place.host_id, RD_HOST_SIZE, "h%d",
			origin * line.hosts / line.size);
		member->lineage.origin = origin;
		snprintf(member->lineage.address, RD_NUMERIC_ADDRESS, "%d", origin);
		member->lineage.port = socks_port(fd);
		if (i == rank)
			comm->control->lineage = (struct rd_lineage){
				.id = 1, .place = member->lineage, .listen_fd = fd
			};
	}
	return comm;
}

static void free_comm(struct rondo_comm *comm)
{
	if (comm->control)
		sim_free(comm->control->members);
	sim_free(comm->control);
	sim_free(comm->vote.origins);
	sim_free(comm);
}

static int comm_at(uint32_t port)
{
	for (int i = 0; i < line.comm_count; i++)
		if (line.comms[i].port == port)
			return i;
	return -1;
}

static int add_comm(int size, uint32_t port)
{
	int index = line.comm_count;

	if (index == COMMS_MAX) {
		line_fail("more than %d comms were made", COMMS_MAX);
		return index - 1;
	}
	line.comm_count++;
	line.comms[index] = (struct line_comm){ .size = size, .port = port };
	for (int i = 0; i < LINE_RANKS; i++)
		line.comms[index].origins[i] = -1;
	return index;
}

void comms_begin(void)
{
	int index = add_comm(line.size, 0);

	for (int i = 0; i < line.size; i++)
		line.comms[index].origins[i] = i;
	line.comms[index].go = true;
}

/* ---- Making -------------------------------------------------------------------------------- */

static int leave(int index, int error, const char *reason)
{
	if (index >= 0) {
		line.comms[index].gone |= bit(line.current);
		tell_others(index, line.current, -1, error, 0);
	}
	return sim_fail(error, "rank %d of the line: %s", line.current, reason);
}

/* Finds the comm at the host's port, and takes this rank's place. Negative: an error. */
static int come(const struct rd_settings *settings, uint64_t until_ns)
{
	int host = atoi(settings->address), index = -1;

	if (settings->rank == 0)
		index = add_comm(settings->size, (uint32_t)settings->port);
	else
		sim_sleep(1 + (int)line_delay(line.network_ns) / (int)MS);
	while (index < 0) {
		if (children_fail())
			return leave(-1, RONDO_DIED, "a rank died while the comm was made");
		if (line.now_ns >= until_ns)
			return leave(-1, RONDO_UNREACHABLE, "no one listens where they meet");
		if (!line_cut(line.current, host) &&
			socks_owner_of((uint32_t)settings->port) == host)
			index = comm_at((uint32_t)settings->port);
		if (index < 0)
			sim_sleep(RETRY_MS);
	}
	if (line.comms[index].origins[settings->rank] >= 0)
		line_fail("two ranks are rank %d of one comm", settings->rank);
	if (line.comms[index].size != settings->size)
		line_fail("ranks of one comm differ in its size");
	line.comms[index].origins[settings->rank] = line.current;
	return index;
}

static bool all_have_come(const struct line_comm *comm)
{
	for (int i = 0; i < comm->size; i++)
		if (comm->origins[i] < 0)
			return false;
	return true;
}

static int error_of(const struct line_comm *comm)
{
	if (comm->lost[line.current] < 0)
		return comm->state_of_lost[line.current] ? comm->state_of_lost[line.current]
							 : RONDO_REVOKED;
	return comm->state_of_lost[line.current] == RD_DEAD ? RONDO_DIED : RONDO_TIMEOUT;
}

/* Waits until all have come, and for the message that says so. */
static int await_others(int index, uint64_t until_ns)
{
	struct line_comm *comm = &line.comms[index];

	if (all_have_come(comm) && !comm->gone) {
		comm->go = true;
		for (int i = 0; i < comm->size; i++)
			line_touch(comm->origins[i]);
	}
	while (!comm->go) {
		if (comm->broken[line.current])
			return leave(index, error_of(comm), "the new comm failed");
		if (children_fail())
			return leave(index, RONDO_DIED, "a rank died while the comm was made");
		if (line.now_ns >= until_ns)
			return leave(index, RONDO_TIMEOUT, "not all ranks came");
		ranks_wait(until_ns);
	}
	sim_sleep((int)(line_delay(line.network_ns) / MS));
	/* The verdict may be there before the rank looks. */
	if (comm->broken[line.current] && draw_one_in(&line.run, 2))
		return leave(index, error_of(comm), "the new comm failed");
	return 0;
}

int sim_comm_make(struct rondo_comm **made, const struct rd_settings *settings,
	const struct rd_comm_origin *origin)
{
	uint64_t until_ns = line.now_ns + (uint64_t)LINE_INIT_MS * MS;
	int index, err = 0;

	(void)origin;
	if (settings->size == 1) {
		index = add_comm(1, 0);
		line.comms[index].origins[0] = line.current;
		line.comms[index].go = true;
	} else {
		index = come(settings, until_ns);
		err = index < 0 ? index : await_others(index, until_ns);
	}
	if (settings->rendezvous_fd >= 0)
		sim_close(settings->rendezvous_fd);
	line_trace(line.current, "rank %d of %d at port %d: %s", settings->rank, settings->size,
		settings->port, err ? sim_last_error() : "made");
	if (!err)
		*made = new_comm(index, settings->rank);
	return err;
}

static int index_of(const struct rondo_comm *comm)
{
	if (comm->control)
		return comm->control->comm;
	for (int i = line.comm_count - 1; i >= 0; i--)
		if (line.comms[i].size == 1 && line.comms[i].origins[0] == line.current)
			return i;
	return 0;
}

int sim_comm_give_up(struct rondo_comm **made, int err)
{
	int index;

	if (!*made)
		return err;
	index = index_of(*made);
	line.comms[index].gone |= bit(line.current);
	tell_others(index, line.current, -1, RD_PRESENT, 0);
	free_comm(*made);
	*made = NULL;
	return err;
}

int sim_comm_check_origin(
	const struct rondo_comm *comm, struct rondo_comm **made, const char *function)
{
	(void)comm, (void)function;
	*made = NULL;
	return 0;
}

int sim_comm_failure(struct rondo_comm *comm)
{
	return atomic_load(&comm->failed);
}

int sim_comm_refuse_second(const struct rondo_comm *comm, const char *function)
{
	(void)comm;
	return sim_fail(RONDO_INVALID, "%s: a second thread", function);
}

int sim_comm_revoke(struct rondo_comm *comm, const char *reason)
{
	(void)comm, (void)reason;
	return 0;
}

/* ---- The program --------------------------------------------------------------------------- */

/* A shrink leaves open the line's socket alone. */
static void check_left_open(void)
{
	if (line_self()->open_count != 1)
		line_fail("rank %d of the line has %d sockets open after a shrink", line.current,
			line_self()->open_count);
}

void comms_program(void)
{
	struct line_rank *self = line_self();
	struct rondo_comm *comm = new_comm(0, self->origin), *made;

	for (;;) {
		self->stage = STAGE_CALLING;
		self->since_ns = line.now_ns;
		while (!line.comms[self->comm].broken[self->origin])
			ranks_wait(NEVER);
		self->stage = STAGE_SHRINKING;
		atomic_store(&comm->failed, RONDO_DIED);
		line_trace(self->origin, "shrinks its comm of %d", comm->size);
		self->result = sim_comm_shrink(comm, &made);
		check_left_open();
		if (self->result)
			break;
		self->comm = index_of(made);
		line_trace(self->origin, "has a comm: rank %d of %d", made->rank, made->size);
		free_comm(comm);
		comm = made;
	}
	line_trace(self->origin, "ends: %s", sim_last_error());
	free_comm(comm);
	socks_close_all(self->origin);
	self->stage = STAGE_ENDED;
	self->since_ns = line.now_ns;
	if (ranks_free(self->origin))
		line_fail("rank %d of the line leaks memory", self->origin);
}
