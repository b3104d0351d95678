/* Cases: messages in the caller's own memory, by send() and recv(). */
#include <stdlib.h>
#include <string.h>

#include "transports/contract/fixture.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

/* ---- send() ---------------------------------------------------------------------------------- */

#define PIECES 8 /* pieces of memory, sent from in turn */

struct sender {
	struct ends ends;
	unsigned char *memory;
	size_t room;
	uint64_t sent, taken, overwritten;
};

/* Overwrites memory that link->sent has counted: the message must not change. */
static void overwrite(struct sender *sender)
{
	struct rd_link *from = sender->ends.from;

	ok(sender->ends.fixture, from->sent <= from->posted,
		"sent counts more messages than posted");
	for (; sender->overwritten < from->sent; sender->overwritten++)
		memset(sender->memory + sender->overwritten % PIECES * sender->room, 0xee,
			sender->room);
}

static bool send_piece(struct sender *sender, size_t size)
{
	struct rd_link *from = sender->ends.from;
	unsigned char *piece = sender->memory + from->posted % PIECES * sender->room;
	struct rd_tag tag = tag_of(sender->sent);
	uint64_t posted = from->posted;

	if (posted - from->sent >= PIECES)
		return false;
	fill_bytes(piece, size, sender->sent);
	bool accepted = from->ops->send(from, &tag, piece, size);

	ok(sender->ends.fixture, from->posted == posted + accepted, "posted is %lu after %lu",
		from->posted, posted);
	return accepted;
}

/* Every fifth message by reserve() and commit(), between those of send(). */
static bool sender_send(struct sender *sender)
{
	uint64_t key = sender->sent;
	size_t size = size_of(key, sender->room);
	bool accepted =
		key % 5 == 4 ? try_send(sender->ends.from, key, size) : send_piece(sender, size);

	sender->sent += accepted;
	return accepted;
}

static void sender_take(struct sender *sender)
{
	if (sender->taken < sender->sent &&
		try_recv(sender->ends.fixture, sender->ends.to, sender->taken,
			size_of(sender->taken, sender->room)))
		sender->taken++;
	overwrite(sender);
}

static void sender_run(struct sender *sender)
{
	struct fixture *fixture = sender->ends.fixture;
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (sender->taken < 400) {
		bool moved = sender->sent < 400 && sender_send(sender);

		if (!moved || sender->sent % 3 == 0)
			sender_take(sender);
		if (!moved && !fixture_wait(fixture, deadline, "sent memory or messages"))
			return;
	}
	while (sender->ends.from->sent < sender->ends.from->posted)
		if (!fixture_wait(fixture, deadline, "sent memory to come back"))
			return;
}

void contract_sent_memory_comes_back_in_order(const char *transport)
{
	struct sender sender = { .room = 0 };
	struct shape shape = shape_small;

	shape.piece = 32 << 10;
	if (ends_open(&sender.ends, transport, shape) && sender.ends.from->ops->send) {
		sender.room = sender.ends.most;
		sender.memory = malloc(PIECES * sender.room);
		sender_run(&sender);
	}
	ends_close(&sender.ends);
	free(sender.memory);
}

/* ---- recv() ---------------------------------------------------------------------------------- */

static bool land(struct ends *ends, uint64_t key, size_t size, size_t wanted, bool ask_first)
{
	unsigned char into[4096 + 2];
	struct rd_message message;

	memset(into, 0xcc, sizeof(into));
	if (ask_first &&
		!ok(ends->fixture, !ends->to->ops->recv(ends->to, into + 1, wanted, &message),
			"a message before one was sent"))
		return false;
	if (!send_message(ends->fixture, ends->from, key, size) ||
		!await_message(ends->fixture, ends->to, into + 1, wanted, &message) ||
		!verify_message(ends->fixture, &message, key, size) ||
		!await_message(ends->fixture, ends->to, into + 1, wanted, &message) ||
		!verify_message(ends->fixture, &message, key, size))
		return false;
	ok(ends->fixture, message.data != into + 1 || size == wanted, "landed another size");
	ok(ends->fixture, into[0] == 0xcc && into[1 + wanted] == 0xcc, "wrote beside the place");
	ends->to->ops->release(ends->to);
	return !failed(ends->fixture);
}

void contract_a_message_lands_where_it_is_wanted(const char *transport)
{
	static const size_t sizes[] = { 0, 1, 8, 64, 65, 1000, 4096 };
	struct ends ends;
	bool valid = ends_open(&ends, transport, shape_small);

	for (uint64_t key = 0; valid && key < 84; key++) {
		size_t size = fixture_fit(ends.fixture, sizes[key % LENGTH(sizes)]);
		size_t other = fixture_fit(ends.fixture, sizes[(key + 3) % LENGTH(sizes)]);
		size_t wanted = key % 3 == 0 ? other : size;

		valid = land(&ends, key, size, wanted, key % 2);
	}
	ends_close(&ends);
}
