/* A rank: it has a comm, which fails, and shrinks it. */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bootstrap/shrink/quorum.h"

static int64_t clock_ms(void)
{
	return (int64_t)(sim.now_ns / MS) + 1000;
}

/* ---- Output of the machine ------------------------------------------------------------------ */

static void hang_up(int *socket)
{
	if (*socket >= 0)
		places_close(*socket);
	*socket = -1;
}

static void send_due(struct shrink_rank *rank, int to)
{
	int socket = rank->arrived[to] >= 0 ? rank->arrived[to] : rank->dialled[to];
	struct rd_control_message message;

	while (socket >= 0 && rd_quorum_next(&rank->quorum, to, &message, clock_ms()))
		sockets_send(socket, &message);
}

static void serve(struct shrink_rank *rank)
{
	for (int to = 0; to < rank->quorum.size; to++) {
		const struct rd_quorum_peer *peer = &rank->quorum.peers[to];

		send_due(rank, to);
		if (!peer->here)
			hang_up(&rank->arrived[to]);
		if (!peer->dials || peer->attempt != rank->attempts[to])
			hang_up(&rank->dialled[to]);
		if (!peer->dials || rank->dialled[to] >= 0)
			continue;
		rank->dialled[to] = sockets_dial(rank->origin, rank->members[to].lineage.origin);
		rank->attempts[to] = peer->attempt;
		rank->connected[to] = false;
	}
}

/* ---- Events --------------------------------------------------------------------------------- */

static void lose_dialled(struct shrink_rank *rank, int to, int error)
{
	hang_up(&rank->dialled[to]);
	rd_quorum_disconnected(&rank->quorum, to, error, clock_ms());
}

static bool take_dialled(struct shrink_rank *rank, int to)
{
	const struct sim_socket *socket = sockets_at(rank->dialled[to]);
	struct rd_control_message message;
	int took;

	if (socket->error) {
		lose_dialled(rank, to, socket->error);
	} else if (socket->connected && !rank->connected[to]) {
		rank->connected[to] = true;
		rd_quorum_connected(&rank->quorum, to);
	} else {
		took = sockets_take(rank->dialled[to], &message);
		if (took < 0)
			lose_dialled(rank, to, socket->in.error);
		else if (took > 0)
			rd_quorum_received(&rank->quorum, to, &message, clock_ms());
		return took != 0;
	}
	return true;
}

static bool take_arrived(struct shrink_rank *rank, int from)
{
	struct rd_control_message message;
	int took = sockets_take(rank->arrived[from], &message);

	if (took < 0) {
		hang_up(&rank->arrived[from]);
		rd_quorum_left(&rank->quorum, from, clock_ms());
	} else if (took > 0) {
		rd_quorum_received(&rank->quorum, from, &message, clock_ms());
	}
	return took != 0;
}

/* One of another lineage, or a rank that is not of this comm. */
static void refuse(int socket)
{
	struct rd_control_message message = { .kind = RD_CONTROL_VERDICT,
		.verdict = { .error = RONDO_TIMEOUT, .lost = -1 } };

	sockets_send(socket, &message);
	places_close(socket);
}

/* The door: each says who it is. */
static bool take_pending(struct shrink_rank *rank, int index)
{
	int socket = rank->pending[index], from;
	struct rd_control_message message;
	int took = sockets_take(socket, &message);

	if (took == 0)
		return false;
	rank->pending[index] = rank->pending[--rank->pending_count];
	if (took < 0 || message.kind != RD_CONTROL_GATHER) {
		places_close(socket);
		return true;
	}
	/* It asks, and stays. */
	if (message.gather.origin < 0)
		return true;
	from = rd_quorum_rank_of(&rank->quorum, &message);
	if (from < 0 && rank->quorum.phase == RD_QUORUM_MEETING) {
		refuse(socket);
	} else if (from < 0 || !rd_quorum_arrived(&rank->quorum, from, clock_ms())) {
		places_close(socket);
	} else {
		hang_up(&rank->arrived[from]);
		rank->arrived[from] = socket;
	}
	return true;
}

