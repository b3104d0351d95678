#include "check/speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "rondo.h"
#include "transports/contract/fixture.h"

#define SHORT 8
#define LONG (1 << 20)
#define ALIGNMENT 4096
#define PINGS_MAX 2000
#define PINGS_WARM 100
#define PINGS_NS 1000000000 /* the longest that pings take together */
#define ROUNDS 9
#define ROUND_NS 200000000 /* the least that a round of long messages takes */
#define STREAM_MAX (1 << 20) /* messages of a round */
/* Polls in vain, before a side sleeps. A round trip is shorter; a message of a stream is not, and
   one that polls would keep a core from the kernel's part of the transport. */
#define POLLS_SHORT 100000
#define POLLS_LONG 512
#define SLEEP_MS 100 /* the longest sleep before a look at the deadline */

/* A message's kind, in the first byte of its tag. */
enum { DATA, ASKS, LAST };

char *speed_text;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t median(int64_t *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_value);
	return values[count / 2];
}

/* ---- Messages. A side polls, then sleeps, as a rank does. ---- */

struct side {
	struct fixture *fixture;
	struct rd_link *link;
	int polls_most; /* before it sleeps */
	int polls; /* since the last message */
	bool armed; /* the next wait sleeps */
	uint64_t deadline_ms;
};

static void disarm(struct side *side)
{
	const struct rd_transport *transport = side->fixture->transport;

	if (side->armed && transport->disarm)
		transport->disarm(side->fixture->endpoint);
	side->armed = false;
}

static void end_wait(struct side *side)
{
	disarm(side);
	side->polls = 0;
}

/* Arms, for the caller to look once more; then sleeps. */
static void doze(struct side *side)
{
	struct fixture *fixture = side->fixture;
	struct epoll_event event;

	if (side->armed) {
		epoll_wait(fixture->local.epoll_fd, &event, 1, SLEEP_MS);
		disarm(side);
		return;
	}
	if (fixture->transport->arm)
		fixture->transport->arm(fixture->endpoint);
	side->armed = true;
}

/* False: a failure has been recorded. */
static bool wait_again(struct side *side)
{
	struct fixture *fixture = side->fixture;

	if (++side->polls >= side->polls_most) {
		if (side->polls == side->polls_most)
			side->deadline_ms = now_ms() + (uint64_t)fixture_wait_ms;
		doze(side);
		if (failed(fixture) ||
			!ok(fixture, side->link->error == 0, "the link: %s", side->link->reason) ||
			!ok(fixture, now_ms() < side->deadline_ms,
				"waited in vain for the other process"))
			return false;
	}
	fixture->transport->advance(fixture->endpoint);
	return true;
}

static bool try_to_send(
	struct rd_link *link, const struct rd_tag *tag, const void *from, size_t size)
{
	if (link->ops->send && size >= link->send_min && size > SHORT)
		return link->ops->send(link, tag, from, size);

	void *room = link->ops->reserve(link, size);

	if (!room)
		return false;
	memcpy(room, from, size);
	link->ops->commit(link, tag, size);
	return true;
}

static bool send_message(struct side *side, int kind, const void *from, size_t size)
{
	struct rd_tag tag = { { (unsigned char)kind } };

	while (!try_to_send(side->link, &tag, from, size))
		if (!wait_again(side))
			return false;
	end_wait(side);
	return true;
}

/* Its kind; -1: a failure has been recorded. */
static int receive_message(struct side *side, size_t expected)
{
	const struct rd_link_ops *ops = side->link->ops;
	struct rd_message message;

	while (!ops->recv(side->link, NULL, expected, &message))
		if (!wait_again(side))
			return -1;
	end_wait(side);

	int kind = message.tag->bytes[0];

	ops->release(side->link);
	return kind;
}

static bool ask(struct side *side, const void *from, size_t size)
{
	return send_message(side, ASKS, from, size) && receive_message(side, SHORT) >= 0;
}

/* Rank 1: takes messages, and answers those that ask. */
static void answer(struct fixture *fixture, struct rd_link **links, size_t expected, int polls_most)
{
	struct side side = { .fixture = fixture, .link = links[0], .polls_most = polls_most };
	const char pong[SHORT] = "";
	int kind;

	while ((kind = receive_message(&side, expected)) == DATA || kind == ASKS)
		if (kind == ASKS && !send_message(&side, ASKS, pong, SHORT))
			return;
}

