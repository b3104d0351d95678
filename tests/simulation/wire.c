#include "wire.h"

#include <errno.h>
#include <string.h>

#include "world.h"

#define ATTEMPT_MS 1000

/* ---- Pipes --------------------------------------------------------------------------------- */

/* The one of its bytes to rank 0, or of those to the rank. */
static struct pipe *pipe_of(struct world *world, int subject)
{
	struct wire *wire = &world->wires[subject / 2];

	return subject % 2 ? &wire->down : &wire->up;
}

static uint64_t arrival(struct world *world)
{
	return world->now_ns + world_delay(world, world->control_ns);
}

/* In one or two fragments. */
static void put_bytes(struct world *world, int subject, const unsigned char *bytes, size_t size)
{
	struct pipe *pipe = pipe_of(world, subject);
	size_t cut = draw_one_in(&world->run, 4) ? 1 + draw(&world->run, size) : size;

	world_event(world, EVENT_PACKET, subject, pipe_put(pipe, bytes, cut, arrival(world)));
	if (cut < size)
		world_event(world, EVENT_PACKET, subject,
			pipe_put(pipe, bytes + cut, size - cut, arrival(world)));
}

static void put_end(struct world *world, int subject, int error)
{
	struct pipe *pipe = pipe_of(world, subject);

	if (!pipe->ending)
		world_event(
			world, EVENT_PACKET, subject, pipe_put_end(pipe, error, arrival(world)));
}

/* ---- Rank 0's end -------------------------------------------------------------------------- */

static int number_of(const struct world *world, const struct wire *wire)
{
	return (int)(wire - world->wires);
}

static void close_there(struct world *world, struct wire *wire, int error)
{
	if (!wire->there)
		return;
	wire->there = false;
	if (wire->index >= 0 && world->ranks[0].coordinator)
		rd_coordinator_closed(world->ranks[0].coordinator, wire->index, error);
	wire->index = -1;
	put_end(world, number_of(world, wire) * 2 + 1, error);
}

static void coordinator_reads(struct world *world, struct wire *wire)
{
	struct rd_coordinator *coordinator = world->ranks[0].coordinator;
	struct rd_control_message message;
	int took;

	while ((took = pipe_take(&wire->up, &message)) != 0) {
		if (took < 0)
			rd_coordinator_bad_message(coordinator, wire->index, world_ms(world));
		else
			rd_coordinator_take(coordinator, wire->index, &message, world_ms(world));
	}
	if (wire->up.ended)
		close_there(world, wire, wire->up.error);
}

static void accept_waiting(struct world *world, struct wire *wire)
{
	struct rd_coordinator *coordinator = world->ranks[0].coordinator;

	if (!rd_coordinator_listening(coordinator)) {
		wire->state = WIRE_CLOSED;
		close_there(world, wire, ECONNRESET);
		return;
	}
	wire->index = rd_coordinator_open(coordinator, world_ms(world));
	wire->state = WIRE_ACCEPTED;
	if (wire->index < 0)
		close_there(world, wire, 0);
}

static void coordinator_writes(struct world *world, struct wire *wire)
{
	struct rd_coordinator *coordinator = world->ranks[0].coordinator;
	unsigned char frame[RD_FRAME_MAX];
	struct rd_control_message message;

	while (pipe_has_room(&wire->down) &&
		rd_coordinator_next(coordinator, wire->index, &message))
		put_bytes(world, number_of(world, wire) * 2 + 1, frame,
			rd_control_encode(&message, frame));
	if (rd_coordinator_dropped(coordinator, wire->index))
		close_there(world, wire, 0);
}

void wire_serve_coordinator(struct world *world)
{
	for (int i = 0; i < WIRES_MAX; i++) {
		struct wire *wire = &world->wires[i];

		if (wire->there && wire->state == WIRE_WAITING)
			accept_waiting(world, wire);
		if (wire->there && wire->index >= 0)
			coordinator_reads(world, wire);
	}
	/* Once all have been read: a verdict goes to all at the same time. */
	for (int i = 0; i < WIRES_MAX; i++)
		if (world->wires[i].there && world->wires[i].index >= 0)
			coordinator_writes(world, &world->wires[i]);
}

