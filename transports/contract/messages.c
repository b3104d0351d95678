/* Cases: one link carries messages whole and in order, and a full one recovers. */
#include <stdint.h>

#include "transports/contract/fixture.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

void contract_messages_arrive_in_order_through_many_wraps(const char *transport)
{
	struct ends ends;

	if (ends_open(&ends, transport, shape_small))
		run_bursts(&ends, 5000);
	ends_close(&ends);
}

static void run_sizes(struct ends *ends)
{
	static const size_t sizes[] = { 0, 1, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129, 4095,
		4096, 4097, 65535, 65536 };
	size_t most = ends->most;
	uint64_t key = 0;

	for (size_t i = 0; i < LENGTH(sizes); i++, key++)
		if (sizes[i] <= most && send_message(ends->fixture, ends->from, key, sizes[i]))
			recv_message(ends->fixture, ends->to, key, sizes[i]);
	for (size_t less = 0; less < 5; less++, key++)
		if (send_message(ends->fixture, ends->from, key, most - less))
			recv_message(ends->fixture, ends->to, key, most - less);
}

void contract_every_size_keeps_its_payload_and_tag(const char *transport)
{
	static const size_t pieces[] = { 64, 4096, 128 << 10 };

	for (size_t i = 0; i < LENGTH(pieces); i++) {
		struct shape shape = shape_small;
		struct ends ends;

		shape.piece = pieces[i];
		if (ends_open(&ends, transport, shape))
			run_sizes(&ends);
		ends_close(&ends);
	}
}

void contract_reserving_twice_gives_the_same_room(const char *transport)
{
	struct ends ends;

	if (!ends_open(&ends, transport, shape_small)) {
		ends_close(&ends);
		return;
	}
	for (uint64_t key = 0; key < 20; key++) {
		size_t size = size_of(key, ends.most);
		void *room = ends.from->ops->reserve(ends.from, size);

		ok(ends.fixture, room != NULL, "no room on an empty link");
		ok(ends.fixture, (uintptr_t)room % 8 == 0, "room that is not aligned");
		ok(ends.fixture, room == ends.from->ops->reserve(ends.from, size),
			"another room the second time");
		if (!send_message(ends.fixture, ends.from, key, size) ||
			!recv_message(ends.fixture, ends.to, key, size))
			break;
	}
	ends_close(&ends);
}

void contract_receiving_twice_shows_the_same_message(const char *transport)
{
	struct ends ends;
	struct rd_message message;
	bool valid = ends_open(&ends, transport, shape_small);

	for (uint64_t key = 0; valid && key < 40; key += 2) {
		size_t size = size_of(key, ends.most);

		valid = send_message(ends.fixture, ends.from, key, size) &&
			await_message(ends.fixture, ends.to, NULL, 0, &message) &&
			/* A second message changes nothing about the first. */
			send_message(ends.fixture, ends.from, key + 1, 8) &&
			verify_message(ends.fixture, &message, key, size) &&
			await_message(ends.fixture, ends.to, NULL, 0, &message) &&
			recv_message(ends.fixture, ends.to, key, size) &&
			recv_message(ends.fixture, ends.to, key + 1, 8);
	}
	ends_close(&ends);
}

void contract_a_link_that_is_full_says_so_and_recovers(const char *transport)
{
	struct shape shape = shape_small;
	struct ends ends;
	uint64_t sent = 0, taken = 0;

	shape.piece = 64 << 10;
	bool valid = ends_open(&ends, transport, shape);

	for (int round = 0; valid && round < 2; round++) {
		sent = flood(ends.fixture, ends.from, sent, ends.most);
		ok(ends.fixture, ends.from->error == 0, "full is no error: %s", ends.from->reason);
		ok(ends.fixture, sent > taken, "no room at all");
		while (taken < sent && recv_message(ends.fixture, ends.to, taken, ends.most))
			taken++;
		valid = send_message(ends.fixture, ends.from, sent, 8) &&
			recv_message(ends.fixture, ends.to, sent, 8);
		taken = ++sent;
	}
	ends_close(&ends);
}
