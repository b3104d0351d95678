/*
 * The longest message of each type that rondo-run's agents send.
 */
#ifndef RUN_MESSAGES_H
#define RUN_MESSAGES_H

#include <limits.h>
#include <string.h>

#include "run/nodes/message.h"

static inline void fill(char *text, size_t size, char letter)
{
	memset(text, letter, size - 1);
	text[size - 1] = '\0';
}

static inline void fill_candidates(struct candidates *candidates)
{
	candidates->count = CANDIDATES_MAX;
	for (int i = 0; i < CANDIDATES_MAX; i++) {
		candidates->list[i].id = INT_MAX - i;
		candidates->list[i].place.port = 65535 - i;
		fill(candidates->list[i].place.address, ADDRESS_SIZE, (char)('0' + i));
	}
}

static inline void fill_failure(struct failure *failure)
{
	*failure = (struct failure){ .rank = 65535,
		.local_rank = 7,
		.node = 3,
		.pid = 4194303,
		.status = 137,
		.by_signal = true,
		.at_ms = INT64_C(1790000000123),
		.after_ms = INT64_C(0x123456789a) };
	fill(failure->host, sizeof(failure->host), 'h');
	fill(failure->message, sizeof(failure->message), 'm');
	fill(failure->log, sizeof(failure->log), 'l');
	fill(failure->tail, sizeof(failure->tail), '\n');
}

static inline struct message longest(enum message_type type)
{
	struct message message = { .type = type };
	struct hello *hello = &message.hello;
	struct world *world = &message.start.world;

	switch (type) {
	case MESSAGE_HELLO:
		*hello = (struct hello){ .version = MESSAGE_VERSION,
			.node = 4,
			.local_size = 8,
			.nodes_min = 2,
			.nodes = 9,
			.max_restarts = INT_MAX,
			.port = 65535,
			.attempts = 12,
			.restarts = 11,
			.last_node = -1 };
		fill(hello->run_id, sizeof(hello->run_id), 'r');
		fill(hello->host, sizeof(hello->host), 'h');
		break;
	case MESSAGE_WELCOME:
		message.welcome.id = 17;
		fill(message.welcome.host, HOST_SIZE, 'h');
		fill_candidates(&message.welcome.candidates);
		break;
	case MESSAGE_REFUSED:
		fill(message.reason, sizeof(message.reason), 'x');
		break;
	case MESSAGE_MOVED:
		message.moved.leader.port = 2;
		fill(message.moved.leader.address, ADDRESS_SIZE, ':');
		fill(message.moved.run_id, RUN_ID_SIZE, 'r');
		break;
	case MESSAGE_JOIN:
		message.join = (struct join){ .port = 29500, .rondo_port = 27500 };
		fill(message.join.address, ADDRESS_SIZE, 'a');
		break;
	case MESSAGE_WORLD:
		*world = (struct world){ .attempt = 5,
			.restarts = 3,
			.nodes = 4,
			.node = 2,
			.size = 11,
			.first = 6,
			.local_size = 5,
			.port = 1,
			.rondo_port = 2 };
		fill(world->run_id, RUN_ID_SIZE, 'r');
		fill(world->address, ADDRESS_SIZE, 'a');
		fill_candidates(&message.start.candidates);
		break;
	case MESSAGE_FAILED:
		fill_failure(&message.failed.failure);
		message.failed.age_ms = INT_MAX;
		break;
	case MESSAGE_LEAVE:
		message.leave.status = 255;
		fill(message.leave.reason, REASON_SIZE, 'x');
		break;
	case MESSAGE_STOP:
		message.stop = (struct stop){
			.ends = true, .at_once = true, .status = -1, .failed = true
		};
		fill_failure(&message.stop.failure);
		fill(message.stop.reason, REASON_SIZE, 'x');
		break;
	case MESSAGE_AGAIN:
		message.pause_ms = INT_MAX;
		break;
	default:
		break;
	}
	return message;
}

#endif
