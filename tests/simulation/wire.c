#include "wire.h"

#include <errno.h>
#include <string.h>

#include "world.h"

#define ATTEMPT_MS 1000

/* ---- The world's part of sockets ------------------------------------------------------------ */

static uint64_t arrival(void *context)
{
	struct world *world = context;

	return sim.now_ns + world_delay(world, world->control_ns);
}

static uint64_t cut(void *context, int a, int b)
{
	(void)context;
	return sim_cut(a, b);
}

/* Heartbeats find silence before a kernel does. */
static bool silent(void *context, int a, int b)
{
	(void)context, (void)a, (void)b;
	return false;
}

/* Rank 0's kernel answers, also while rank 0 is paused. */
static enum socket_answer answer(void *context, int socket)
{
	struct world *world = context;
	const struct sim_rank *zero = &world->ranks[0];

	(void)socket;
	return zero->coordinator && !zero->dead &&
			       (zero->paused_until || rd_coordinator_listening(zero->coordinator))
		       ? SOCKET_ACCEPTS
		       : SOCKET_REFUSES;
}

static void accept_wire(void *context, int socket)
{
	struct world *world = context;

	if (world->wire_count == WIRES_MAX) {
		sim_fail("%d connections came to rank 0", WIRES_MAX);
		return;
	}
	world->wires[world->wire_count++] = (struct wire){ .socket = socket, .index = -1 };
	world_touch(world, 0);
}

static void touch(void *context, int socket)
{
	world_touch(context, sockets_at(socket)->owner);
}

void wire_begin(struct world *world)
{
	world->wire_count = 0;
	world->socket_rules = (struct socket_rules){ .context = world,
		.arrival = arrival,
		.cut = cut,
		.silent = silent,
		.answer = answer,
		.accept = accept_wire,
		.touch = touch };
	sockets_begin(&world->socket_rules);
}

/* ---- Rank 0's end -------------------------------------------------------------------------- */

static void close_there(struct world *world, struct wire *wire, int error)
{
	if (!sockets_at(wire->socket)->open)
		return;
	sockets_close(wire->socket, error);
	if (wire->index >= 0 && world->ranks[0].coordinator)
		rd_coordinator_closed(world->ranks[0].coordinator, wire->index, error, sim_ms());
	wire->index = -1;
}

static void coordinator_reads(struct world *world, struct wire *wire)
{
	struct rd_coordinator *coordinator = world->ranks[0].coordinator;
	struct rd_control_message message;
	int took;

	while ((took = sockets_take(wire->socket, &message)) != 0) {
		if (took == SOCKET_ENDED) {
			close_there(world, wire, sockets_at(wire->socket)->in.error);
			return;
		}
		if (took == SOCKET_BAD)
			rd_coordinator_bad_message(coordinator, wire->index, sim_ms());
		else
			rd_coordinator_take(coordinator, wire->index, &message, sim_ms());
	}
}

static void accept_waiting(struct world *world, struct wire *wire)
{
	struct rd_coordinator *coordinator = world->ranks[0].coordinator;

	if (wire->accepted)
		return;
	wire->accepted = true;
	if (!rd_coordinator_listening(coordinator)) {
		close_there(world, wire, ECONNRESET);
		return;
	}
	wire->index = rd_coordinator_open(coordinator, sim_ms());
	if (wire->index < 0)
		close_there(world, wire, 0);
}

static void coordinator_writes(struct world *world, struct wire *wire)
{
	struct rd_coordinator *coordinator = world->ranks[0].coordinator;
	struct rd_control_message message;

	while (sockets_have_room(wire->socket) &&
		rd_coordinator_next(coordinator, wire->index, &message))
		sockets_send(wire->socket, &message);
	if (coordinator->connections[wire->index].dropped)
		close_there(world, wire, 0);
}

void wire_serve_coordinator(struct world *world)
{
	for (int i = 0; i < world->wire_count; i++) {
		struct wire *wire = &world->wires[i];

		accept_waiting(world, wire);
		if (wire->index >= 0)
			coordinator_reads(world, wire);
	}
	/* Once all have been read: a verdict goes to all at the same time. */
	for (int i = 0; i < world->wire_count; i++)
		if (world->wires[i].index >= 0)
			coordinator_writes(world, &world->wires[i]);
}

