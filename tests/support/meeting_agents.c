#include "meeting_agents.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct agent agents[AGENTS];
struct meeting meeting;
int64_t now = 1000;

static void note(void *context, int id, const struct message *message)
{
	(void)context;
	cr_assert(id >= 0 && id < AGENTS && agents[id].connected, "sends to agent %d", id);
	agents[id].last = *message;
	if (message->type == MESSAGE_STOP && message->stop.ends)
		agents[id].last.type = GOT_END;
	agents[id].received++;
	agents[id].refused |= message->type == MESSAGE_REFUSED;
}

static struct rules rules_of(int least, int most, int max_restarts)
{
	return (struct rules){ .run_id = "job",
		.host = "host0",
		.nodes_min = least,
		.nodes = most,
		.max_restarts = max_restarts,
		.join_ms = 60000,
		.last_call_ms = 3000,
		.gather_ms = 100,
		.epoch_ms = 1000000,
		.send = note };
}

/* The test's process ends. */
__attribute__((destructor)) static void finish(void)
{
	meeting_finish(&meeting);
}

void open_meeting(int least, int most, int max_restarts)
{
	struct rules rules = rules_of(least, most, max_restarts);

	now = 1000;
	memset(agents, 0, sizeof(agents));
	finish();
	meeting_init(&meeting, &rules, 0, now);
}

struct hello hello_of(int id)
{
	struct hello hello = { .version = MESSAGE_VERSION,
		.run_id = "job",
		.node = -1,
		.local_size = 2,
		.nodes_min = meeting.rules.nodes_min,
		.nodes = meeting.rules.nodes,
		.max_restarts = meeting.rules.max_restarts,
		.port = 1000 + id,
		.last_node = -1 };

	snprintf(hello.host, sizeof(hello.host), "host%d", id);
	return hello;
}

void greet(int id, const struct hello *hello)
{
	char address[32];

	agents[id] = (struct agent){ .connected = true, .hello = *hello };
	snprintf(address, sizeof(address), "10.0.0.%d", id);
	meeting_hello(&meeting, id, hello, address, now);
}

void tell(int id, enum message_type type)
{
	struct message message = { .type = type };

	if (type == MESSAGE_JOIN)
		message.join = (struct join){ .port = 2000 + id, .rondo_port = 3000 + id };
	meeting_take(&meeting, id, &message, now);
}

void enter(int id)
{
	struct hello hello = hello_of(id);

	greet(id, &hello);
	tell(id, MESSAGE_JOIN);
}

void enter_all(int count)
{
	for (int id = 0; id < count; id++)
		enter(id);
}

void lose(int id)
{
	agents[id].connected = false;
	meeting_lose(&meeting, id, "Connection timed out", now);
}

void fail(int id, int status, bool by_signal, int age_ms)
{
	struct message message = { .type = MESSAGE_FAILED,
		.failed = { .failure = { .rank = 2 * id,
				    .pid = 100 + id,
				    .status = status,
				    .by_signal = by_signal },
			.age_ms = age_ms } };

	meeting_take(&meeting, id, &message, now);
}

void leave(int id)
{
	struct message message = { .type = MESSAGE_LEAVE,
		.leave = { .status = 143, .reason = "Terminated" } };

	meeting_take(&meeting, id, &message, now);
}

void wait_ms(int64_t ms)
{
	now += ms;
	meeting_on_clock(&meeting, now);
}

void got(int id, enum message_type type)
{
	cr_assert_eq(agents[id].last.type, type, "agent %d got %d, not %d", id,
		agents[id].last.type, type);
}

void all_got(int first, int count, enum message_type type)
{
	for (int id = first; id < first + count; id++)
		got(id, type);
}

const struct world *world_of(int id)
{
	got(id, MESSAGE_WORLD);
	return &agents[id].last.start.world;
}

void come_again(const int *ids, int count)
{
	for (int i = 0; i < count; i++) {
		got(ids[i], MESSAGE_STOP);
		tell(ids[i], MESSAGE_ENDED);
	}
	for (int i = 0; i < count; i++) {
		got(ids[i], MESSAGE_AGAIN);
		tell(ids[i], MESSAGE_JOIN);
	}
}

void reason_has(const char *reason, const char *part)
{
	cr_assert(strstr(reason, part), "'%s' lacks '%s'", reason, part);
}
