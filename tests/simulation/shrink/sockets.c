/* The places of ranks, and the connections between them. */
#include "world.h"

#include <errno.h>

/* ---- Life ----------------------------------------------------------------------------------- */

static int add(int owner, int toward)
{
	int index = world.stream_count;
	struct stream *stream;

	if (index == STREAMS_MAX) {
		shrink_fail("more than %d streams were made", STREAMS_MAX);
		index--;
	} else {
		world.stream_count++;
	}
	stream = &world.streams[index];
	stream->open = true;
	stream->connected = false;
	stream->owner = owner;
	stream->toward = toward;
	stream->peer = -1;
	stream->error = 0;
	pipe_clear(&stream->in);
	return index;
}

/* Its process lives, for other comms. */
static bool has_left(int rank)
{
	return !world.ranks[rank].dead && !world.ranks[rank].paused_until &&
	       world.ranks[rank].stage == STAGE_ENDED && draw_one_in(&world.run, 2);
}

static bool is_there(int rank)
{
	return !world.ranks[rank].dead && world.ranks[rank].stage != STAGE_ENDED;
}

/* The place's backlog. */
static void queue(int index)
{
	struct shrink_rank *rank = &world.ranks[world.streams[index].owner];

	if (rank->pending_count == PENDING_MAX) {
		shrink_fail("%d streams wait at rank %d of the lineage", PENDING_MAX, rank->origin);
		return;
	}
	rank->pending[rank->pending_count++] = index;
	shrink_touch(rank->origin);
}