void wire_close_coordinator(struct world *world)
{
	for (int i = 0; i < world->wire_count; i++)
		close_there(world, &world->wires[i], 0);
}

void wire_intrude(const unsigned char *bytes, size_t size)
{
	sockets_intrude(0, bytes, size, draw_one_in(&sim.run, 2));
}

/* ---- A rank's end -------------------------------------------------------------------------- */

static void begin_attempt(struct sim_rank *rank)
{
	const struct fault *refuse = world_fault(FAULT_refuse, rank->rank, -1);

	rank->attempts++;
	rank->attempt_ns = sim.now_ns + ATTEMPT_MS * MS;
	if (!sim_rejects(rank->rank, 0) && (!refuse || rank->attempts > refuse->number[1]))
		rank->socket = sockets_dial(rank->rank, 0);
	else
		rank->attempt_ns = sim.now_ns + draw(&sim.run, 20) * MS;
}

void wire_close(struct sim_rank *rank, int error)
{
	if (rank->socket >= 0)
		sockets_close(rank->socket, error);
	rank->socket = -1;
}

void wire_reset(struct sim_rank *rank)
{
	/* Within a host nothing resets. */
	if (rank->socket >= 0 && sockets_at(rank->socket)->connected && world_is_far(rank->rank))
		sockets_break(rank->socket, ECONNRESET);
}

static int reset_of(const struct sim_rank *rank)
{
	return world_is_far(rank->rank) ? ECONNRESET : EPIPE;
}

static void lose(struct sim_rank *rank, int error)
{
	wire_close(rank, error ? reset_of(rank) : 0);
	rd_participant_closed(rank->participant, error, sim_ms());
}

static void rank_reads(struct sim_rank *rank)
{
	struct rd_control_message message;
	int took;

	while ((took = sockets_take(rank->socket, &message)) != 0) {
		if (took == SOCKET_ENDED) {
			lose(rank, sockets_at(rank->socket)->in.error);
			return;
		}
		if (took == SOCKET_BAD)
			rd_participant_bad_message(rank->participant);
		else
			rd_participant_take(rank->participant, &message, sim_ms());
	}
}

static void rank_writes(struct sim_rank *rank)
{
	struct rd_control_message message;

	while (sockets_have_room(rank->socket) &&
		rd_participant_next(rank->participant, &message)) {
		if (message.kind == RD_CONTROL_HELLO)
			rank->hello_size = rd_control_encode(&message, rank->hello);
		sockets_send(rank->socket, &message);
	}
}

static void end_attempt(struct sim_rank *rank, int error)
{
	rank->attempt_ns = NEVER;
	wire_close(rank, 0);
	rd_participant_refused(rank->participant, error == ECONNREFUSED, strerror(error), sim_ms());
}

/* Takes the answer to an attempt to connect, which ends at its time. */
static void look_at_attempt(struct sim_rank *rank)
{
	const struct sim_socket *socket = rank->socket < 0 ? NULL : sockets_at(rank->socket);

	if (socket && socket->connected) {
		rank->attempt_ns = NEVER;
		rd_participant_connected(rank->participant, sim_ms());
	} else if (socket && socket->error) {
		end_attempt(rank, socket->error);
	} else if (sim.now_ns >= rank->attempt_ns) {
		end_attempt(rank, ETIMEDOUT);
	}
}

void wire_serve_rank(struct sim_rank *rank)
{
	if (rank->attempt_ns != NEVER)
		look_at_attempt(rank);
	if (rd_participant_connects(rank->participant, sim_ms()))
		begin_attempt(rank);
	if (rank->socket < 0 || rank->attempt_ns != NEVER)
		return;
	rank_reads(rank);
	if (rank->socket >= 0)
		rank_writes(rank);
	if (rank->participant->phase >= RD_PARTICIPANT_LEFT)
		wire_close(
			rank, rank->participant->phase == RD_PARTICIPANT_LEFT ? 0 : reset_of(rank));
}
