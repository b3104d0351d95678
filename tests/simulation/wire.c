#include "wire.h"

#include <errno.h>
#include <string.h>

#include "world.h"

#define ATTEMPT_MS 1000

/* ---- The world's part of sockets ------------------------------------------------------------ */

static void put_event(void *context, enum socket_event kind, int socket, uint64_t at_ns)
{
	world_event(context, (int)kind, socket, at_ns);
}

static uint64_t arrival(void *context)
{
	struct world *world = context;

	return world->now_ns + world_delay(world, world->control_ns);
}

static uint64_t cut(void *context, int a, int b)
{
	return world_cut(context, a, b);
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
		world_fail(world, "%d connections came to rank 0", WIRES_MAX);
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
		.run = &world->run,
		.event = put_event,
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
		rd_coordinator_closed(world->ranks[0].coordinator, wire->index, error);
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
			rd_coordinator_bad_message(coordinator, wire->index, world_ms(world));
		else
			rd_coordinator_take(coordinator, wire->index, &message, world_ms(world));
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
	wire->index = rd_coordinator_open(coordinator, world_ms(world));
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

void wire_intrude(struct world *world, const unsigned char *bytes, size_t size)
{
	sockets_intrude(0, bytes, size, draw_one_in(&world->run, 2));
}

/* ---- A rank's end -------------------------------------------------------------------------- */

static void begin_attempt(struct world *world, struct sim_rank *rank)
{
	const struct fault *refuse = world_fault(world, FAULT_refuse, rank->rank, -1);

	rank->attempts++;
	rank->attempt_ns = world->now_ns + ATTEMPT_MS * MS;
	if (!world_rejects(world, rank->rank) && (!refuse || rank->attempts > refuse->number[1]))
		rank->socket = sockets_dial(rank->rank, 0);
	else
		rank->attempt_ns = world->now_ns + draw(&world->run, 20) * MS;
}

void wire_close(struct sim_rank *rank, int error)
{
	if (rank->socket >= 0)
		sockets_close(rank->socket, error);
	rank->socket = -1;
}

void wire_reset(struct world *world, struct sim_rank *rank)
{
	/* Within a host nothing resets. */
	if (rank->socket >= 0 && sockets_at(rank->socket)->connected &&
		world_is_far(world, rank->rank))
		sockets_break(rank->socket, ECONNRESET);
}

static int reset_of(const struct world *world, const struct sim_rank *rank)
{
	return world_is_far(world, rank->rank) ? ECONNRESET : EPIPE;
}

static void lose(struct world *world, struct sim_rank *rank, int error)
{
	wire_close(rank, error ? reset_of(world, rank) : 0);
	rd_participant_closed(rank->participant, error, world_ms(world));
}

static void rank_reads(struct world *world, struct sim_rank *rank)
{
	struct rd_control_message message;
	int took;

	while ((took = sockets_take(rank->socket, &message)) != 0) {
		if (took == SOCKET_ENDED) {
			lose(world, rank, sockets_at(rank->socket)->in.error);
			return;
		}
		if (took == SOCKET_BAD)
			rd_participant_bad_message(rank->participant);
		else
			rd_participant_take(rank->participant, &message, world_ms(world));
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

static void end_attempt(struct world *world, struct sim_rank *rank, int error)
{
	rank->attempt_ns = NEVER;
	wire_close(rank, 0);
	rd_participant_refused(
		rank->participant, error == ECONNREFUSED, strerror(error), world_ms(world));
}

/* Takes the answer to an attempt to connect, which ends at its time. */
static void look_at_attempt(struct world *world, struct sim_rank *rank)
{
	const struct sim_socket *socket = rank->socket < 0 ? NULL : sockets_at(rank->socket);

	if (socket && socket->connected) {
		rank->attempt_ns = NEVER;
		rd_participant_connected(rank->participant, world_ms(world));
	} else if (socket && socket->error) {
		end_attempt(world, rank, socket->error);
	} else if (world->now_ns >= rank->attempt_ns) {
		end_attempt(world, rank, ETIMEDOUT);
	}
}

void wire_serve_rank(struct world *world, struct sim_rank *rank)
{
	if (rank->attempt_ns != NEVER)
		look_at_attempt(world, rank);
	if (rd_participant_connects(rank->participant, world_ms(world)))
		begin_attempt(world, rank);
	if (rank->socket < 0 || rank->attempt_ns != NEVER)
		return;
	rank_reads(world, rank);
	if (rank->socket >= 0)
		rank_writes(rank);
	if (rank->participant->phase >= RD_PARTICIPANT_LEFT)
		wire_close(rank, rank->participant->phase == RD_PARTICIPANT_LEFT
					 ? 0
					 : reset_of(world, rank));
}