static bool is_at_work(const struct shrink_rank *rank)
{
	return rank->quorum.phase == RD_QUORUM_MEETING || rank->quorum.phase == RD_QUORUM_VOTING;
}

/* From a random rank on. */
static bool take_one(struct shrink_rank *rank)
{
	int size = rank->quorum.size, first = (int)draw(&sim.run, (uint64_t)size);

	for (int i = 0; i < rank->pending_count && rd_quorum_listens(&rank->quorum); i++)
		if (take_pending(rank, i))
			return true;
	for (int i = 0; i < size; i++) {
		int other = (first + i) % size;

		if ((rank->dialled[other] >= 0 && take_dialled(rank, other)) ||
			(rank->arrived[other] >= 0 && take_arrived(rank, other)))
			return true;
	}
	return false;
}

static void run_quorum(struct shrink_rank *rank)
{
	serve(rank);
	/* Messages behind a plan may be read with it. */
	while ((is_at_work(rank) || draw_one_in(&sim.run, 2)) && take_one(rank))
		serve(rank);
	if (is_at_work(rank))
		rd_quorum_tick(&rank->quorum, clock_ms());
	serve(rank);
}

/* ---- A shrink ------------------------------------------------------------------------------- */

static void set_stage(struct shrink_rank *rank, enum stage stage)
{
	rank->stage = stage;
	rank->since_ns = sim.now_ns;
}

static void end(struct shrink_rank *rank)
{
	sim_trace(rank->origin, "ends: %s", rank->error);
	places_close_all(rank->origin);
	rd_vote_forget(&rank->vote);
	set_stage(rank, STAGE_ENDED);
}

static void begin_shrink(struct shrink_rank *rank)
{
	const struct shrink_comm *comm = &world.comms[rank->comm];
	enum rd_presence presence[SHRINK_RANKS];
	int err;

	sim_trace(rank->origin, "shrinks its comm of %d", comm->size);
	rank->settings = (struct rd_settings){ .size = comm->size,
		.timeout_ms = SHRINK_CALL_MS,
		.heartbeat_timeout_ms = SHRINK_HEARTBEAT_MS,
		.init_timeout_ms = SHRINK_INIT_MS };
	memset(rank->members, 0, sizeof(rank->members));
	for (int i = 0; i < comm->size; i++) {
		struct rd_member *member = &rank->members[i];
		int origin = comm->origins[i];

		snprintf(member->place.host_id, RD_HOST_SIZE, "h%d",
			origin * world.hosts / world.size);
		member->lineage.origin = origin;
		presence[i] = (enum rd_presence)comm->presence[rank->origin][origin];
		if (origin == rank->origin)
			rank->settings.rank = i;
		rank->dialled[i] = rank->arrived[i] = -1;
	}
	set_stage(rank, STAGE_SHRINKING);
	err = rd_quorum_init(&rank->quorum, &rank->settings, rank->members, 1, &rank->vote,
		SHRINK_CALL_MS, presence);
	if (err) {
		snprintf(rank->error, sizeof(rank->error), "%s", rondo_last_error());
		rd_quorum_free(&rank->quorum);
		end(rank);
		return;
	}
	rd_quorum_begin(&rank->quorum, clock_ms());
}

/* A shrink leaves nothing open. */
static void end_shrink(struct shrink_rank *rank)
{
	for (int i = 0; i < rank->quorum.size; i++)
		if (rank->dialled[i] >= 0 || rank->arrived[i] >= 0)
			sim_fail("rank %d of the lineage has a connection after a shrink",
				rank->origin);
	rd_quorum_free(&rank->quorum);
}

