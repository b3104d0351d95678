/* ctest label: threads */
/*
 * The bytes of tcp. transports/contract tests what all transports must do.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "transports/contract/leaks.h"
#include "filter.h"
#include "tcp/fakes.h"
#include "transports/tcp/stream.h"

Test(tcp, an_expected_message_lands_in_place, .timeout = 60)
{
	static const size_t sizes[] = { 0, 1, 100, 4095, 4096, 4097, 8192, 50000, PIECE };
	unsigned char *into = malloc(PIECE);
	struct pair pair;

	pair_open(&pair, "127.0.0.1");
	for (unsigned key = 0; key < 90; key++) {
		size_t size = sizes[key % 9];
		struct rd_message message;

		/* Before it comes, or after. */
		if (key & 1)
			cr_assert(!pair.one.link->ops->recv(pair.one.link, into, size, &message));
		cr_assert(try_send(pair.zero.link, key, size));
		cr_assert_eq(rank_recv(&pair.one, key, size, into, size), into, "%zu bytes", size);
	}
	/* A message of another size than expected is returned in the buffer of the link. */
	for (unsigned key = 0; key < 90; key++) {
		cr_assert(try_send(pair.zero.link, key, 8));
		cr_assert(try_send(pair.zero.link, key + 1, 777));
		cr_assert(try_send(pair.zero.link, key + 2, 10000));
		cr_assert_neq(rank_recv(&pair.one, key, 8, into, sizes[key % 9]), into);
		cr_assert_neq(rank_recv(&pair.one, key + 1, 777, into, sizes[key % 9]), into);
		cr_assert_eq(rank_recv(&pair.one, key + 2, 10000, into, 10000), into);
	}
	pair_close(&pair);
	free(into);
}

/* Sends a row from `memory`; all but the last announce another. Returns how many have left. */
static uint64_t send_row(struct rd_link *link, const unsigned char *memory, unsigned count)
{
	uint64_t before = link->sent;

	for (unsigned key = 0; key < count; key++) {
		struct rd_tag tag = tag_of(key);

		link->more = key + 1 < count;
		cr_assert(link->ops->send(link, &tag, memory + key * PIECE, PIECE));
		if (key + 1 < count && key + 1 < RD_TCP_STREAM_ROW)
			cr_assert_eq(link->sent, before, "message %u did not wait", key);
	}
	return link->sent - before;
}

Test(tcp, messages_that_announce_another_leave_together, .timeout = 60)
{
	enum { MOST = RD_TCP_STREAM_ROW + 1 };
	unsigned char *memory = malloc((size_t)MOST * PIECE);
	struct rd_tag tag = tag_of(0);
	struct pair pair;

	pair_open(&pair, "127.0.0.1");
	for (unsigned key = 0; key < MOST; key++)
		fill_bytes(memory + key * PIECE, PIECE, key);
	for (unsigned count = 1; count <= MOST; count++) {
		cr_assert_eq(send_row(pair.zero.link, memory, count), count);
		for (unsigned key = 0; key < count; key++)
			rank_recv(&pair.one, key, PIECE, NULL, PIECE);
	}

	/* None follows: the next advance() sends it. */
	pair.zero.link->more = true;
	cr_assert(pair.zero.link->ops->send(pair.zero.link, &tag, memory, PIECE));
	cr_assert(pair.zero.link->unsent && pair.zero.link->sent < pair.zero.link->posted);
	rank_advance(&pair.zero);
	cr_assert(!pair.zero.link->unsent && pair.zero.link->sent == pair.zero.link->posted);
	rank_recv(&pair.one, 0, PIECE, NULL, PIECE);
	pair_close(&pair);
	free(memory);
}

/* A random number below `bound`, the same in each run of the test. */
static unsigned draw(unsigned *state, unsigned bound)
{
	*state = *state * 1103515245 + 12345;
	return (*state >> 8) % bound;
}

static size_t draw_size(unsigned *state)
{
	switch (draw(state, 4)) {
	case 0:
		return draw(state, 20);
	case 1:
		return draw(state, 200) * 8;
	case 2:
		return draw(state, PIECE + 1);
	default:
		return 4096 - 40 + draw(state, 80);
	}
}

