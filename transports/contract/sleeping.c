/* Cases: messages and room wake a rank that sleeps. */
#include "transports/contract/fixture.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

#define SLEEPS 20000

struct awaited {
	struct rd_link *link;
	uint64_t key;
	size_t size;
	bool there; /* a look has already taken the message, or sent it */
};

static bool look_taken(struct fixture *fixture, void *argument)
{
	struct awaited *awaited = argument;

	if (!awaited->there)
		awaited->there = try_recv(fixture, awaited->link, awaited->key, awaited->size);
	return awaited->there;
}

static bool look_sent(struct fixture *fixture, void *argument)
{
	struct awaited *awaited = argument;

	(void)fixture;
	if (!awaited->there)
		awaited->there = try_send(awaited->link, awaited->key, awaited->size);
	return awaited->there;
}

static bool sleepy_take(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size)
{
	struct awaited awaited = { link, key, size, false };

	return sleep_until(fixture, look_taken, &awaited);
}

static bool sleepy_put(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size)
{
	struct awaited awaited = { link, key, size, false };

	return sleep_until(fixture, look_sent, &awaited);
}

/* The last of SLEEPS messages, or the one at half the time that a wait may take: the sleeps of an
   emulated machine take long. Stored before it is sent, so that both sides see it. */
static bool note_last(struct fixture *fixture, uint64_t key, uint64_t since_ms)
{
	bool last = key + 1 == SLEEPS || now_ms() - since_ms > (uint64_t)fixture_wait_ms / 2;

	if (last)
		fixture->shared->stage = 1;
	return last;
}

static bool was_last(const struct fixture *fixture)
{
	return fixture->shared->stage != 0;
}

static void serve(struct fixture *fixture, struct rd_link **links)
{
	uint64_t since_ms = now_ms();
	bool last = false;

	for (uint64_t key = 0; !last; key++) {
		last = note_last(fixture, key, since_ms);
		if (!send_message(fixture, links[0], key, 8) ||
			!sleepy_take(fixture, links[0], ~key, 8))
			return;
	}
}

static void reply(struct fixture *fixture, struct rd_link **links)
{
	bool last = false;

	for (uint64_t key = 0; !last; key++) {
		if (!sleepy_take(fixture, links[0], key, 8))
			return;
		last = was_last(fixture);
		if (!send_message(fixture, links[0], ~key, 8))
			return;
	}
}

void contract_sleeping_threads_are_woken_by_messages(const char *transport)
{
	fixture_pair(transport, &shape_small, THREADS, serve, reply);
}

void contract_sleeping_processes_are_woken_by_messages(const char *transport)
{
	fixture_pair(transport, &shape_small, PROCESSES, serve, reply);
}

/* Small messages fill links that count slots, then large ones fill links that count bytes. */
static size_t stream_size(struct fixture *fixture, uint64_t key)
{
	return key < SLEEPS ? 16 : fixture_fit(fixture, 64 << 10);
}

#define STREAM (SLEEPS + 300)

static void stream_out(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < STREAM; key++)
		if (!sleepy_put(fixture, links[0], key, stream_size(fixture, key)))
			return;
	sleepy_take(fixture, links[0], 7, 8);
}

static void stream_in(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < STREAM; key++)
		if (!sleepy_take(fixture, links[0], key, stream_size(fixture, key)))
			return;
	send_message(fixture, links[0], 7, 8);
	/* Advances until the message has left, if that takes more than a commit. */
	sleepy_take(fixture, links[0], 8, 8);
}

static void stream_out_and_end(struct fixture *fixture, struct rd_link **links)
{
	stream_out(fixture, links);
	send_message(fixture, links[0], 8, 8);
}

static const struct shape narrow = { .size = 2, .channels = 1, .slots = 2, .piece = 64 << 10 };

void contract_sleeping_threads_are_woken_by_room(const char *transport)
{
	fixture_pair(transport, &narrow, THREADS, stream_out_and_end, stream_in);
}

void contract_sleeping_processes_are_woken_by_room(const char *transport)
{
	fixture_pair(transport, &narrow, PROCESSES, stream_out_and_end, stream_in);
}

/* The delay grows each time, so that some message arrives just when the other side falls asleep. */
static void delay(uint64_t key)
{
	for (volatile uint64_t i = 0; i < key % 1000; i++)
		;
}

static void reply_awake(struct fixture *fixture, struct rd_link **links)
{
	bool last = false;

	for (uint64_t key = 0; !last; key++) {
		if (!recv_message(fixture, links[0], key, 8))
			return;
		last = was_last(fixture);
		delay(key);
		if (!send_message(fixture, links[0], ~key, 8))
			return;
	}
}

void contract_a_message_that_meets_its_reader_falling_asleep_wakes_it(const char *transport)
{
	fixture_pair(transport, &shape_small, PROCESSES, serve, reply_awake);
}

static void stream_in_awake(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < STREAM; key++) {
		delay(key);
		if (!recv_message(fixture, links[0], key, stream_size(fixture, key)))
			return;
	}
	send_message(fixture, links[0], 7, 8);
	sleepy_take(fixture, links[0], 8, 8);
}

void contract_room_that_meets_its_writer_falling_asleep_wakes_it(const char *transport)
{
	fixture_pair(transport, &narrow, PROCESSES, stream_out_and_end, stream_in_awake);
}

static void one_message_each(struct fixture *fixture, struct rd_link **links)
{
	uint64_t rank = (uint64_t)fixture->local.rank;

	if (send_message(fixture, links[0], rank, 8))
		recv_message(fixture, links[0], 1 - rank, 8);
}

void contract_a_sleeper_is_woken_while_links_become_ready(const char *transport)
{
	struct shape shape = shape_small;

	shape.sleepy = true;
	for (int round = 0; round < 20; round++)
		fixture_pair(transport, &shape, round % 2 ? THREADS : PROCESSES, one_message_each,
			one_message_each);
}
