/* shm beyond the contract. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "transports/contract/fixture.h"
#include "transports/contract/traffic.h"
#include "filter.h"
#include "text.h"

static const struct shape shape = { .size = 2, .channels = 1, .slots = 4, .piece = 4096 };

#define ROUNDS 50000

static void delay(uint64_t loops)
{
	for (volatile uint64_t i = 0; i < loops; i++)
		;
}

/*
 * Arms and checks the link, as before a sleep. A message that comes after the check must write the
 * eventfd. The function does not sleep, so that the two race as often as possible.
 */
static bool arm_and_check(struct fixture *fixture, struct rd_link *link, uint64_t key)
{
	struct epoll_event event;
	bool woken = true;
	/* Every other time the link is found empty before, and not only after. */
	bool there = key % 2 == 0 && try_recv(fixture, link, key, 8);

	fixture->transport->arm(fixture->endpoint);
	if (!there && !try_recv(fixture, link, key, 8))
		woken = recv_message(fixture, link, key, 8) &&
			epoll_wait(fixture->local.epoll_fd, &event, 1, 1000) == 1;
	fixture->transport->disarm(fixture->endpoint);
	/* The wake-up by a message that was seen at once may come late, but before the next
	   answer. */
	if (send_message(fixture, link, ~key, 8) && recv_message(fixture, link, ~key, 8))
		epoll_wait(fixture->local.epoll_fd, &event, 1, 0);
	return ok(fixture, woken, "message %lu came without a wake-up", key);
}

static void sleeper(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < ROUNDS; key++) {
		if (!send_message(fixture, links[0], key, 8))
			return;
		delay(key / 64 % 64);
		if (!arm_and_check(fixture, links[0], key))
			return;
	}
}

static void waker(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < ROUNDS; key++) {
		if (!recv_message(fixture, links[0], key, 8))
			return;
		delay(key % 64);
		if (!send_message(fixture, links[0], key, 8) ||
			!recv_message(fixture, links[0], ~key, 8) ||
			!send_message(fixture, links[0], ~key, 8))
			return;
	}
}

Test(shm, a_message_wakes_a_reader_that_found_nothing, .timeout = 60)
{
	fixture_pair("shm", &shape, PROCESSES, sleeper, waker);
}

static void forbid_or_skip(unsigned call)
{
	if (!forbid(call, ENOSYS))
		cr_skip_test("no filters of system calls here");
}

Test(shm, a_message_wakes_a_reader_without_membarrier, .timeout = 60)
{
	forbid_or_skip(SYS_membarrier);
	cr_assert(syscall(SYS_membarrier, 0, 0, 0) < 0);
	fixture_pair("shm", &shape, PROCESSES, sleeper, waker);
}

/* ---- Single copies -------------------------------------------------------------------------- */

#define SIZE 4000
#define MESSAGES 20000

/* Sends message `key` from memory of the test, and waits for room. */
static bool send_from(
	struct fixture *fixture, struct rd_link *link, uint64_t key, void *memory, size_t size)
{
	struct rd_tag tag = tag_of(key);
	uint64_t deadline = now_ms() + fixture_wait_ms;

	fill_bytes(memory, size, key);
	while (!link->ops->send(link, &tag, memory, size))
		if (!fixture_wait(fixture, deadline, "room"))
			return false;
	return true;
}

static bool until_sent(struct fixture *fixture, struct rd_link *link)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (link->sent < link->posted)
		if (!fixture_wait(fixture, deadline, "memory to come back"))
			return false;
	return true;
}

Test(shm, sent_memory_comes_back_although_the_peer_is_late)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[2];
	unsigned char memory[3][SIZE];

	if (fixtures_open(fixtures, shared, "shm", &shape)) {
		struct rd_link *to = fixtures[1].links[0][0], *from = fixtures[0].links[1][0];

		for (uint64_t key = 0; key < 3; key++)
			send_from(fixtures, to, key, memory[key], SIZE);
		ok(fixtures, to->sent == 0, "%lu back at once", to->sent);
		until_sent(fixtures, to);
		memset(memory, 0, sizeof(memory));
		for (uint64_t key = 0; key < 3; key++)
			recv_message(fixtures, from, key, SIZE);
	}
	fixtures_close(fixtures);
	shared_end(shared);
}

