#include "run/nodes/message.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

/* Before each message: the magic number with the version of the format, the type, and the size of
   what follows. Numbers have the most significant byte first. */
#define MAGIC 0x52524131u /* "RRA1" */
#define HEADER_SIZE 12

/*
 * A message on its way to the wire, or from it. One function visits the members of a struct for
 * both directions, so that they cannot differ.
 */
struct coder {
	unsigned char *to; /* NULL: reads */
	const unsigned char *from;
	size_t at, size; /* bytes done; bytes that are there */
	bool bad; /* a value is out of range, or bytes are missing */
};

static bool have(struct coder *coder, size_t count)
{
	if (count > coder->size - coder->at)
		coder->bad = true;
	return !coder->bad;
}

static void put(struct coder *coder, uint32_t value)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		coder->to[coder->at++] = (unsigned char)(value >> shift);
}

static uint32_t get(struct coder *coder)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++)
		value = value << 8 | coder->from[coder->at++];
	return value;
}

static void number(struct coder *coder, int *value, int least, int most)
{
	if (!have(coder, 4))
		return;
	if (coder->to) {
		put(coder, (uint32_t)*value);
		return;
	}
	int got = (int)(int32_t)get(coder);

	/* A value out of range is not stored: callers compute with it before they see `bad`. */
	if (got < least || got > most)
		coder->bad = true;
	else
		*value = got;
}

static void flag(struct coder *coder, bool *value)
{
	int bit = *value;

	number(coder, &bit, 0, 1);
	*value = bit;
}

/* A time in ms, not negative. */
static void moment(struct coder *coder, int64_t *value)
{
	uint64_t high;

	if (!have(coder, 8))
		return;
	if (coder->to) {
		put(coder, (uint32_t)(*value >> 32));
		put(coder, (uint32_t)*value);
		return;
	}
	high = get(coder);
	*value = (int64_t)(high << 32 | get(coder));
	if (*value < 0)
		coder->bad = true;
}

static void text(struct coder *coder, char *value, size_t capacity)
{
	int length = coder->to ? (int)strnlen(value, capacity - 1) : 0;

	number(coder, &length, 0, (int)capacity - 1);
	if (coder->bad || !have(coder, (size_t)length))
		return;
	if (coder->to) {
		memcpy(coder->to + coder->at, value, (size_t)length);
	} else {
		memcpy(value, coder->from + coder->at, (size_t)length);
		value[length] = '\0';
		if (strlen(value) != (size_t)length)
			coder->bad = true;
		/* These bytes go to terminals, which would take an escape for a command. */
		for (char *at = value; *at; at++)
			if (iscntrl((unsigned char)*at) && *at != '\n' && *at != '\t')
				*at = '?';
	}
	coder->at += (size_t)length;
}

/* ---- The members of each struct ------------------------------------------------------------- */

static void port(struct coder *coder, int *value)
{
	number(coder, value, 0, 65535);
}

static void place(struct coder *coder, struct place *value)
{
	text(coder, value->address, sizeof(value->address));
	port(coder, &value->port);
}

static void candidates(struct coder *coder, struct candidates *value)
{
	number(coder, &value->count, 0, CANDIDATES_MAX);
	for (int i = 0; i < value->count && !coder->bad; i++) {
		number(coder, &value->list[i].id, 0, INT_MAX);
		place(coder, &value->list[i].place);
	}
}

static void hello(struct coder *coder, struct hello *value)
{
	text(coder, value->run_id, sizeof(value->run_id));
	text(coder, value->host, sizeof(value->host));
	number(coder, &value->node, -1, RANKS_MAX - 1);
	number(coder, &value->local_size, 1, RANKS_MAX);
	number(coder, &value->nodes_min, 1, RANKS_MAX);
	number(coder, &value->nodes, 1, RANKS_MAX);
	number(coder, &value->max_restarts, 0, INT_MAX);
	port(coder, &value->port);
	number(coder, &value->attempts, 0, INT_MAX - 1);
	number(coder, &value->restarts, 0, INT_MAX - 1);
	number(coder, &value->last_node, -1, RANKS_MAX - 1);
}

static void welcome(struct coder *coder, struct welcome *value)
{
	number(coder, &value->id, 0, INT_MAX);
	text(coder, value->host, sizeof(value->host));
	flag(coder, &value->spare);
	candidates(coder, &value->candidates);
}

static void join(struct coder *coder, struct join *value)
{
	text(coder, value->address, sizeof(value->address));
	port(coder, &value->port);
	port(coder, &value->rondo_port);
}

