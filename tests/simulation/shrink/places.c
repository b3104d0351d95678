/* The places of ranks, where those that shrink a comm meet, and their connections. */
#include <errno.h>

#include "world.h"

/* ---- The world's part of sockets ------------------------------------------------------------ */

static uint64_t arrival(void *context)
{
	(void)context;
	return sim.now_ns + sim_delay(world.network_ns);
}

static uint64_t cut(void *context, int a, int b)
{
	(void)context;
	return sim_cut(a, b);
}

static bool silent(void *context, int a, int b)
{
	(void)context;
	return sim_silent(a, b, SHRINK_HEARTBEAT_MS);
}

/* Its process lives, for other comms. */
static bool has_left(int rank)
{
	return !world.ranks[rank].dead && !world.ranks[rank].paused_until &&
	       world.ranks[rank].stage == STAGE_ENDED && draw_one_in(&sim.run, 2);
}

static bool is_there(int rank)
{
	return !world.ranks[rank].dead && world.ranks[rank].stage != STAGE_ENDED;
}

static enum socket_answer answer(void *context, int socket)
{
	const struct sim_socket *near = sockets_at(socket);

	(void)context;
	if (sim_rejects(near->owner, near->toward))
		return SOCKET_REFUSES;
	if (has_left(near->toward))
		return SOCKET_LEAVES;
	return is_there(near->toward) ? SOCKET_ACCEPTS : SOCKET_REFUSES;
}

/* The place's backlog. */
static void queue(void *context, int socket)
{
	struct shrink_rank *rank = &world.ranks[sockets_at(socket)->owner];

	(void)context;
	if (rank->pending_count == PENDING_MAX) {
		sim_fail("%d sockets wait at rank %d of the lineage", PENDING_MAX, rank->origin);
		return;
	}
	rank->pending[rank->pending_count++] = socket;
	shrink_touch(rank->origin);
}

static void touch(void *context, int socket)
{
	(void)context;
	shrink_touch(sockets_at(socket)->owner);
}

void places_begin(void)
{
	static const struct socket_rules rules = { .arrival = arrival,
		.cut = cut,
		.silent = silent,
		.answer = answer,
		.accept = queue,
		.touch = touch };

	sockets_begin(&rules);
}

/* ---- Closing -------------------------------------------------------------------------------- */

/* Bytes that nobody has read make a reset. */
static int error_of_end(int socket)
{
	const struct pipe *in = &sockets_at(socket)->in;

	return in->arrived > 0 && !in->ended ? ECONNRESET : 0;
}

void places_close(int socket)
{
	sockets_close(socket, error_of_end(socket));
}

/* So does a connection that nobody took. */
void places_close_all(int owner)
{
	struct shrink_rank *rank = &world.ranks[owner];

	for (int i = 0; i < rank->pending_count; i++)
		sockets_close(rank->pending[i], ECONNRESET);
	rank->pending_count = 0;
	for (int i = 0; i < sockets_count(); i++)
		if (sockets_at(i)->owner == owner)
			places_close(i);
}

/* ---- Faults --------------------------------------------------------------------------------- */

void places_reset(int rank)
{
	for (int i = 0; i < sockets_count(); i++)
		if (sockets_at(i)->open && sockets_at(i)->owner == rank && sockets_at(i)->peer >= 0)
			sockets_break(i, ECONNRESET);
}

void places_reject(void)
{
	for (int i = 0; i < sockets_count(); i++)
		if (sockets_at(i)->peer >= 0 &&
			sim_rejects(sockets_at(i)->owner, sockets_at(i)->toward))
			sockets_break(i, ECONNRESET);
}

void places_begin_silence(void)
{
	for (int i = 0; i < sockets_count(); i++)
		if (sockets_at(i)->open)
			sim_event(SOCKET_SILENCE, i, sim.now_ns + SHRINK_HEARTBEAT_MS * MS);
}

void places_intrude(int rank, int kind)
{
	struct rd_control_message message = { .kind = RD_CONTROL_MADE };
	unsigned char frame[RD_FRAME_MAX];
	size_t size;

	if (!is_there(rank))
		return;
	if (kind == 2)
		message = (struct rd_control_message){ .kind = RD_CONTROL_GATHER,
			.gather = { 77, 0 } };
	size = rd_control_encode(&message, frame);
	sockets_intrude(rank, frame, kind == 1 || kind == 2 ? size : 0, kind == 3);
}
