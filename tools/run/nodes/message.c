#include "run/nodes/message.h"

#include <limits.h>

#include "net/codec.h"

static void walk_port(struct rd_codec *codec, int *value)
{
	rd_codec_i32(codec, value, 0, 65535);
}

static void walk_place(struct rd_codec *codec, struct place *value)
{
	rd_codec_text(codec, value->address, sizeof(value->address));
	walk_port(codec, &value->port);
}

static void walk_candidates(struct rd_codec *codec, struct candidates *value)
{
	rd_codec_count(codec, &value->count, CANDIDATES_MAX);
	for (int i = 0; i < value->count; i++) {
		rd_codec_i32(codec, &value->list[i].id, 0, INT_MAX);
		walk_place(codec, &value->list[i].place);
	}
}

static void walk_hello(struct rd_codec *codec, struct hello *value)
{
	rd_codec_u32(codec, &value->version);
	if (value->version != MESSAGE_VERSION) {
		rd_codec_skip_rest(codec);
		return;
	}
	rd_codec_text(codec, value->run_id, sizeof(value->run_id));
	rd_codec_text(codec, value->host, sizeof(value->host));
	rd_codec_i32(codec, &value->node, -1, RANKS_MAX - 1);
	rd_codec_i32(codec, &value->local_size, 1, RANKS_MAX);
	rd_codec_i32(codec, &value->nodes_min, 1, RANKS_MAX);
	rd_codec_i32(codec, &value->nodes, 1, RANKS_MAX);
	rd_codec_i32(codec, &value->max_restarts, 0, INT_MAX);
	walk_port(codec, &value->port);
	rd_codec_i32(codec, &value->attempts, 0, INT_MAX - 1);
	rd_codec_i32(codec, &value->restarts, 0, INT_MAX - 1);
	rd_codec_i32(codec, &value->last_node, -1, RANKS_MAX - 1);
}

static void walk_welcome(struct rd_codec *codec, struct welcome *value)
{
	rd_codec_i32(codec, &value->id, 0, INT_MAX);
	rd_codec_text(codec, value->host, sizeof(value->host));
	rd_codec_bool(codec, &value->spare);
	walk_candidates(codec, &value->candidates);
}

static void walk_join(struct rd_codec *codec, struct join *value)
{
	rd_codec_text(codec, value->address, sizeof(value->address));
	walk_port(codec, &value->port);
	walk_port(codec, &value->rondo_port);
}

static void walk_world(struct rd_codec *codec, struct world *value)
{
	rd_codec_text(codec, value->run_id, sizeof(value->run_id));
	rd_codec_i32(codec, &value->attempt, 0, INT_MAX - 1);
	rd_codec_i32(codec, &value->restarts, 0, INT_MAX - 1);
	rd_codec_i32(codec, &value->nodes, 1, RANKS_MAX);
	rd_codec_i32(codec, &value->node, 0, RANKS_MAX - 1);
	rd_codec_i32(codec, &value->size, 1, RANKS_MAX);
	rd_codec_i32(codec, &value->first, 0, RANKS_MAX - 1);
	rd_codec_i32(codec, &value->local_size, 1, RANKS_MAX);
	rd_codec_text(codec, value->address, sizeof(value->address));
	walk_port(codec, &value->port);
	walk_port(codec, &value->rondo_port);
	rd_codec_check(codec,
		value->node < value->nodes && value->local_size <= value->size - value->first);
}

static void walk_failure(struct rd_codec *codec, struct failure *value)
{
	rd_codec_i32(codec, &value->rank, -1, RANKS_MAX - 1);
	rd_codec_i32(codec, &value->local_rank, -1, RANKS_MAX - 1);
	rd_codec_i32(codec, &value->node, 0, RANKS_MAX - 1);
	rd_codec_i32(codec, &value->pid, 0, INT_MAX);
	rd_codec_text(codec, value->host, sizeof(value->host));
	rd_codec_i32(codec, &value->status, 1, 255);
	rd_codec_bool(codec, &value->by_signal);
	rd_codec_check(codec, !value->by_signal || value->status > 128);
	rd_codec_i64(codec, &value->at_ms, 0, INT64_MAX);
	rd_codec_i64(codec, &value->after_ms, 0, INT64_MAX);
	rd_codec_text(codec, value->message, sizeof(value->message));
	rd_codec_text(codec, value->log, sizeof(value->log));
	rd_codec_lines(codec, value->tail, sizeof(value->tail));
}

static void walk_stop(struct rd_codec *codec, struct stop *value)
{
	rd_codec_bool(codec, &value->ends);
	rd_codec_bool(codec, &value->at_once);
	rd_codec_i32(codec, &value->status, -1, 255);
	rd_codec_bool(codec, &value->failed);
	if (value->failed)
		walk_failure(codec, &value->failure);
	rd_codec_text(codec, value->reason, sizeof(value->reason));
}

static void walk_message(struct rd_codec *codec, struct message *message)
{
	switch (message->type) {
	case MESSAGE_HELLO:
		walk_hello(codec, &message->hello);
		return;
	case MESSAGE_WELCOME:
		walk_welcome(codec, &message->welcome);
		return;
	case MESSAGE_REFUSED:
		rd_codec_text(codec, message->reason, sizeof(message->reason));
		return;
	case MESSAGE_MOVED:
		rd_codec_text(codec, message->moved.run_id, sizeof(message->moved.run_id));
		walk_place(codec, &message->moved.leader);
		return;
	case MESSAGE_JOIN:
		walk_join(codec, &message->join);
		return;
	case MESSAGE_WORLD:
		walk_world(codec, &message->start.world);
		walk_candidates(codec, &message->start.candidates);
		rd_codec_bool(codec, &message->start.patient);
		return;
	case MESSAGE_FAILED:
		walk_failure(codec, &message->failed.failure);
		rd_codec_i32(codec, &message->failed.age_ms, 0, INT_MAX);
		return;
	case MESSAGE_LEAVE:
		rd_codec_i32(codec, &message->leave.status, 0, 255);
		rd_codec_text(codec, message->leave.reason, sizeof(message->leave.reason));
		return;
	case MESSAGE_STOP:
		walk_stop(codec, &message->stop);
		return;
	case MESSAGE_AGAIN:
		rd_codec_i32(codec, &message->pause_ms, 0, INT_MAX);
		return;
	case MESSAGE_PING:
	case MESSAGE_ENDED:
		return;
	}
	rd_codec_check(codec, false);
}

size_t message_encode(const struct message *message, unsigned char *data)
{
	struct rd_codec codec = rd_frame_write(data, MESSAGE_MAX);
	struct message copy = *message; /* a walk does not promise to leave it */

	walk_message(&codec, &copy);
	return rd_frame_end(&codec, data, message->type);
}

long message_decode(struct message *message, const unsigned char *data, size_t size)
{
	long frame = rd_frame_size(data, size);
	struct rd_codec codec;
	unsigned type;

	if (frame < 0 || (size_t)frame > MESSAGE_MAX)
		return -1;
	if ((size_t)frame > size)
		return 0;
	codec = rd_frame_read(data, (size_t)frame, &type);
	*message = (struct message){ .type = (enum message_type)type };
	walk_message(&codec, message);
	return rd_codec_is_done(&codec) ? frame : -1;
}
