/* Cases: messages arrive although no recv() requests them. */
#include <stdlib.h>
#include <string.h>

#include "transports/contract/fixture.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

/* A message larger than the buffers between two ranks of any transport: it arrives only if the
   receiver takes it in. Links with a lower message_max carry that much. */
static const struct shape large = { .size = 2, .channels = 1, .slots = 2, .piece = 16 << 20 };

/* Sends by send() if the link has it, else as send_message() does. */
static bool post(struct fixture *fixture, struct rd_link *link, uint64_t key, unsigned char *memory)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;
	struct rd_tag tag = tag_of(key);
	size_t size = fixture_fit(fixture, large.piece);

	if (!link->ops->send)
		return send_message(fixture, link, key, size);
	fill_bytes(memory, size, key);
	while (!link->ops->send(link, &tag, memory, size))
		if (!fixture_wait(fixture, deadline, "room to send"))
			return false;
	return true;
}

static bool look_gone(struct fixture *fixture, void *argument)
{
	const struct rd_link *link = argument;

	ok(fixture, link->error == 0, "%s", link->reason);
	return link->sent == link->posted;
}

/* Waits until all messages have left the sender's memory. */
static bool until_gone(struct fixture *fixture, struct rd_link *link)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (!look_gone(fixture, link))
		if (!fixture_wait(fixture, deadline, "a message to leave its memory"))
			return false;
	return true;
}

/* Both ranks send before either receives, as in an exchange in place. */
static void pass(struct fixture *fixture, struct rd_link *link, bool sleepy)
{
	unsigned char *memory = malloc(large.piece);
	uint64_t rank = (uint64_t)fixture->local.rank;

	if (post(fixture, link, rank, memory) &&
		(sleepy ? sleep_until(fixture, look_gone, link) : until_gone(fixture, link))) {
		memset(memory, 0xee, large.piece);
		recv_message(fixture, link, 1 - rank, fixture_fit(fixture, large.piece));
	}
	free(memory);
}

static void pass_awake(struct fixture *fixture, struct rd_link **links)
{
	pass(fixture, links[0], false);
}

static void pass_asleep(struct fixture *fixture, struct rd_link **links)
{
	pass(fixture, links[0], true);
}

void contract_messages_that_fill_the_way_pass_each_other_unasked(const char *transport)
{
	fixture_pair(transport, &large, THREADS, pass_awake, pass_awake);
}

void contract_sleepers_take_in_what_they_did_not_ask_for(const char *transport)
{
	fixture_pair(transport, &large, THREADS, pass_asleep, pass_asleep);
}

/* Both ranks commit two messages before either receives. None closes its endpoint before the other
   has received: the kernel cannot hold what is left. */
static void put_two_and_take(struct fixture *fixture, struct rd_link **links)
{
	uint64_t mine = 2 * (uint64_t)fixture->local.rank, theirs = 2 - mine;
	uint64_t deadline = now_ms() + fixture_wait_ms;
	size_t size = fixture_fit(fixture, large.piece);

	for (uint64_t i = 0; i < 2; i++)
		if (!send_message(fixture, links[0], mine + i, size))
			return;
	for (uint64_t i = 0; i < 2; i++)
		if (!recv_message(fixture, links[0], theirs + i, size))
			return;
	fixture->shared->stage++;
	while (fixture->shared->stage < 2)
		if (!fixture_wait(fixture, deadline, "the other to receive"))
			return;
}

void contract_two_messages_each_way_find_room_unasked(const char *transport)
{
	fixture_pair(transport, &large, THREADS, put_two_and_take, put_two_and_take);
}

struct landing {
	struct rd_link *link;
	unsigned char into[8];
	struct rd_message message;
};

static bool look_landed(struct fixture *fixture, void *argument)
{
	struct landing *landing = argument;

	(void)fixture;
	return landing->link->ops->recv(
		landing->link, landing->into, sizeof(landing->into), &landing->message);
}

/* Sleeps for a message of one channel. It comes only when that of the other channel has left. */
static void sleep_for_first(struct fixture *fixture, struct rd_link **links)
{
	struct landing landing = { .link = links[0] };

	if (sleep_until(fixture, look_landed, &landing) &&
		verify_message(fixture, &landing.message, 1, sizeof(landing.into)))
		recv_message(fixture, links[1], 2, fixture_fit(fixture, large.piece));
}

static void send_second_first(struct fixture *fixture, struct rd_link **links)
{
	unsigned char *memory = malloc(large.piece);

	if (post(fixture, links[1], 2, memory) && until_gone(fixture, links[1]))
		send_message(fixture, links[0], 1, 8);
	free(memory);
}

void contract_a_sleeper_takes_in_what_it_does_not_wait_for(const char *transport)
{
	struct shape shape = large;

	shape.channels = 2;
	fixture_pair(transport, &shape, THREADS, sleep_for_first, send_second_first);
}

struct three {
	struct shared *shared;
	struct fixture fixtures[3];
	unsigned char *memory[3];
};

static bool three_open(struct three *three, const char *transport)
{
	struct shape shape = large;

	shape.size = 3;
	three->shared = shared_create();
	for (int rank = 0; rank < 3; rank++)
		three->memory[rank] = malloc(large.piece);
	return fixtures_open(three->fixtures, three->shared, transport, &shape);
}

static void three_close(struct three *three)
{
	fixtures_close(three->fixtures);
	for (int rank = 0; rank < 3; rank++)
		free(three->memory[rank]);
	shared_end(three->shared);
}

/* Each rank sends to the next: the three wait in a circle, no two for each other. */
void contract_messages_that_fill_the_way_go_round_unasked(const char *transport)
{
	struct three three;
	struct fixture *fixtures = three.fixtures;
	bool valid = three_open(&three, transport);

	for (int rank = 0; rank < 3 && valid; rank++)
		valid = post(fixtures, fixtures[rank].links[(rank + 1) % 3][0], (uint64_t)rank,
			three.memory[rank]);
	for (int rank = 0; rank < 3 && valid; rank++)
		valid = until_gone(fixtures, fixtures[rank].links[(rank + 1) % 3][0]);
	for (int rank = 0; rank < 3 && valid; rank++)
		valid = recv_message(fixtures, fixtures[rank].links[(rank + 2) % 3][0],
			(uint64_t)(rank + 2) % 3, fixture_fit(fixtures, large.piece));
	three_close(&three);
}

/* Rank 0 waits for a message of rank 1. It comes only when rank 2's message to rank 0 has left. */
void contract_who_awaits_one_rank_takes_in_what_another_sends(const char *transport)
{
	struct three three;
	struct fixture *fixtures = three.fixtures;
	unsigned char into[8];
	struct rd_message message;

	if (three_open(&three, transport)) {
		struct rd_link *from_one = fixtures[0].links[1][0];

		ok(fixtures, !from_one->ops->recv(from_one, into, sizeof(into), &message),
			"a message before one was sent");
		if (post(fixtures, fixtures[2].links[0][0], 2, three.memory[2]) &&
			until_gone(fixtures, fixtures[2].links[0][0]) &&
			send_message(fixtures, fixtures[1].links[0][0], 1, sizeof(into)) &&
			await_message(fixtures, from_one, into, sizeof(into), &message) &&
			verify_message(fixtures, &message, 1, sizeof(into)))
			recv_message(fixtures, fixtures[0].links[2][0], 2,
				fixture_fit(fixtures, large.piece));
	}
	three_close(&three);
}