/* ---- Latency ---- */

static void ping(struct fixture *fixture, struct rd_link **links)
{
	static int64_t times[PINGS_MAX];
	struct side side = { .fixture = fixture, .link = links[0], .polls_most = POLLS_SHORT };
	const char text[SHORT] = "";
	int count = 0;

	for (int i = 0; i < PINGS_WARM; i++)
		if (!ask(&side, text, SHORT))
			return;
	for (int64_t end = now_ns() + PINGS_NS, now = 0; count < PINGS_MAX && now < end; count++) {
		int64_t begin = now_ns();

		if (!ask(&side, text, SHORT))
			return;
		now = now_ns();
		times[count] = now - begin;
	}
	send_message(&side, LAST, text, SHORT);
	snprintf(speed_text, SPEED_TEXT, "%.2f us one way, %d bytes; median of %d",
		(double)median(times, count) / 2e3, SHORT, count);
}

static void pong(struct fixture *fixture, struct rd_link **links)
{
	answer(fixture, links, SHORT, POLLS_SHORT);
}

static void measure_latency(const char *transport)
{
	fixture_pair(transport, &shape_small, PROCESSES, ping, pong);
}

/* ---- Bandwidth ---- */

static const struct shape shape_long = { .size = 2, .channels = 1, .slots = 4, .piece = LONG };

/* The duration of `count` messages, until the last has arrived; -1: a failure. */
static int64_t stream_round(struct side *side, const void *memory, size_t size, int count)
{
	int64_t begin = now_ns();

	for (int i = 1; i < count; i++)
		if (!send_message(side, DATA, memory, size))
			return -1;
	return ask(side, memory, size) ? now_ns() - begin : -1;
}

static void stream(struct side *side, const void *memory, size_t size)
{
	int64_t times[ROUNDS];
	int count = 1;

	while ((times[0] = stream_round(side, memory, size, count)) < ROUND_NS &&
		count < STREAM_MAX)
		if (times[0] < 0)
			return;
		else
			count *= 2;
	for (int i = 0; i < ROUNDS; i++)
		if ((times[i] = stream_round(side, memory, size, count)) < 0)
			return;
	send_message(side, LAST, memory, SHORT);
	/* The memory stays until no message needs it. */
	while (side->link->sent != side->link->posted)
		if (!wait_again(side))
			return;
	end_wait(side);
	snprintf(speed_text, SPEED_TEXT, "%.4g GB/s, %zu bytes each; median of %d rounds",
		(double)size * count / (double)median(times, ROUNDS), size, ROUNDS);
}

/* Lets the links move messages from this memory with no copy, where the transport can. */
static bool attach(struct fixture *fixture, void *memory, size_t size)
{
	const struct rd_transport *transport = fixture->transport;
	const struct rd_registration registration = {
		.id = 1, .base = memory, .size = size, .dmabuf_fd = -1
	};

	return !transport->attach ||
	       ok(fixture, transport->attach(fixture->endpoint, &registration) == 0, "attach: %s",
		       rondo_last_error());
}

static void stream_out(struct fixture *fixture, struct rd_link **links)
{
	struct side side = { .fixture = fixture, .link = links[0], .polls_most = POLLS_LONG };
	size_t size = fixture_fit(fixture, LONG);
	void *memory = aligned_alloc(ALIGNMENT, LONG);

	if (!ok(fixture, memory != NULL, "no memory"))
		return;
	memset(memory, 1, LONG);
	if (attach(fixture, memory, LONG)) {
		stream(&side, memory, size);
		if (fixture->transport->detach)
			fixture->transport->detach(fixture->endpoint, 1);
	}
	free(memory);
}

static void stream_in(struct fixture *fixture, struct rd_link **links)
{
	answer(fixture, links, fixture_fit(fixture, LONG), POLLS_LONG);
}

static void measure_bandwidth(const char *transport)
{
	fixture_pair(transport, &shape_long, PROCESSES, stream_out, stream_in);
}

const struct contract_case speed_cases[] = {
	{ "latency", CONTRACT_PEER, measure_latency },
	{ "bandwidth", CONTRACT_PEER, measure_bandwidth },
	{ 0 },
};