/* Some thousand messages in one stream, cut anywhere, received with and without a place. */
Test(tcp, a_stream_may_be_cut_anywhere, .timeout = 120)
{
	enum { MESSAGES = 1500 };
	unsigned state = 1, choice = 99;
	unsigned char *stream = malloc((size_t)MESSAGES * (PIECE + 32)), *into = malloc(PIECE);
	size_t *sizes = malloc(MESSAGES * sizeof(*sizes)), total = 0, sent = 0;
	struct staged staged;

	for (unsigned i = 0; i < MESSAGES; i++) {
		sizes[i] = draw_size(&state);
		total += fake_message(stream + total, i, i, sizes[i]);
	}
	staged_open(&staged);
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct rd_link *link = staged.rank.link;
		unsigned way = draw(&choice, 4);
		size_t wanted = way == 1 ? draw_size(&choice) : sizes[i];
		unsigned char *place = way == 0 ? NULL : into;
		struct rd_message message;

		while (!link->ops->recv(link, place, wanted, &message)) {
			size_t part = draw(&choice, 3) ? draw(&choice, 70) : draw(&choice, 9000);
			ssize_t got;

			cr_assert_eq(link->error, 0, "%s", link->reason);
			if (part > total - sent)
				part = total - sent;
			got = send(staged.fd, stream + sent, part, MSG_DONTWAIT);
			sent += got > 0 ? (size_t)got : 0;
		}
		rank_recv(&staged.rank, i, sizes[i], place, wanted);
		cr_assert_eq(message.data == into, place && wanted == sizes[i]);
	}
	cr_assert(!rank_has_message(&staged.rank));
	staged_close(&staged);
	free(stream);
	free(into);
	free(sizes);
}

/* Sends and commits by turns into a small socket, whose reader receives odd amounts. Some sends
   announce another, and not all of those keep their word. */
