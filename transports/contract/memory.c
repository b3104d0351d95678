/* Cases: messages in the caller's own memory, by send() and recv(). */
#include <stdlib.h>
#include <string.h>

#include "transports/contract/fixture.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

/* ---- send() ---------------------------------------------------------------------------------- */

#define LENT 8 /* pieces of memory that are lent in turn */

struct lender {
	struct ends ends;
	unsigned char *memory;
	size_t room;
	uint64_t sent, taken, spoilt;
};

/* Whatever came back is spoilt at once: it must not matter any more. */
static void spoil(struct lender *lender)
{
	struct rd_link *from = lender->ends.from;

	ok(lender->ends.fixture, from->sent <= from->posted, "more came back than was lent");
	for (; lender->spoilt < from->sent; lender->spoilt++)
		memset(lender->memory + lender->spoilt % LENT * lender->room, 0xee, lender->room);
}

static bool lend(struct lender *lender, size_t size)
{
	struct rd_link *from = lender->ends.from;
	unsigned char *piece = lender->memory + from->posted % LENT * lender->room;
	struct rd_tag tag = tag_of(lender->sent);
	uint64_t posted = from->posted;

	if (posted - from->sent >= LENT)
		return false;
	fill(piece, size, lender->sent);
	bool accepted = from->ops->send(from, &tag, piece, size);

	ok(lender->ends.fixture, from->posted == posted + accepted, "posted is %lu after %lu",
		from->posted, posted);
	return accepted;
}

/* Every fifth message by reserve() and commit(), between the lent ones. */
static bool lender_send(struct lender *lender)
{
	uint64_t key = lender->sent;
	size_t size = size_of(key, lender->room);
	bool accepted = key % 5 == 4 ? offer(lender->ends.from, key, size) : lend(lender, size);

	lender->sent += accepted;
	return accepted;
}

static void lender_take(struct lender *lender)
{
	if (lender->taken < lender->sent &&
		accept_one(lender->ends.fixture, lender->ends.to, lender->taken,
			size_of(lender->taken, lender->room)))
		lender->taken++;
	spoil(lender);
}

static void lender_run(struct lender *lender)
{
	struct fixture *fixture = lender->ends.fixture;
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (lender->taken < 400) {
		bool moved = lender->sent < 400 && lender_send(lender);

		if (!moved || lender->sent % 3 == 0)
			lender_take(lender);
		if (!moved && !fixture_wait(fixture, deadline, "lent memory or messages"))
			return;
	}
	while (lender->ends.from->sent < lender->ends.from->posted)
		if (!fixture_wait(fixture, deadline, "lent memory to come back"))
			return;
}

void contract_sent_memory_comes_back_in_order(const char *transport)
{
	struct lender lender = { .room = 0 };
	struct shape shape = shape_small;

	shape.piece = 32 << 10;
	if (ends_open(&lender.ends, transport, shape) && lender.ends.from->ops->send) {
		lender.room = lender.ends.most;
		lender.memory = malloc(LENT * lender.room);
		lender_run(&lender);
	}
	ends_close(&lender.ends);
	free(lender.memory);
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
	if (!put(ends->fixture, ends->from, key, size) ||
		!await_message(ends->fixture, ends->to, into + 1, wanted, &message) ||
		!check(ends->fixture, &message, key, size) ||
		!await_message(ends->fixture, ends->to, into + 1, wanted, &message) ||
		!check(ends->fixture, &message, key, size))
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