/* A rank that keeps a message may wait itself for its own memory, which the other one keeps. */
Test(shm, sent_memory_comes_back_once_the_peer_has_read_it)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[2];
	unsigned char memory[SIZE], later[SIZE];

	if (fixtures_open(fixtures, shared, "shm", &shape)) {
		struct rd_link *to = fixtures[1].links[0][0], *from = fixtures[0].links[1][0];
		struct rd_message message;

		send_from(fixtures, to, 0, memory, SIZE);
		ok(fixtures, from->ops->recv(from, NULL, SIZE, &message), "no message");
		until_sent(&fixtures[1], to);
		memset(memory, 0, sizeof(memory));
		send_from(fixtures, to, 1, later, SIZE);
		recv_message(fixtures, from, 0, SIZE);
		recv_message(fixtures, from, 1, SIZE);
	}
	fixtures_close(fixtures);
	shared_end(shared);
}

/* A copy of 64 KiB takes some microseconds. The sender waits as long for the reader. */
Test(shm, a_large_message_is_not_copied_at_once)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[2];
	struct shape large = shape;
	static unsigned char memory[64 << 10];

	large.piece = sizeof(memory);
	if (fixtures_open(fixtures, shared, "shm", &large)) {
		struct rd_link *to = fixtures[1].links[0][0], *from = fixtures[0].links[1][0];

		send_from(fixtures, to, 0, memory, sizeof(memory));
		for (int i = 0; i < 200; i++)
			fixture_advance(&fixtures[1]);
		ok(fixtures, to->sent == 0, "copied at once");
		until_sent(&fixtures[1], to);
		recv_message(fixtures, from, 0, sizeof(memory));
	}
	fixtures_close(fixtures);
	shared_end(shared);
}

static size_t resident_pages(void)
{
	char line[512];
	size_t kib = 0, part;
	unsigned long start;
	bool ours = false;
	FILE *maps = fopen("/proc/self/smaps", "re");

	cr_assert(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%*x ", &start) == 1 && strstr(line, " 00:"))
			ours = strstr(line, "memfd:rondo") != NULL;
		if (ours && sscanf(line, "Rss: %zu kB", &part) == 1)
			kib += part;
	}
	fclose(maps);
	return kib / 4;
}

Test(shm, memory_is_returned_once_its_messages_are_received)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[2];
	struct shape large = shape;
	size_t full;

	large.piece = 64 << 10;
	if (fixtures_open(fixtures, shared, "shm", &large)) {
		struct rd_link *to = fixtures[1].links[0][0], *from = fixtures[0].links[1][0];

		for (uint64_t key = 0; key < 4; key++)
			send_message(fixtures, to, key, large.piece);
		full = resident_pages();
		for (uint64_t key = 0; key < 4; key++) {
			to->transport->trim(to);
			ok(fixtures, resident_pages() >= full,
				"returned while a message lies there");
			recv_message(fixtures, from, key, large.piece);
		}
		to->transport->trim(to);
		/* 64 pages of rooms, in two mappings. */
		ok(fixtures, resident_pages() + 60 <= full, "%zu pages of %zu are left",
			resident_pages(), full);
		if (send_message(fixtures, to, 4, large.piece))
			recv_message(fixtures, from, 4, large.piece);
	}
	fixtures_close(fixtures);
	shared_end(shared);
}

/* Both sides send, and wait for their memory before they receive. The delays vary, so that one
   side's read races with the other's copy at every distance. */
static void left_side(struct fixture *fixture, struct rd_link **links)
{
	unsigned char memory[SIZE];

	for (uint64_t key = 0; key < MESSAGES; key++) {
		size_t size = size_of(key, SIZE);

		if (!send_from(fixture, links[0], key, memory, size))
			return;
		delay(key / 64 % 64);
		if (key % 3 == 0 && !until_sent(fixture, links[0]))
			return;
		if (!recv_message(fixture, links[0], ~key, size) || !until_sent(fixture, links[0]))
			return;
		memset(memory, 0, size);
	}
}

static void right_side(struct fixture *fixture, struct rd_link **links)
{
	unsigned char memory[SIZE];

	for (uint64_t key = 0; key < MESSAGES; key++) {
		size_t size = size_of(key, SIZE);

		delay(key % 64 * 8);
		if (!send_from(fixture, links[0], ~key, memory, size) ||
			(key % 2 == 0 && !until_sent(fixture, links[0])) ||
			!recv_message(fixture, links[0], key, size) ||
			!until_sent(fixture, links[0]))
			return;
		memset(memory, 0, size);
	}
}

Test(shm, a_message_is_copied_once_by_the_first_side, .timeout = 60)
{
	fixture_pair("shm", &shape, PROCESSES, left_side, right_side);
	fixture_pair("shm", &shape, THREADS, left_side, right_side);
}

