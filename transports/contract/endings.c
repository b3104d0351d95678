/* Cases: a peer closes its endpoint, or is killed. */
#include <signal.h>
#include <sys/wait.h>

#include "transports/contract/fixture.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

static bool until_stage(struct fixture *fixture, int stage)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (fixture->shared->stage < stage)
		if (!fixture_wait(fixture, deadline, "the other side"))
			return false;
	return true;
}

/* Advances until the transport has detected the end of the peer, before a message is read. */
static void advance_long(struct fixture *fixture)
{
	for (int i = 0; i < 3000; i++)
		fixture_advance(fixture);
}

#define FEW 3
#define MANY 40
#define MANY_SIZE (64 << 10)

/* A few messages, which are on their way when close() returns. */
static void leave_few(struct fixture *fixture, struct rd_link **links)
{
	if (!until_stage(fixture, 1))
		return;
	for (uint64_t key = 0; key < FEW; key++)
		if (!send_message(fixture, links[0], key, size_of(key, fixture_fit(fixture, 4096))))
			return;
	/* Unread messages of the other side must not cost the ones sent here. */
	fixture_close(fixture);
	fixture->shared->stage = 2;
}

static void outlive_few(struct fixture *fixture, struct rd_link **links)
{
	bool valid = send_message(fixture, links[0], 100, 64) &&
		     send_message(fixture, links[0], 101, fixture_fit(fixture, 4000));

	fixture->shared->stage = 1;
	if (!valid || !until_stage(fixture, 2))
		return;
	advance_long(fixture);
	for (uint64_t key = 0; key < FEW; key++)
		if (!recv_message(fixture, links[0], key, size_of(key, fixture_fit(fixture, 4096))))
			return;
	until_broken(fixture, links[0], fixture_wait_ms);
}

/* Many messages: the last ones are still queued when close() is called. */
static void leave_many(struct fixture *fixture, struct rd_link **links)
{
	size_t size = fixture_fit(fixture, MANY_SIZE);

	for (uint64_t key = 0; key < MANY; key++)
		if (!send_message(fixture, links[0], key, size))
			return;
	fixture_close(fixture);
}

static void outlive_many(struct fixture *fixture, struct rd_link **links)
{
	size_t size = fixture_fit(fixture, MANY_SIZE);

	for (uint64_t key = 0; key < MANY; key++)
		if (!recv_message(fixture, links[0], key, size))
			return;
	until_broken(fixture, links[0], fixture_wait_ms);
}

static void run_leavers(const char *transport, enum sides sides)
{
	struct shape shape = shape_small;

	fixture_pair(transport, &shape, sides, outlive_few, leave_few);
	fixture_pair(transport, &shape, sides, leave_few, outlive_few);
	shape.piece = MANY_SIZE;
	fixture_pair(transport, &shape, sides, outlive_many, leave_many);
	fixture_pair(transport, &shape, sides, leave_many, outlive_many);
}

void contract_messages_outlive_their_sender_in_threads(const char *transport)
{
	run_leavers(transport, THREADS);
}

void contract_messages_outlive_their_sender_in_processes(const char *transport)
{
	run_leavers(transport, PROCESSES);
}

/* Sends two messages, lets them leave, and waits to be killed. */
static void send_two_and_wait(struct fixture *fixture, struct rd_link **links)
{
	if (!send_message(fixture, links[0], 0, 64) ||
		!send_message(fixture, links[0], 1, fixture_fit(fixture, 4000)))
		return;
	for (int i = 0; i < 100; i++)
		fixture_advance(fixture);
	fixture->shared->stage = 1;
	until_stage(fixture, 1000000);
}

static void kill_and_take_two(struct fixture *fixture, struct rd_link **links)
{
	size_t size = fixture_fit(fixture, 4000);
	siginfo_t death;

	if (!until_stage(fixture, 1))
		return;
	kill(fixture->shared->child, SIGKILL);
	waitid(P_PID, (id_t)fixture->shared->child, &death, WEXITED | WNOWAIT);
	advance_long(fixture);
	if (recv_message(fixture, links[0], 0, 64) && recv_message(fixture, links[0], 1, size))
		until_broken(fixture, links[0], fixture_wait_ms);
}

void contract_a_killed_peer_breaks_the_link_after_its_last_message(const char *transport)
{
	fixture_pair(transport, &shape_small, PROCESSES, kill_and_take_two, send_two_and_wait);
}

static void die_when_told(struct fixture *fixture, struct rd_link **links)
{
	(void)links;
	if (until_stage(fixture, 1))
		raise(SIGKILL);
}

static bool look_broken(struct fixture *fixture, void *argument)
{
	struct rd_link *link = argument;
	struct rd_message message;

	ok(fixture, !link->ops->recv(link, NULL, 0, &message), "a message from nowhere");
	return link->error != 0;
}

static void sleep_until_broken(struct fixture *fixture, struct rd_link **links)
{
	fixture->shared->stage = 1;
	if (sleep_until(fixture, look_broken, links[0]))
		until_broken(fixture, links[0], 0);
}

void contract_a_killed_peer_wakes_a_sleeper(const char *transport)
{
	fixture_pair(transport, &shape_small, PROCESSES, sleep_until_broken, die_when_told);
}

/* Unread messages of a dead peer must not hide that there will never be room. */
static void kill_when_full(struct fixture *fixture, struct rd_link **links)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;
	size_t size = fixture_fit(fixture, shape_small.piece);

	if (!until_stage(fixture, 1))
		return;
	flood(fixture, links[0], 0, size);
	kill(fixture->shared->child, SIGKILL);
	while (!links[0]->error && fixture_wait(fixture, deadline, "an error"))
		try_send(links[0], 0, size);
	ok(fixture, links[0]->error == RONDO_BROKEN, "%s", links[0]->reason);
}

void contract_a_killed_reader_breaks_a_sender_without_room(const char *transport)
{
	fixture_pair(transport, &shape_small, PROCESSES, kill_when_full, send_two_and_wait);
}
