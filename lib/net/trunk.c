#include "net/trunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "net/codec.h"
#include "net/connection.h"

/* Kinds of frames between the ends of a trunk. */
enum {
	KIND_FRAME = 0x7101, /* u32 channel; then the channel's frame */
	KIND_END, /* u32 channel, bool resets: nothing more comes over it */
	KIND_TRUNK /* u64 job: the first one, of the dialling end */
};

#define HEAD (RD_FRAME_HEAD + 4) /* bytes before a channel's frame */
#define FRAME_MOST(most) ((most) + 16) /* bytes of a frame with one of a channel inside */
#define OUT_FRAMES 16 /* that may wait to be sent */
#define ENDS 4 /* of those, the room for ends */
#define WAITING_MOST 4096 /* channels without an owner: another attempt follows */
#define EARLY_MOST 64 /* frames of one of those */
#define READS_MOST 64 /* at an event, of a trunk that anyone may have opened */

struct rd_trunk {
	struct rd_trunks *trunks;
	struct rd_connection connection;
	struct sockaddr_storage to; /* of one that was dialled */
	bool dialled, connecting;
	bool lost; /* freed with its last channel */
	int error; /* of the loss */
	uint32_t watched; /* epoll events */
	uint32_t last; /* channel so far */
	int timeout_ms;
	struct rd_channel *channels;
	struct rd_trunk *next;
};

/* ---- A trunk's life ------------------------------------------------------------------------- */

static void watch(struct rd_trunk *trunk, int operation, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = (uint64_t)(uintptr_t)trunk | 1 };

	if (trunk->watched == events)
		return;
	if (epoll_ctl(trunk->trunks->epoll_fd, operation, trunk->connection.wire.fd, &event) == 0)
		trunk->watched = events;
}