void streams_finish(void)
{
	world.stream_count = 0;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static uint64_t arrival(void)
{
	return world.now_ns + shrink_delay(world.network_ns);
}

static void put_message(int index, const struct rd_control_message *message)
{
	struct rd_control_message copy = *message;
	unsigned char frame[RD_FRAME_MAX];
	size_t size = rd_control_encode(&copy, frame);

	shrink_event(
		EVENT_PACKET, index, pipe_put(&world.streams[index].in, frame, size, arrival()));
}

static void put_end(int index, int error)
{
	struct pipe *in = &world.streams[index].in;

	if (!in->ending)
		shrink_event(EVENT_PACKET, index, pipe_put_end(in, error, arrival()));
}

/* The bytes that have come are lost. */
static void break_stream(int index, int error)
{
	struct stream *stream = &world.streams[index];

	if (!stream->open || (stream->in.ended && stream->in.arrived == 0))
		return;
	if (!stream->connected)
		stream->error = error;
	pipe_break(&stream->in, error);
	shrink_touch(stream->owner);
}

bool streams_have_ended(int index)
{
	return !world.streams[index].open || world.streams[index].in.ended;
}

int streams_take(int index, struct rd_control_message *message)
{
	struct pipe *in = &world.streams[index].in;

	if (in->arrived == 0)
		return in->ended ? -1 : 0;
	return pipe_take(in, message);
}

void streams_send(int index, const struct rd_control_message *message)
{
	const struct stream *stream = &world.streams[index];

	if (stream->peer >= 0 && world.streams[stream->peer].open && !stream->in.ended &&
		!world.streams[stream->peer].in.ending)
		put_message(stream->peer, message);
}

/* Bytes that nobody has read, or a connection that nobody took, make a reset. */
static void close_stream(int index, bool resets)
{
	struct stream *stream = &world.streams[index];

	if (!stream->open)
		return;
	resets |= stream->in.arrived > 0 && !stream->in.ended;
	if (stream->peer >= 0 && world.streams[stream->peer].open)
		put_end(stream->peer, resets ? ECONNRESET : 0);
	stream->open = false;
}

void streams_close(int index)
{
	close_stream(index, false);
}

void streams_close_all(int owner)
{
	struct shrink_rank *rank = &world.ranks[owner];

	for (int i = 0; i < rank->pending_count; i++)
		close_stream(rank->pending[i], true);
	rank->pending_count = 0;
	for (int i = 0; i < world.stream_count; i++)
		if (world.streams[i].owner == owner)
			close_stream(i, false);
}

int streams_dial(int owner, int toward)
{
	int index = add(owner, toward);

	world.streams[index].in.last = arrival();
	shrink_event(EVENT_SYN, index, world.streams[index].in.last);
	return index;
}

/* ---- Faults --------------------------------------------------------------------------------- */

void streams_reset(int rank)
{
	for (int i = 0; i < world.stream_count; i++) {
		const struct stream *stream = &world.streams[i];

		if (!stream->open || stream->owner != rank || stream->peer < 0)
			continue;
		break_stream(stream->peer, ECONNRESET);
		break_stream(i, ECONNRESET);
	}
}

void streams_reject(void)
{
	for (int i = 0; i < world.stream_count; i++) {
		const struct stream *stream = &world.streams[i];

		if (stream->peer >= 0 && shrink_rejects(stream->owner, stream->toward))
			break_stream(i, ECONNRESET);
	}
}

void streams_begin_silence(void)
{
	for (int i = 0; i < world.stream_count; i++)
		if (world.streams[i].open && world.streams[i].connected)
			shrink_event(EVENT_SILENCE, i, world.now_ns + SHRINK_HEARTBEAT_MS * MS);
}

void streams_intrude(int rank, int kind)
{
	struct rd_control_message message = { .kind = RD_CONTROL_MADE };
	int index;

	if (!is_there(rank))
		return;
	index = add(rank, -1);
	world.streams[index].connected = true;
	if (kind == 2)
		message = (struct rd_control_message){ .kind = RD_CONTROL_GATHER,
			.gather = { 77, 0 } };
	if (kind == 1 || kind == 2)
		put_message(index, &message);
	if (kind == 3)
		put_end(index, 0);
	queue(index);
}

/* ---- Events --------------------------------------------------------------------------------- */

/* The attempt comes again once the ranks can reach each other. */
static void take_attempt(int index)
{
	struct stream *near = &world.streams[index];
	uint64_t cut_ns;
	int far;

	if (!near->open)
		return;
	cut_ns = shrink_cut(near->owner, near->toward);
	if (cut_ns) {
		if (cut_ns != NEVER)
			shrink_event(EVENT_SYN, index, cut_ns);
		return;
	}
	if (!shrink_rejects(near->owner, near->toward) && has_left(near->toward)) {
		near->in.last = arrival();
		shrink_event(EVENT_CONNECTED, index, near->in.last);
		put_message(index, &(struct rd_control_message){ .kind = RD_CONTROL_LEFT });
		put_end(index, 0);
		return;
	}
	if (!is_there(near->toward) || shrink_rejects(near->owner, near->toward)) {
		shrink_event(EVENT_REFUSED, index, arrival());
		return;
	}
	far = add(near->toward, near->owner);
	world.streams[far].connected = true;
	world.streams[far].peer = index;
	near->peer = far;
	near->in.last = arrival();
	shrink_event(EVENT_CONNECTED, index, near->in.last);
	queue(far);
}

static void take_packet(int index)
{
	struct stream *stream = &world.streams[index];
	uint64_t cut_ns = stream->toward < 0 ? 0 : shrink_cut(stream->owner, stream->toward);

	if (!stream->open || cut_ns == NEVER)
		return;
	if (cut_ns) {
		shrink_event(EVENT_PACKET, index, cut_ns);
		return;
	}
	pipe_arrive(&stream->in);
	shrink_touch(stream->owner);
}

/* The kernel asks the other host's whether it is there. */
static void take_silence(int index)
{
	const struct stream *stream = &world.streams[index];

	if (stream->peer >= 0 && shrink_silent(stream->owner, stream->toward))
		break_stream(index, ETIMEDOUT);
}

void streams_take_event(enum shrink_event kind, int subject)
{
	struct stream *stream = &world.streams[subject];

	if (kind == EVENT_SYN) {
		take_attempt(subject);
	} else if (kind == EVENT_PACKET) {
		take_packet(subject);
	} else if (kind == EVENT_SILENCE) {
		take_silence(subject);
	} else if (stream->open && !stream->connected && !stream->error) {
		stream->connected = kind == EVENT_CONNECTED;
		stream->error = kind == EVENT_REFUSED ? ECONNREFUSED : 0;
		/* Where nothing passes, its kernel finds that out. */
		if (stream->connected && shrink_cut(stream->owner, stream->toward))
			shrink_event(
				EVENT_SILENCE, subject, world.now_ns + SHRINK_HEARTBEAT_MS * MS);
		shrink_touch(stream->owner);
	}
}
