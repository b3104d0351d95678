/* The places of ranks, and the connections between them. */
#include "world.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Life ----------------------------------------------------------------------------------- */

static int add(int owner, int toward)
{
	int index = world.stream_count;

	if (index == STREAMS_MAX) {
		shrink_fail("more than %d streams were made", STREAMS_MAX);
		index--;
	} else {
		world.stream_count++;
	}
	world.streams[index] =
		(struct stream){ .open = true, .owner = owner, .toward = toward, .peer = -1 };
	return index;
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

static void clear_mails(struct stream *stream)
{
	while (stream->first) {
		struct mail *mail = stream->first;

		stream->first = mail->next;
		free(mail);
	}
	stream->last = NULL;
	stream->arrived = 0;
}

void streams_finish(void)
{
	for (int i = 0; i < world.stream_count; i++)
		clear_mails(&world.streams[i]);
	world.stream_count = 0;
}

/* ---- Mails ---------------------------------------------------------------------------------- */

static void put_mail(int index, const struct rd_control_message *message, int error)
{
	struct stream *stream = &world.streams[index];
	struct mail *mail = calloc(1, sizeof(*mail));
	uint64_t at_ns = world.now_ns + shrink_delay(world.network_ns);

	if (!mail)
		abort();
	mail->ends = !message;
	mail->error = error;
	if (message)
		mail->message = *message;
	if (stream->last)
		stream->last->next = mail;
	else
		stream->first = mail;
	stream->last = mail;
	if (at_ns < stream->last_ns)
		at_ns = stream->last_ns;
	stream->last_ns = at_ns;
	shrink_event(EVENT_MAIL, index, at_ns);
}

/* The bytes that have come are lost. */
static void break_stream(int index, int error)
{
	struct stream *stream = &world.streams[index];

	if (!stream->open || (stream->arrived > 0 && stream->first->ends))
		return;
	if (!stream->connected)
		stream->error = error;
	clear_mails(stream);
	put_mail(index, NULL, error);
	stream->arrived = 1;
	shrink_touch(stream->owner);
}

static const struct mail *end_of(const struct stream *stream)
{
	const struct mail *mail = stream->first;

	for (int i = 0; i < stream->arrived && mail; i++, mail = mail->next)
		if (mail->ends)
			return mail;
	return NULL;
}

bool streams_have_ended(int index)
{
	return !world.streams[index].open || end_of(&world.streams[index]);
}

const struct mail *streams_next(int index)
{
	return world.streams[index].arrived > 0 ? world.streams[index].first : NULL;
}

void streams_take(int index)
{
	struct stream *stream = &world.streams[index];
	struct mail *mail = stream->first;

	stream->first = mail->next;
	if (!stream->first)
		stream->last = NULL;
	stream->arrived--;
	free(mail);
}

void streams_send(int index, const struct rd_control_message *message)
{
	const struct stream *stream = &world.streams[index];

	if (stream->peer >= 0 && world.streams[stream->peer].open && !end_of(stream))
		put_mail(stream->peer, message, 0);
}

/* Bytes that nobody has read, or a connection that nobody took, make a reset. */
static void close_stream(int index, bool resets)
{
	struct stream *stream = &world.streams[index];

	if (!stream->open)
		return;
	resets |= stream->arrived > 0 && !end_of(stream);
	if (stream->peer >= 0 && world.streams[stream->peer].open)
		put_mail(stream->peer, NULL, resets ? ECONNRESET : 0);
	clear_mails(stream);
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

	world.streams[index].last_ns = world.now_ns + shrink_delay(world.network_ns);
	shrink_event(EVENT_SYN, index, world.streams[index].last_ns);
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
		put_mail(index, &message, 0);
	if (kind == 3)
		put_mail(index, NULL, 0);
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
	if (!is_there(near->toward) || shrink_rejects(near->owner, near->toward)) {
		shrink_event(EVENT_REFUSED, index, world.now_ns + shrink_delay(world.network_ns));
		return;
	}
	far = add(near->toward, near->owner);
	world.streams[far].connected = true;
	world.streams[far].peer = index;
	near->peer = far;
	near->last_ns = world.now_ns + shrink_delay(world.network_ns);
	shrink_event(EVENT_CONNECTED, index, near->last_ns);
	queue(far);
}

static void take_mail(int index)
{
	struct stream *stream = &world.streams[index];
	uint64_t cut_ns = stream->toward < 0 ? 0 : shrink_cut(stream->owner, stream->toward);
	int count = 0;

	if (!stream->open || cut_ns == NEVER)
		return;
	if (cut_ns) {
		shrink_event(EVENT_MAIL, index, cut_ns);
		return;
	}
	for (const struct mail *mail = stream->first; mail; mail = mail->next)
		count++;
	stream->arrived += stream->arrived < count;
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
	} else if (kind == EVENT_MAIL) {
		take_mail(subject);
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