static void watch_wire(struct rd_trunk *trunk)
{
	watch(trunk, EPOLL_CTL_MOD,
		rd_connection_waits(&trunk->connection) ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* NULL: an errno, and the wire is closed. */
static struct rd_trunk *make_trunk(struct rd_trunks *trunks, struct rd_wire *wire, uint32_t events)
{
	struct rd_trunk *trunk = calloc(1, sizeof(*trunk));
	size_t frame_most = FRAME_MOST(trunks->frame_most);

	if (!trunk) {
		rd_wire_close(wire);
		errno = ENOMEM;
		return NULL;
	}
	trunk->trunks = trunks;
	rd_connection_init(&trunk->connection, wire, frame_most, OUT_FRAMES * frame_most);
	watch(trunk, EPOLL_CTL_ADD, events);
	if (!trunk->watched) {
		int error = errno;

		rd_connection_close(&trunk->connection, true);
		free(trunk);
		errno = error;
		return NULL;
	}
	trunk->next = trunks->first;
	trunks->first = trunk;
	return trunk;
}

static void free_trunk(struct rd_trunk *trunk)
{
	struct rd_trunk **at = &trunk->trunks->first;

	while (*at != trunk)
		at = &(*at)->next;
	*at = trunk->next;
	free(trunk);
}

static void send_end(struct rd_trunk *trunk, uint32_t number, bool resets)
{
	size_t most = FRAME_MOST(trunk->trunks->frame_most);
	unsigned char *frame = rd_connection_reserve(&trunk->connection);
	struct rd_codec codec;

	/* Without room its other end is stuck, and without memory the next flush fails. */
	if (!frame) {
		trunk->connection.lacks_memory = true;
		return;
	}
	codec = rd_frame_write(frame, most);
	rd_codec_u32(&codec, &number);
	rd_codec_bool(&codec, &resets);
	rd_connection_commit(&trunk->connection, rd_frame_end(&codec, frame, KIND_END));
	watch_wire(trunk);
}

/* ---- Channels without an owner -------------------------------------------------------------- */

static void stop_waiting(struct rd_trunks *trunks, struct rd_channel *channel)
{
	struct rd_channel **at = &trunks->waiting;

	while (*at != channel)
		at = &(*at)->next_waiting;
	*at = channel->next_waiting;
	trunks->waiting_count--;
}

static void drop_waiting(struct rd_trunks *trunks, struct rd_channel *channel)
{
	stop_waiting(trunks, channel);
	rd_channel_close(channel, true);
}

struct rd_channel *rd_trunks_take(struct rd_trunks *trunks, uint64_t id)
{
	struct rd_channel *channel, *next;

	for (channel = trunks->waiting; channel; channel = next) {
		next = channel->next_waiting;
		if (channel->id != id)
			continue;
		stop_waiting(trunks, channel);
		if (!channel->ended || channel->lasts)
			return channel;
		rd_channel_close(channel, false);
	}
	return NULL;
}

/* ---- The end of trunks ---------------------------------------------------------------------- */

/* Its channels end by this error. Without any left it is freed. */
static void lose(struct rd_trunk *trunk, int error)
{
	struct rd_channel *next;

	if (!trunk->lost) {
		epoll_ctl(trunk->trunks->epoll_fd, EPOLL_CTL_DEL, trunk->connection.wire.fd, NULL);
		rd_connection_close(&trunk->connection, error != 0);
		trunk->lost = true;
		trunk->error = error;
	}
	for (struct rd_channel *at = trunk->channels; at; at = next) {
		next = at->next;
		at->lost = at->lost || !at->ended;
		rd_channel_end(at, error);
		if (at->due || at->lasts)
			continue;
		stop_waiting(trunk->trunks, at);
		rd_channel_free(at);
	}
	if (!trunk->channels)
		free_trunk(trunk);
}

void rd_trunks_finish(struct rd_trunks *trunks)
{
	while (trunks->waiting)
		drop_waiting(trunks, trunks->waiting);
	while (trunks->first) {
		struct rd_trunk *trunk = trunks->first;
		int error = 0;

		/* Ends that do not go out must not look like a death. */
		if (!trunk->lost && !trunk->connecting &&
			!rd_connection_is_flushed(&trunk->connection) &&
			(!rd_connection_flush(&trunk->connection, &error) ||
				!rd_connection_is_flushed(&trunk->connection)))
			error = ECONNRESET;
		lose(trunk, error);
	}
}

/* ---- Receiving ------------------------------------------------------------------------------ */

static struct rd_channel *find_channel(const struct rd_trunk *trunk, uint32_t number)
{
	struct rd_channel *channel = trunk->channels;

	while (channel && channel->number != number)
		channel = channel->next;
	return channel;
}

/* The one that has waited longest comes again. */
static void make_room(struct rd_trunks *trunks)
{
	struct rd_channel *channel = trunks->waiting;

	if (trunks->waiting_count < WAITING_MOST)
		return;
	while (channel->next_waiting)
		channel = channel->next_waiting;
	drop_waiting(trunks, channel);
}

/* NULL: this end has no use, or no memory, for it. */
static struct rd_channel *add_channel(
	struct rd_trunk *trunk, uint32_t number, const unsigned char *frame, size_t size)
{
	struct rd_trunks *trunks = trunk->trunks;
	bool lasts = false;
	uint64_t id = trunks->find(frame, size, &lasts);
	struct rd_channel *channel;

	if (id)
		make_room(trunks);
	channel = id ? rd_channel_make(&trunk->channels, trunk, number) : NULL;
	if (!channel)
		return NULL;
	channel->id = id;
	channel->lasts = lasts;
	channel->next_waiting = trunks->waiting;
	trunks->waiting = channel;
	trunks->waiting_count++;
	trunks->news = true;
	return channel;
}

/* False: the frame makes no sense. */
static bool take_frame(struct rd_trunk *trunk, const unsigned char *bytes, size_t size)
{
	unsigned kind;
	struct rd_codec codec = rd_frame_read(bytes, size, &kind);
	struct rd_channel *channel;
	uint32_t number = 0;
	bool resets = false;

	rd_codec_u32(&codec, &number);
	if (codec.bad || number == 0)
		return false;
	channel = find_channel(trunk, number);
	if (kind == KIND_END) {
		rd_codec_bool(&codec, &resets);
		if (channel)
			rd_channel_end(channel, resets ? ECONNRESET : 0);
		return rd_codec_is_done(&codec);
	}
	size -= (size_t)(codec.at - bytes);
	if (kind != KIND_FRAME || rd_frame_size(codec.at, size) != (long)size)
		return false;
	/* A channel that is closed here may be sent to for a moment. */
	if (!channel && !trunk->dialled && number > trunk->last) {
		trunk->last = number;
		channel = add_channel(trunk, number, codec.at, size);
		if (!channel)
			send_end(trunk, number, true);
	}
	if (!channel || channel->ended)
		return true;
	if ((!channel->due && channel->count >= EARLY_MOST) ||
		!rd_channel_add(channel, codec.at, size))
		rd_channel_end(channel, ENOMEM);
	return true;
}

/* False: the trunk is lost, and freed where it has no channel. failed: the errno of a write, which
   the end that a read then shows has not; 0: none has failed. */
static bool receive(struct rd_trunk *trunk, int failed)
{
	const unsigned char *frame;
	int error = 0, got, reads = 0;
	long size;

	do {
		got = rd_connection_read(&trunk->connection, &error);
		while ((size = rd_connection_next(&trunk->connection, &frame)) > 0)
			if (!take_frame(trunk, frame, (size_t)size))
				break;
		if (size != 0) {
			error = EPROTO;
			got = -1;
		}
	} while (got > 0 && (trunk->connection.wire.tls || ++reads < READS_MOST));
	if (got < 0)
		lose(trunk, failed ? failed : error);
	return got >= 0;
}

uint64_t rd_trunk_job(const unsigned char *frame, size_t size)
{
	unsigned kind;
	struct rd_codec codec = rd_frame_read(frame, size, &kind);
	uint64_t job = 0;

	rd_codec_u64(&codec, &job);
	return kind == KIND_TRUNK && rd_codec_is_done(&codec) ? job : 0;
}

void rd_trunks_adopt(struct rd_trunks *trunks, struct rd_wire *wire)
{
	struct rd_trunk *trunk = make_trunk(trunks, wire, EPOLLIN);

	if (trunk)
		rd_trunk_serve(trunk);
}

/* ---- Dialling ------------------------------------------------------------------------------- */

static struct rd_trunk *find_trunk(
	const struct rd_trunks *trunks, const struct rd_addresses *addresses, int index)
{
	struct rd_trunk *trunk = trunks->first;

	while (trunk && (!trunk->dialled || trunk->lost || trunk->last == UINT32_MAX ||
				memcmp(&trunk->to, &addresses->at[index], sizeof(trunk->to)) != 0))
		trunk = trunk->next;
	return trunk;
}

/* False: no memory. */
static bool send_job(struct rd_trunk *trunk)
{
	unsigned char *frame = rd_connection_reserve(&trunk->connection);
	struct rd_codec codec;

	if (!frame)
		return false;
	codec = rd_frame_write(frame, FRAME_MOST(0));
	rd_codec_u64(&codec, &trunk->trunks->job);
	rd_connection_commit(&trunk->connection, rd_frame_end(&codec, frame, KIND_TRUNK));
	return true;
}

static struct rd_trunk *dial(struct rd_trunks *trunks, const struct rd_addresses *addresses,
	int index, const unsigned char *psk)
{
	struct rd_wire wire = RD_WIRE(rd_connect_start(addresses, index));
	struct rd_trunk *trunk;

	if (wire.fd < 0)
		return NULL;
	if (psk && rd_wire_secure(&wire, false, psk)) {
		rd_wire_close(&wire);
		errno = ENOMEM;
		return NULL;
	}
	trunk = make_trunk(trunks, &wire, EPOLLOUT);
	if (trunk && !send_job(trunk)) {
		lose(trunk, ENOMEM);
		trunk = NULL;
	}
	if (!trunk) {
		errno = ENOMEM;
		return NULL;
	}
	trunk->to = addresses->at[index];
	trunk->dialled = trunk->connecting = true;
	return trunk;
}

static void finish_dialling(struct rd_trunk *trunk)
{
	int error = rd_connect_finish(trunk->connection.wire.fd);

	if (error) {
		lose(trunk, error);
		return;
	}
	trunk->connecting = false;
	rd_socket_tune(trunk->connection.wire.fd, trunk->timeout_ms);
	for (struct rd_channel *at = trunk->channels; at; at = at->next)
		rd_channel_stir(at);
	watch_wire(trunk);
}

struct rd_channel *rd_channel_open(struct rd_trunks *trunks, const struct rd_addresses *addresses,
	int index, const unsigned char *psk, int timeout_ms)
{
	struct rd_trunk *trunk = find_trunk(trunks, addresses, index);
	struct rd_channel *channel;

	if (!trunk)
		trunk = dial(trunks, addresses, index, psk);
	if (!trunk)
		return NULL;
	trunk->timeout_ms = timeout_ms;
	channel = rd_channel_make(&trunk->channels, trunk, 0);
	if (!channel && !trunk->channels && trunk->connecting)
		lose(trunk, ENOMEM);
	if (channel)
		channel->stirred = !trunk->connecting;
	else
		errno = ENOMEM;
	return channel;
}

/* The end waits for the next event of the socket. Where nobody waits for a trunk any more, it is
   dialled no further. */
void rd_channel_close(struct rd_channel *channel, bool resets)
{
	struct rd_trunk *trunk = channel->trunk;
	uint32_t number = channel->number;
	bool ended = channel->ended;

	rd_channel_free(channel);
	if (trunk->lost || trunk->connecting) {
		if (!trunk->channels)
			lose(trunk, trunk->error);
	} else if (!ended && number) {
		send_end(trunk, number, resets);
	}
}

int rd_channel_fd(const struct rd_channel *channel)
{
	return channel->trunk->connection.wire.fd;
}

bool rd_channel_is_connecting(const struct rd_channel *channel)
{
	return channel->trunk->connecting && !channel->trunk->lost;
}

/* ---- Events --------------------------------------------------------------------------------- */

void rd_trunk_serve(struct rd_trunk *trunk)
{
	bool flushed;
	int error;

	if (trunk->connecting) {
		finish_dialling(trunk);
		return;
	}
	flushed = rd_connection_is_flushed(&trunk->connection);
	if (!flushed && !rd_connection_flush(&trunk->connection, &error)) {
		/* The other end may have sent more before. */
		if (receive(trunk, error))
			lose(trunk, error);
		return;
	}
	if (!flushed)
		for (struct rd_channel *at = trunk->channels; at; at = at->next)
			rd_channel_stir(at);
	watch_wire(trunk);
	receive(trunk, 0);
}

void rd_channel_look(struct rd_channel *channel)
{
	if (!channel->trunk->lost && !channel->trunk->connecting)
		receive(channel->trunk, 0);
}

/* ---- Frames --------------------------------------------------------------------------------- */

bool rd_channel_has_room(const struct rd_channel *channel)
{
	const struct rd_connection *connection = &channel->trunk->connection;

	return channel->trunk->lost ||
	       connection->out_size + ENDS * connection->frame_most <= connection->out_most;
}

unsigned char *rd_channel_reserve(struct rd_channel *channel)
{
	unsigned char *frame =
		channel->trunk->lost ? NULL : rd_connection_reserve(&channel->trunk->connection);

	return frame ? frame + HEAD : NULL;
}

void rd_channel_commit(struct rd_channel *channel, size_t size)
{
	struct rd_connection *connection = &channel->trunk->connection;
	unsigned char *frame = rd_connection_reserve(connection);
	struct rd_codec codec = rd_frame_write(frame, FRAME_MOST(size));

	/* Counted as they greet, in whatever order they were opened. */
	if (!channel->number)
		channel->number = ++channel->trunk->last;
	rd_codec_u32(&codec, &channel->number);
	codec.at += size;
	rd_connection_commit(connection, rd_frame_end(&codec, frame, KIND_FRAME));
}

bool rd_channel_is_flushed(const struct rd_channel *channel)
{
	return channel->trunk->lost || rd_connection_is_flushed(&channel->trunk->connection);
}

bool rd_channel_flush(struct rd_channel *channel, int *error)
{
	struct rd_trunk *trunk = channel->trunk;

	if (trunk->lost) {
		*error = trunk->error;
		return false;
	}
	if (!rd_connection_flush(&trunk->connection, error)) {
		if (receive(trunk, *error))
			lose(trunk, *error);
		return false;
	}
	watch_wire(trunk);
	return true;
}