void wire_close_coordinator(struct world *world)
{
	for (int i = 0; i < WIRES_MAX; i++)
		close_there(world, &world->wires[i], 0);
}

/* ---- A rank's end -------------------------------------------------------------------------- */

static struct wire *open_wire(struct world *world, int owner)
{
	for (int i = 0; i < WIRES_MAX; i++) {
		struct wire *wire = &world->wires[i];

		if (wire->state != WIRE_FREE)
			continue;
		pipe_clear(&wire->up);
		pipe_clear(&wire->down);
		wire->state = WIRE_TRYING;
		wire->owner = owner;
		wire->index = -1;
		wire->here = true;
		wire->there = false;
		world_event(world, EVENT_ATTEMPT, i,
			world->now_ns + world_delay(world, world->control_ns));
		return wire;
	}
	return NULL;
}

void wire_connect(struct world *world, struct sim_rank *rank)
{
	const struct fault *refuse = world_fault(world, FAULT_refuse, rank->rank, -1);
	struct wire *wire = NULL;

	rank->attempts++;
	if (!world_rejects(world, rank->rank) && (!refuse || rank->attempts > refuse->number[1]))
		wire = open_wire(world, rank->rank);
	rank->wire = wire ? number_of(world, wire) : -1;
	rank->attempt_ns = world->now_ns + ATTEMPT_MS * MS;
	if (!wire)
		rank->attempt_ns = world->now_ns + draw(&world->run, 20) * MS;
}

void wire_intrude(struct world *world, const unsigned char *bytes, size_t size)
{
	struct wire *wire = open_wire(world, -1);

	if (wire && size > 0)
		put_bytes(world, number_of(world, wire) * 2, bytes, size);
	if (wire && draw_one_in(&world->run, 2))
		put_end(world, number_of(world, wire) * 2, 0);
}

void wire_close(struct world *world, struct sim_rank *rank, int error)
{
	struct wire *wire = rank->wire < 0 ? NULL : &world->wires[rank->wire];

	rank->wire = -1;
	if (!wire || !wire->here)
		return;
	wire->here = false;
	put_end(world, number_of(world, wire) * 2, error);
}

void wire_reset(struct world *world, struct sim_rank *rank)
{
	struct wire *wire = rank->wire < 0 ? NULL : &world->wires[rank->wire];

	/* Within a host nothing resets. */
	if (!wire || wire->state != WIRE_ACCEPTED || !world_is_far(world, rank->rank))
		return;
	put_end(world, rank->wire * 2, ECONNRESET);
	put_end(world, rank->wire * 2 + 1, ECONNRESET);
}

static int reset_of(const struct world *world, const struct sim_rank *rank)
{
	return world_is_far(world, rank->rank) ? ECONNRESET : EPIPE;
}

static void lose(struct world *world, struct sim_rank *rank, int error)
{
	world->wires[rank->wire].here = false;
	put_end(world, rank->wire * 2, error ? reset_of(world, rank) : 0);
	rank->wire = -1;
	rd_participant_closed(rank->participant, error, world_ms(world));
}

static void rank_reads(struct world *world, struct sim_rank *rank)
{
	struct wire *wire = &world->wires[rank->wire];
	struct rd_control_message message;
	int took;

	while ((took = pipe_take(&wire->down, &message)) != 0) {
		if (took < 0)
			rd_participant_bad_message(rank->participant);
		else
			rd_participant_take(rank->participant, &message, world_ms(world));
	}
	if (wire->down.ended)
		lose(world, rank, wire->down.error);
}