Test(tcp, a_slow_reader_gets_every_byte, .timeout = 120)
{
	enum { MESSAGES = 300 };
	unsigned char *memory = malloc(MESSAGES * 7000), bite[4096], *expected = malloc(8000);
	unsigned posted = 0, taken = 0, state = 5;
	size_t have = 0, due = 0;
	struct staged staged;
	struct rd_link *link;
	int small = 4096;
	bool was_full = false;

	staged_open(&staged);
	link = staged.rank.link;
	setsockopt(fake_peer(staged.fd), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	while (taken < MESSAGES) {
		ssize_t got;

		while (posted < MESSAGES) {
			size_t size = posted * 23 % 7000;
			struct rd_tag tag = tag_of(posted);

			fill_bytes(memory + posted * 7000, size, posted);
			link->more = draw(&state, 4) > 0;
			if (posted % 3 == 0 ? !try_send(link, posted, size)
					    : !link->ops->send(
						      link, &tag, memory + posted * 7000, size)) {
				was_full = true;
				break;
			}
			posted++;
		}
		rank_advance(&staged.rank);
		got = recv(staged.fd, bite, 1 + draw(&state, sizeof(bite)), MSG_DONTWAIT);
		for (ssize_t i = 0; i < got; i++) {
			if (due == 0)
				due = fake_message(expected, taken, taken, taken * 23 % 7000);
			cr_assert_eq(bite[i], expected[have], "message %u byte %zu", taken, have);
			if (++have == due)
				taken++, have = due = 0;
		}
		cr_assert(link->sent <= link->posted);
	}
	cr_assert(was_full);
	cr_assert_eq(link->posted, MESSAGES - MESSAGES / 3);
	cr_assert_eq(link->sent, link->posted);
	staged_close(&staged);
	free(memory);
	free(expected);
}

static void *read_slowly(void *argument)
{
	struct rank *rank = argument;
	struct rd_message message;
	uintptr_t taken = 0;
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (now_ms() < deadline && !rank->link->error) {
		rank_advance(rank);
		if (!rank->link->ops->recv(rank->link, NULL, 0, &message))
			continue;
		if (intact(message.data, message.size, taken) != message.size)
			break;
		taken++;
		rank->link->ops->release(rank->link);
	}
	return (void *)taken;
}

/* Sends until neither the link nor its socket takes more. */
static void fill(struct rank *rank)
{
	for (int full = 0; full < 100; full++) {
		while (try_send(rank->link, 1, PIECE))
			;
		rank_advance(rank);
	}
}

Test(tcp, closing_waits_for_a_reader, .timeout = 60)
{
	struct pair pair;
	pthread_t thread;
	void *taken;
	unsigned sent = 0;

	pair_open(&pair, "127.0.0.1");
	for (int full = 0; full < 100; full++) {
		while (try_send(pair.zero.link, sent, PIECE))
			sent++;
		rank_advance(&pair.zero);
	}
	/* A message that rank 0 never reads must not reset the connection. */
	cr_assert(try_send(pair.one.link, 0, 100));
	cr_assert_eq(pthread_create(&thread, NULL, read_slowly, &pair.one), 0);
	rank_close(&pair.zero);
	pthread_join(thread, &taken);
	cr_assert_eq((uintptr_t)taken, sent, "%lu of %u", (unsigned long)(uintptr_t)taken, sent);
	cr_assert_eq(pair.one.link->error, RONDO_BROKEN);
	cr_assert_str_eq(pair.one.link->reason, "closed its connection");
	rank_close(&pair.one);
}

Test(tcp, closing_waits_a_bounded_time_for_a_peer_that_does_not_read, .timeout = 60)
{
	struct pair pair;

	pair_open(&pair, "127.0.0.1");
	fill(&pair.zero);
	rank_close(&pair.zero);
	rank_close(&pair.one);
}

static _Atomic int sleeps; /* calls of epoll_wait() */

static int count_sleep(const struct watched_call *call)
{
	(void)call;
	sleeps++;
	return 0;
}

/* A child of the program holds all sockets, so that closing them removes none from the epoll. */
static pid_t fork_holder(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

/* To a peer that takes a few KiB at most, and never reads. */
static void close_among_strangers(bool forked)
{
	struct staged staged;
	pid_t child = 0;
	int fd, before, size = 4096;

	staged_open(&staged);
	cr_assert_eq(setsockopt(staged.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	before = contract_open_files();
	fd = fake_connect(&staged.rank);
	AWAIT(contract_open_files() == before + 2, rank_advance(&staged.rank));
	fill(&staged.rank);
	if (forked)
		child = fork_holder();
	fake_write(fd, "r", 1);
	sleeps = 0;
	rank_close(&staged.rank);
	/* It waits for the peer, and an event that stays does not wake it again and again. */
	cr_assert(sleeps > 0 && sleeps < 20, "%d sleeps", sleeps);
	if (child) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	close(fd);
	close(staged.fd);
	close(staged.listener);
}

Test(tcp, closing_sleeps_though_a_stranger_has_sent_bytes, .timeout = 60)
{
	if (!watch_calls(FILTER_EPOLL_WAIT, count_sleep))
		cr_skip_test("system calls cannot be watched here");
	close_among_strangers(false);
	close_among_strangers(true);
}

/* Although the caller expects more, and the socket holds more. */
Test(tcp, no_more_is_read_than_there_is_room_for, .timeout = 60)
{
	enum { LEAST = 4096, MESSAGES = 8 };
	struct rd_message message;
	struct pair pair;

	pair_open_for(&pair, "127.0.0.1", LEAST);
	for (unsigned key = 0; key < MESSAGES; key++)
		cr_assert(try_send(pair.one.link, key, LEAST));
	for (unsigned key = 0; key < MESSAGES; key++) {
		AWAIT(pair.zero.link->ops->recv(pair.zero.link, NULL, 64 * LEAST, &message),
			rank_advance(&pair.one));
		cr_assert_eq(message.size, LEAST);
		cr_assert(intact(message.data, LEAST, key) == LEAST);
		pair.zero.link->ops->release(pair.zero.link);
	}
	pair_close(&pair);
}

struct runner {
	struct rank *rank;
	bool fine;
};

/* Sends 500 large messages and receives as many. */
static void *exchange(void *argument)
{
	struct runner *runner = argument;
	struct rd_link *link = runner->rank->link;
	unsigned char *memory = malloc(PIECE), *into = malloc(PIECE);
	struct rd_tag tag = { 0 };
	struct rd_message message;
	unsigned sent = 0, taken = 0;

	fill_bytes(memory, PIECE, 3);
	while ((sent < 500 || taken < 500 || link->sent < link->posted) && !link->error) {
		if (sent < 500 && link->ops->send(link, &tag, memory, PIECE - sent % 2))
			sent++;
		if (link->ops->recv(link, taken % 3 ? into : NULL, PIECE - taken % 2, &message)) {
			if (message.size != PIECE - taken % 2 ||
				intact(message.data, message.size, 3) != message.size)
				break;
			taken++;
			link->ops->release(link);
		}
		rank_advance(runner->rank);
	}
	runner->fine = sent == 500 && taken == 500;
	free(memory);
	free(into);
	return NULL;
}

Test(tcp, two_threads_send_both_ways, .timeout = 120)
{
	struct pair pair;
	struct runner zero = { &pair.zero, false }, one = { &pair.one, false };
	pthread_t thread;

	pair_open(&pair, "127.0.0.1");
	cr_assert_eq(pthread_create(&thread, NULL, exchange, &one), 0);
	exchange(&zero);
	pthread_join(thread, NULL);
	cr_assert(zero.fine && one.fine, "%s | %s", pair.zero.link->reason, pair.one.link->reason);
	pair_close(&pair);
}