static void world(struct coder *coder, struct world *value)
{
	text(coder, value->run_id, sizeof(value->run_id));
	number(coder, &value->attempt, 0, INT_MAX - 1);
	number(coder, &value->restarts, 0, INT_MAX - 1);
	number(coder, &value->nodes, 1, RANKS_MAX);
	number(coder, &value->node, 0, RANKS_MAX - 1);
	number(coder, &value->size, 1, RANKS_MAX);
	number(coder, &value->first, 0, RANKS_MAX - 1);
	number(coder, &value->local_size, 1, RANKS_MAX);
	text(coder, value->address, sizeof(value->address));
	port(coder, &value->port);
	port(coder, &value->rondo_port);
	if (value->node >= value->nodes || value->local_size > value->size - value->first)
		coder->bad = true;
}

static void failure(struct coder *coder, struct failure *value)
{
	number(coder, &value->rank, -1, RANKS_MAX - 1);
	number(coder, &value->local_rank, -1, RANKS_MAX - 1);
	number(coder, &value->node, 0, RANKS_MAX - 1);
	number(coder, &value->pid, 0, INT_MAX);
	text(coder, value->host, sizeof(value->host));
	number(coder, &value->status, 1, 255);
	flag(coder, &value->by_signal);
	if (value->by_signal && value->status <= 128)
		coder->bad = true;
	moment(coder, &value->at_ms);
	moment(coder, &value->after_ms);
	text(coder, value->message, sizeof(value->message));
	text(coder, value->log, sizeof(value->log));
	text(coder, value->tail, sizeof(value->tail));
}

static void stop(struct coder *coder, struct stop *value)
{
	flag(coder, &value->at_once);
	number(coder, &value->status, -1, 255);
	flag(coder, &value->failed);
	if (value->failed)
		failure(coder, &value->failure);
	text(coder, value->reason, sizeof(value->reason));
}

static void code(struct coder *coder, struct message *message)
{
	switch (message->type) {
	case MESSAGE_HELLO:
		hello(coder, &message->hello);
		break;
	case MESSAGE_WELCOME:
		welcome(coder, &message->welcome);
		break;
	case MESSAGE_REFUSED:
		text(coder, message->reason, sizeof(message->reason));
		break;
	case MESSAGE_REDIRECT:
		place(coder, &message->place);
		break;
	case MESSAGE_MOVED:
		text(coder, message->moved.run_id, sizeof(message->moved.run_id));
		port(coder, &message->moved.port);
		break;
	case MESSAGE_JOIN:
		join(coder, &message->join);
		break;
	case MESSAGE_WORLD:
		world(coder, &message->start.world);
		candidates(coder, &message->start.candidates);
		flag(coder, &message->start.patient);
		break;
	case MESSAGE_FAILED:
		failure(coder, &message->failed.failure);
		number(coder, &message->failed.age_ms, 0, INT_MAX);
		break;
	case MESSAGE_LEAVE:
		number(coder, &message->leave.status, 0, 255);
		text(coder, message->leave.reason, sizeof(message->leave.reason));
		break;
	case MESSAGE_STOP:
	case MESSAGE_END:
		stop(coder, &message->stop);
		break;
	case MESSAGE_AGAIN:
		number(coder, &message->pause_ms, 0, INT_MAX);
		break;
	default: /* the others have no members */
		break;
	}
}

/* ---- Whole messages ------------------------------------------------------------------------- */

static void put_header(unsigned char *data, enum message_type type, size_t size)
{
	struct coder coder = { .to = data, .size = HEADER_SIZE };

	put(&coder, MAGIC);
	put(&coder, (uint32_t)type);
	put(&coder, (uint32_t)size);
}

size_t message_encode(const struct message *message, unsigned char *data)
{
	struct coder coder = { .to = data + HEADER_SIZE, .size = MESSAGE_MAX - HEADER_SIZE };
	struct message copy = *message; /* the coder's functions do not promise to leave it */

	code(&coder, &copy);
	put_header(data, message->type, coder.at);
	return HEADER_SIZE + coder.at;
}

/* A stranger is refused by its first bytes, however few they are. */
static bool begins_well(const unsigned char *data, size_t size)
{
	unsigned char magic[HEADER_SIZE];

	put_header(magic, 0, 0);
	return memcmp(data, magic, size < 4 ? size : 4) == 0;
}

long message_decode(struct message *message, const unsigned char *data, size_t size)
{
	struct coder header = { .from = data, .size = size, .at = 4 };
	struct coder coder = { .from = data + HEADER_SIZE };
	uint32_t type;

	if (!begins_well(data, size))
		return -1;
	if (size < HEADER_SIZE)
		return 0;
	type = get(&header);
	coder.size = get(&header);
	if (type >= MESSAGE_TYPES || coder.size > MESSAGE_MAX - HEADER_SIZE)
		return -1;
	if (coder.size > size - HEADER_SIZE)
		return 0;
	*message = (struct message){ .type = (enum message_type)type };
	code(&coder, message);
	return coder.bad || coder.at != coder.size ? -1 : (long)(HEADER_SIZE + coder.size);
}