static void vote(struct shrink_rank *rank, int err)
{
	struct rd_member members[SHRINK_RANKS] = { 0 };
	bool alone = rank->quorum.planned == 1;

	for (int i = 0; i < SHRINK_RANKS && !err; i++)
		members[i].lineage.origin = world.comms[rank->making.comm].origins[i];
	rank->making.runs = false;
	rank->port = 0;
	sim_trace(rank->origin, "rank %d of %d at port %d: %s", rank->quorum.number,
		rank->quorum.planned, (int)rank->quorum.port, err ? rank->error : "made");
	if (err)
		rank->making.comm = -1;
	rd_quorum_vote(&rank->quorum, err, rank->error, err || alone ? NULL : members, clock_ms());
	serve(rank);
}

static void make(struct shrink_rank *rank)
{
	int err;

	if (!rank->making.runs)
		rank->making = (struct shrink_making){ .runs = true,
			.comm = -1,
			.until_ns = sim.now_ns + (uint64_t)SHRINK_INIT_MS * MS };
	err = comms_make(rank->origin);
	if (err <= 0)
		vote(rank, err);
}

static void take_comm(struct shrink_rank *rank)
{
	end_shrink(rank);
	rd_vote_forget(&rank->vote);
	rank->comm = rank->making.comm;
	set_stage(rank, STAGE_CALLING);
	sim_trace(rank->origin, "has a comm of %d", world.comms[rank->comm].size);
}

static void give_up(struct shrink_rank *rank)
{
	if (rank->making.comm >= 0)
		comms_give_up(rank->making.comm, rank->origin);
	rank->making.comm = -1;
}

/* False: it waits. */
static bool advance(struct shrink_rank *rank)
{
	switch (rank->quorum.phase) {
	case RD_QUORUM_COMPLETE:
		rank->port = ++world.ports;
		rd_quorum_propose(&rank->quorum, rank->port);
		serve(rank);
		return true;
	case RD_QUORUM_MAKING:
		make(rank);
		return rank->quorum.phase != RD_QUORUM_MAKING;
	case RD_QUORUM_AGREED:
		take_comm(rank);
		return false;
	case RD_QUORUM_AGAIN:
		give_up(rank);
		rd_quorum_begin(&rank->quorum, clock_ms());
		return true;
	case RD_QUORUM_FAILED:
		give_up(rank);
		memcpy(rank->error, rank->quorum.reason, sizeof(rank->error));
		end_shrink(rank);
		end(rank);
		return false;
	default:
		run_quorum(rank);
		return !is_at_work(rank);
	}
}

static uint64_t next_ns(const struct shrink_rank *rank)
{
	int64_t deadline_ms;

	if (rank->stage != STAGE_SHRINKING)
		return NEVER;
	if (rank->quorum.phase == RD_QUORUM_MAKING)
		return rank->making.next_ns;
	deadline_ms = rd_quorum_deadline(&rank->quorum) - 1000;
	return deadline_ms < 0 ? 0 : (uint64_t)deadline_ms * MS;
}

void ranks_run(int number)
{
	struct shrink_rank *rank = &world.ranks[number];
	uint64_t at_ns;

	if (rank->stage == STAGE_CALLING && world.comms[rank->comm].broken[number])
		begin_shrink(rank);
	while (rank->stage == STAGE_SHRINKING && advance(rank))
		;
	/* A comm that is new may have failed already. */
	if (rank->stage == STAGE_CALLING && world.comms[rank->comm].broken[number])
		shrink_touch(number);
	at_ns = next_ns(rank);
	if (at_ns < rank->wake_ns)
		rank->wake_ns = at_ns;
}

void ranks_begin(int number)
{
	struct shrink_rank *rank = &world.ranks[number];

	memset(rank, 0, sizeof(*rank));
	rank->origin = number;
	rank->stage = STAGE_CALLING;
}

void ranks_finish(int number)
{
	struct shrink_rank *rank = &world.ranks[number];

	rd_quorum_free(&rank->quorum);
	rd_vote_forget(&rank->vote);
}