Test(shm, memory_that_the_peer_may_not_read_is_sent_as_a_copy, .timeout = 60)
{
	forbid_or_skip(SYS_process_vm_readv);
	fixture_pair("shm", &shape, PROCESSES, left_side, right_side);
}

Test(shm, each_rank_logs_once_that_the_peer_may_not_read_its_memory, .timeout = 60)
{
	const char *text;

	forbid_or_skip(SYS_process_vm_readv);
	rd_log_set(RD_INFO, 1u << RD_NET);
	captured_stderr_begin();
	fixture_pair("shm", &shape, PROCESSES, left_side, right_side);
	text = captured_stderr_end();
	cr_expect_eq(count_of(text, "rank 0 may not read this process's memory"), 1, "%s", text);
	cr_expect_eq(count_of(text, "rank 1 may not read this process's memory"), 1, "%s", text);
}

/* ---- Memory that a peer has overwritten ------------------------------------------------------ */

/* As shm/fifo.h draws it: the FIFO of rank 1's messages has every second cell of 128 bytes. It
   begins with what rank 0 consumed; then flags; then lines. */
#define CONSUMED 128
#define FIRST_LINE_SIZE (CONSUMED + 2 * 256 + 4)
#define LINES 32

/* The memory that two ranks in this process share: the first of its mappings will do. */
static unsigned char *shared_memory(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned long start = 0;

	cr_assert(maps);
	while (!start && fgets(line, sizeof(line), maps))
		if (strstr(line, "memfd:rondo") && sscanf(line, "%lx", &start) != 1)
			start = 0;
	fclose(maps);
	return (unsigned char *)start;
}

static void overwrite(unsigned char *memory, size_t at, uint32_t value)
{
	memcpy(memory + at, &value, sizeof(value));
}

static void try_wrong_size(uint32_t size)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[2];
	struct rd_message message;

	if (fixtures_open(fixtures, shared, "shm", &shape) &&
		send_message(fixtures, fixtures[1].links[0][0], 1, 8)) {
		struct rd_link *link = fixtures[0].links[1][0];

		overwrite(shared_memory(), FIRST_LINE_SIZE, size);
		ok(fixtures, !link->ops->recv(link, NULL, 0, &message), "took %u bytes", size);
		ok(fixtures, link->error == RONDO_PROTOCOL, "%s", link->reason);
	}
	fixtures_close(fixtures);
	shared_end(shared);
}

Test(shm, an_impossible_size_is_an_error)
{
	try_wrong_size(33); /* beside the header there is room for 32 */
	try_wrong_size(0x80000000u | (4096 + 1)); /* message_max and one more */
	try_wrong_size(0xffffffffu);
}

Test(shm, an_impossible_count_is_an_error)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[2];

	if (fixtures_open(fixtures, shared, "shm", &shape)) {
		struct rd_link *link = fixtures[1].links[0][0];
		uint64_t sent = 0;

		overwrite(shared_memory(), CONSUMED, 1000);
		while (sent < 1000 && try_send(link, sent, 8))
			sent++;
		ok(fixtures, sent == LINES, "%lu messages in %d lines", sent, LINES);
		ok(fixtures, link->error == RONDO_PROTOCOL, "%s", link->reason);
	}
	fixtures_close(fixtures);
	shared_end(shared);
}

/* ---- Cards ---------------------------------------------------------------------------------- */

static void try_wrong_byte(struct fixture *to, size_t at)
{
	struct fixture from;
	struct rd_link *link;

	if (!fixture_listen(&from, to->shared, "shm", 1, &shape))
		return;
	to->card[at] ^= 0x40;
	if (from.transport->open(from.endpoint, 0, 0, to->card, to->card_size, &link) == 0)
		for (int i = 0; i < 20; i++) {
			fixture_advance(to);
			fixture_advance(&from);
			ok(to, !link->ready, "a link in spite of byte %zu", at);
		}
	to->card[at] ^= 0x40;
	fixture_close(&from);
}

Test(shm, a_card_with_one_wrong_byte_makes_no_link, .timeout = 60)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[2] = { 0 };
	struct fixture *to = &fixtures[0], *from = &fixtures[1];

	if (fixture_listen(to, shared, "shm", 0, &shape) &&
		fixture_listen(from, shared, "shm", 1, &shape) &&
		fixture_open(to, 1, from->card, from->card_size)) {
		for (size_t at = 0; at < to->card_size; at++)
			try_wrong_byte(to, at);
		/* The right card still makes a link. */
		to->all_count = 2;
		if (fixture_open(from, 0, to->card, to->card_size))
			fixture_until_ready(to);
	}
	to->all_count = 2;
	fixtures_close(fixtures);
	shared_end(shared);
}