static void rank_writes(struct world *world, struct sim_rank *rank)
{
	struct wire *wire = &world->wires[rank->wire];
	unsigned char frame[RD_FRAME_MAX];
	struct rd_control_message message;

	while (pipe_has_room(&wire->up) && rd_participant_next(rank->participant, &message)) {
		size_t size = rd_control_encode(&message, frame);

		if (message.kind == RD_CONTROL_HELLO) {
			memcpy(rank->hello, frame, size);
			rank->hello_size = size;
		}
		put_bytes(world, rank->wire * 2, frame, size);
	}
}

static void give_up_attempt(struct world *world, struct sim_rank *rank)
{
	rank->attempt_ns = NEVER;
	if (rank->wire >= 0)
		world->wires[rank->wire].here = false;
	rank->wire = -1;
	rd_participant_refused(rank->participant, false, "Connection timed out", world_ms(world));
}

void wire_serve_rank(struct world *world, struct sim_rank *rank)
{
	if (rank->attempt_ns != NEVER && world->now_ns >= rank->attempt_ns)
		give_up_attempt(world, rank);
	if (rd_participant_connects(rank->participant, world_ms(world)))
		wire_connect(world, rank);
	if (rank->wire < 0 || rank->attempt_ns != NEVER)
		return;
	rank_reads(world, rank);
	if (rank->wire >= 0)
		rank_writes(world, rank);
	if (rd_participant_phase(rank->participant) >= RD_PARTICIPANT_LEFT)
		wire_close(world, rank,
			rd_participant_phase(rank->participant) == RD_PARTICIPANT_LEFT
				? 0
				: reset_of(world, rank));
}

/* ---- Events -------------------------------------------------------------------------------- */

/* Rank 0's kernel answers, also while rank 0 is paused. */
static void take_attempt(struct world *world, int number)
{
	struct wire *wire = &world->wires[number];
	const struct sim_rank *zero = &world->ranks[0];
	bool listens = zero->coordinator && !zero->dead &&
		       (zero->paused_until || rd_coordinator_listening(zero->coordinator));

	if (zero->vanished)
		return;
	if (listens) {
		wire->there = true;
		wire->state = WIRE_WAITING;
	} else {
		wire->state = WIRE_CLOSED;
	}
	world_event(world, listens ? EVENT_CONNECTED : EVENT_REFUSED, number,
		world->now_ns + world_delay(world, world->control_ns));
	world_touch(world, 0);
}

static void take_answer(struct world *world, int number, bool connected)
{
	struct wire *wire = &world->wires[number];
	struct sim_rank *rank = wire->owner < 0 ? NULL : &world->ranks[wire->owner];

	if (!rank)
		return;
	if (rank->wire != number || rank->attempt_ns == NEVER || !rank->participant) {
		/* It gave this attempt up: a connection nobody uses. */
		if (connected)
			put_end(world, number * 2, 0);
		return;
	}
	rank->attempt_ns = NEVER;
	if (connected) {
		rd_participant_connected(rank->participant, world_ms(world));
	} else {
		rank->wire = -1;
		wire->here = false;
		rd_participant_refused(
			rank->participant, true, "Connection refused", world_ms(world));
	}
	world_touch(world, rank->rank);
}

static void take_packet(struct world *world, int subject)
{
	struct wire *wire = &world->wires[subject / 2];

	pipe_arrive(pipe_of(world, subject));
	if (subject % 2 == 0)
		world_touch(world, 0);
	else if (wire->owner >= 0)
		world_touch(world, wire->owner);
}

void wire_take_event(struct world *world, int kind, int subject)
{
	int number = kind == EVENT_PACKET ? subject / 2 : subject;
	int owner = world->wires[number].owner;
	uint64_t until = owner < 0 ? 0 : world_cut(world, owner, 0);

	/* TCP sends it again until the network is whole. */
	if (until == NEVER)
		return;
	if (until) {
		world_event(world, (enum event_kind)kind, subject, until);
		return;
	}
	if (kind == EVENT_ATTEMPT)
		take_attempt(world, number);
	else if (kind == EVENT_PACKET)
		take_packet(world, subject);
	else
		take_answer(world, number, kind == EVENT_CONNECTED);
}
