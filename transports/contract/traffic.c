#include "transports/contract/traffic.h"

#include <string.h>

void fill_bytes(unsigned char *bytes, size_t size, uint64_t key)
{
	unsigned char byte = (unsigned char)(key * 37 + (key >> 8));

	/* An odd step that differs between pages: no two pages or lines are equal. */
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(byte + i * 7 + (i >> 8) * 3);
}

size_t intact(const void *message, size_t size, uint64_t key)
{
	unsigned char byte = (unsigned char)(key * 37 + (key >> 8)), expected[256];
	const unsigned char *bytes = message;

	for (size_t at = 0; at < size; at += sizeof(expected)) {
		size_t part = size - at < sizeof(expected) ? size - at : sizeof(expected);

		for (size_t i = at; i < at + part; i++)
			expected[i - at] = (unsigned char)(byte + i * 7 + (i >> 8) * 3);
		if (memcmp(bytes + at, expected, part) != 0)
			return at;
	}
	return size;
}

struct rd_tag tag_of(uint64_t key)
{
	struct rd_tag tag;

	fill_bytes(tag.bytes, sizeof(tag.bytes), ~key);
	memcpy(tag.bytes, &key, sizeof(key));
	return tag;
}

size_t size_of(uint64_t key, size_t most)
{
	uint64_t x = (key + 1) * 0x9e3779b97f4a7c15;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9;
	x ^= x >> 32;
	size_t bound = x & 1 ? most : most < 100 ? most : 100;

	return (x >> 8) % (bound + 1);
}

bool try_send(struct rd_link *link, uint64_t key, size_t size)
{
	struct rd_tag tag = tag_of(key);
	void *room = link->ops->reserve(link, size);

	if (!room)
		return false;
	fill_bytes(room, size, key);
	link->ops->commit(link, &tag, size);
	return true;
}

bool send_message(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (!try_send(link, key, size)) {
		if (!ok(fixture, link->error == 0, "sending %lu: %s", key, link->reason))
			return false;
		if (!fixture_wait(fixture, deadline, "room to send"))
			return false;
	}
	return true;
}

bool verify_message(
	struct fixture *fixture, const struct rd_message *message, uint64_t key, size_t size)
{
	struct rd_tag tag = tag_of(key);
	size_t right;

	if (!ok(fixture, message->size == size, "message %lu has %zu bytes, not %zu", key,
		    message->size, size))
		return false;
	if (!ok(fixture, memcmp(message->tag, &tag, sizeof(tag)) == 0, "message %lu: tag", key))
		return false;
	right = intact(message->data, size, key);
	return ok(fixture, right == size, "message %lu of %zu bytes is damaged near byte %zu", key,
		size, right);
}

bool try_recv(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size)
{
	struct rd_message message;

	if (!link->ops->recv(link, NULL, 0, &message))
		return false;
	if (!ok(fixture, (uintptr_t)message.data % 8 == 0, "message %lu is not aligned", key))
		return false;
	if (!verify_message(fixture, &message, key, size))
		return false;
	link->ops->release(link);
	return true;
}

bool recv_message(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (!try_recv(fixture, link, key, size)) {
		if (!ok(fixture, link->error == 0, "awaiting %lu: %s", key, link->reason))
			return false;
		if (!fixture_wait(fixture, deadline, "a message"))
			return false;
	}
	return true;
}

bool until_broken(struct fixture *fixture, struct rd_link *link, uint64_t wait_ms)
{
	uint64_t deadline = now_ms() + wait_ms;
	struct rd_message message;

	while (link->error == 0) {
		if (!ok(fixture, !link->ops->recv(link, NULL, 0, &message), "a message too many"))
			return false;
		if (!fixture_wait(fixture, deadline, "the end of the peer"))
			return false;
	}
	return ok(fixture, link->error == RONDO_BROKEN, "the error of a broken link is %s (%s)",
		       rondo_error_name(link->error), link->reason) &&
	       ok(fixture, link->reason[0] != '\0', "a failed link has no reason") &&
	       ok(fixture, !link->ops->reserve(link, 1), "a failed link gives room") &&
	       ok(fixture, !link->ops->recv(link, NULL, 0, &message),
		       "a failed link gives a message");
}

bool await_message(struct fixture *fixture, struct rd_link *link, void *into, size_t size,
	struct rd_message *message)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (!link->ops->recv(link, into, size, message))
		if (!fixture_wait(fixture, deadline, "a message"))
			return false;
	return true;
}

uint64_t flood(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size)
{
	uint64_t bound = key + (256 << 20) / (size + 1);

	/* Buffers between the two ends drain in waves: a link that stays full for 1000 calls is
	   full. */
	for (int refused = 0; refused < 1000 && !link->error && !failed(fixture);) {
		if (try_send(link, key, size)) {
			refused = 0;
			key++;
		} else {
			refused++;
			fixture_advance(fixture);
		}
		ok(fixture, key < bound, "there is no end to the room");
	}
	return key;
}

void run_bursts(struct ends *ends, uint64_t count)
{
	uint64_t sent = 0, taken = 0;
	size_t most = ends->most;

	for (uint64_t round = 0; taken < count; round++) {
		uint64_t burst = sent + size_of(round, 7), gulp = taken + 1 + size_of(~round, 7);

		while (sent < count && sent < burst &&
			try_send(ends->from, sent, size_of(sent, most)))
			sent++;
		while (taken < sent && taken < gulp) {
			if (!recv_message(ends->fixture, ends->to, taken, size_of(taken, most)))
				return;
			taken++;
		}
	}
}
