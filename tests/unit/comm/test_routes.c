/* Transports that promise to reach a peer and do not: the pair takes the next one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transports/transports.h"
#include "routes.h"
#include "text.h"

/* ---- Transports that break their promise --------------------------------------------------- */

enum fault {
	OPEN_FAILS,
	NEVER_READY,
	BREAKS,
	SWALLOWS, /* messages never arrive */
	GARBLES, /* other messages arrive */
};

static enum fault fault;
static int faulty_rank = -1; /* the rank with the fault, the others see silence; -1: all */

struct broken_link {
	struct rd_link base;
	unsigned char room[4096];
	struct broken_link *next;
};

struct broken_endpoint {
	struct rd_endpoint base;
	struct broken_link *links;
	enum fault fault;
};

static void *broken_reserve(struct rd_link *base, size_t size)
{
	struct broken_link *link = (struct broken_link *)base;

	return size <= sizeof(link->room) ? link->room : NULL;
}

static void broken_commit(struct rd_link *base, const struct rd_tag *tag, size_t size)
{
	(void)base, (void)tag, (void)size;
}

static bool recv_nothing(struct rd_link *base, void *into, size_t size, struct rd_message *message)
{
	(void)base, (void)into, (void)size, (void)message;
	return false;
}

static bool recv_garbage(struct rd_link *base, void *into, size_t size, struct rd_message *message)
{
	static const struct rd_tag tag;

	(void)into, (void)size;
	*message = (struct rd_message){ ((struct broken_link *)base)->room, 32, &tag };
	return true;
}

static void broken_release(struct rd_link *base)
{
	(void)base;
}

static const struct rd_link_ops swallowing = {
	.reserve = broken_reserve,
	.commit = broken_commit,
	.recv = recv_nothing,
	.release = broken_release,
};

static const struct rd_link_ops garbling = {
	.reserve = broken_reserve,
	.commit = broken_commit,
	.recv = recv_garbage,
	.release = broken_release,
};

static int listen_as(const struct rd_transport *transport, struct rd_endpoint **result,
	const struct rd_local *local, size_t *card_size)
{
	struct broken_endpoint *endpoint = calloc(1, sizeof(*endpoint));

	endpoint->base.transport = transport;
	endpoint->base.message_max = sizeof(((struct broken_link *)NULL)->room);
	endpoint->fault = faulty_rank < 0 || faulty_rank == local->rank ? fault : SWALLOWS;
	*card_size = 0;
	*result = &endpoint->base;
	return 0;
}

static int broken_open(struct rd_endpoint *base, int peer, int channel, const unsigned char *card,
	size_t card_size, struct rd_link **result)
{
	struct broken_endpoint *endpoint = (struct broken_endpoint *)base;
	struct broken_link *link;

	(void)card, (void)card_size;
	if (endpoint->fault == OPEN_FAILS)
		return rd_fail(RONDO_SYSTEM, "the driver says no");
	link = calloc(1, sizeof(*link));
	link->base = (struct rd_link){
		.ops = endpoint->fault == GARBLES ? &garbling : &swallowing,
		.transport = base->transport,
		.peer = peer,
		.channel = channel,
		.ready = endpoint->fault != NEVER_READY,
		.message_max = sizeof(link->room),
	};
	link->next = endpoint->links;
	endpoint->links = link;
	*result = &link->base;
	return 0;
}

static bool broken_advance(struct rd_endpoint *base)
{
	struct broken_endpoint *endpoint = (struct broken_endpoint *)base;

	for (struct broken_link *link = endpoint->links; link; link = link->next) {
		if (endpoint->fault != BREAKS || link->base.error)
			continue;
		link->base.error = RONDO_BROKEN;
		snprintf(link->base.reason, sizeof(link->base.reason), "fell off the bus");
	}
	return false;
}

static void broken_close(struct rd_endpoint *base)
{
	struct broken_endpoint *endpoint = (struct broken_endpoint *)base;

	while (endpoint->links) {
		struct broken_link *next = endpoint->links->next;

		free(endpoint->links);
		endpoint->links = next;
	}
	free(endpoint);
}

static int listen_first(struct rd_endpoint **, const struct rd_local *, unsigned char *, size_t *);
static int listen_second(struct rd_endpoint **, const struct rd_local *, unsigned char *, size_t *);

#define BROKEN(name_, listen_) \
	{ \
		.abi = RD_TRANSPORT_ABI, .name = (name_), .reach = routes_reach, \
		.listen = (listen_), .open = broken_open, .advance = broken_advance, \
		.close = broken_close, \
	}

static const struct rd_transport first = BROKEN("first", listen_first);
static const struct rd_transport second = BROKEN("second", listen_second);

static int listen_first(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	(void)card;
	return listen_as(&first, result, local, card_size);
}

static int listen_second(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	(void)card;
	return listen_as(&second, result, local, card_size);
}

/* ---- Fallbacks ------------------------------------------------------------------------------- */

static void expect_fallback(enum fault of, int rank, const char *line)
{
	struct world world = { .size = 2 };
	struct rank_outcome outcomes[WORLD_MAX];
	const char *text;
	int failed;

	fault = of;
	faulty_rank = rank;
	cr_assert_eq(rd_transport_add(&first), 0);
	setenv("RONDO_INIT_TIMEOUT_MS", "8000", 1);
	text = routes_run(&world, &failed, outcomes);
	cr_expect_eq(failed, 0, "%s", text);
	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect(strstr(text, line), "%s", text);
}

Test(routes, a_link_that_cannot_be_opened_gives_way, .timeout = 60)
{
	expect_fallback(OPEN_FAILS, -1,
		"[0] RONDO WARN rank 0 and rank 1 do not reach each other over first (rank ");
}

Test(routes, what_one_rank_alone_sees_leads_both_another_way, .timeout = 60)
{
	expect_fallback(OPEN_FAILS, 1,
		"[0] RONDO WARN rank 0 and rank 1 do not reach each other over first (rank 1 says: "
		"the driver says no), and go on over shm\n");
}

Test(routes, a_link_that_breaks_gives_way, .timeout = 60)
{
	expect_fallback(
		BREAKS, 0, "over first (rank 0 says: fell off the bus), and go on over shm\n");
}

Test(routes, a_link_over_which_something_else_comes_gives_way, .timeout = 60)
{
	expect_fallback(GARBLES, 0,
		"over first (rank 0 says: the first message came out wrong), and go on over shm\n");
}

/* A peer that is stopped is silent, too: no pair moves for it. */
static void expect_silence(enum fault of)
{
	struct world world = { .size = 2 };
	struct rank_outcome outcomes[WORLD_MAX];
	const char *text;
	int failed;

	fault = of;
	faulty_rank = -1;
	cr_assert_eq(rd_transport_add(&first), 0);
	setenv("RONDO_INIT_TIMEOUT_MS", "1000", 1);
	text = routes_run(&world, &failed, outcomes);
	cr_expect_eq(failed, 2, "%s", text);
	for (int rank = 0; rank < 2; rank++)
		cr_expect(strstr(outcomes[rank].text, "for its link to rank "), "%s",
			outcomes[rank].text);
}

Test(routes, a_link_over_which_nothing_comes_is_waited_for, .timeout = 60)
{
	expect_silence(SWALLOWS);
}

Test(routes, a_link_that_is_never_ready_is_waited_for, .timeout = 60)
{
	expect_silence(NEVER_READY);
}

Test(routes, each_pair_says_so_once_however_many_there_are, .timeout = 60)
{
	struct world world = { .size = 5, .channels = 2 };
	struct rank_outcome outcomes[WORLD_MAX];
	const char *text;
	int failed;

	fault = BREAKS;
	cr_assert_eq(rd_transport_add(&first), 0);
	cr_assert_eq(rd_transport_add(&second), 0);
	text = routes_run(&world, &failed, outcomes);
	cr_expect_eq(failed, 0, "%s", text);
	cr_expect_eq(warnings_of(text), 20, "%s", text);
	cr_expect_eq(count_of(text, "over first (rank "), 10, "%s", text);
	cr_expect_eq(count_of(text, "and go on over second"), 10, "%s", text);
	cr_expect_eq(count_of(text, "over second (rank "), 10, "%s", text);
	cr_expect_eq(count_of(text, "and go on over shm"), 10, "%s", text);
}

Test(routes, where_none_is_left_all_that_was_tried_is_named, .timeout = 60)
{
	struct world world = { .size = 2, .transport = "first,second" };
	struct rank_outcome outcomes[WORLD_MAX];
	int failed;

	fault = BREAKS;
	cr_assert_eq(rd_transport_add(&first), 0);
	cr_assert_eq(rd_transport_add(&second), 0);
	routes_run(&world, &failed, outcomes);
	cr_assert_eq(failed, 2);
	for (int rank = 0; rank < 2; rank++) {
		cr_expect(strstr(outcomes[rank].text, "cannot connect to rank"), "%s",
			outcomes[rank].text);
		cr_expect(strstr(outcomes[rank].text, "rank 0 (host "), "%s", outcomes[rank].text);
		cr_expect(strstr(outcomes[rank].text, "rank 1 (host "), "%s", outcomes[rank].text);
		cr_expect(
			strstr(outcomes[rank].text,
				"over second: fell off the bus; nor over first: fell off the bus"),
			"%s", outcomes[rank].text);
	}
	cr_expect_str_eq(outcomes[0].text, outcomes[1].text);
}

Test(routes, a_healthy_world_warns_of_nothing, .timeout = 60)
{
	routes_expect_none(&(struct world){ .size = 4, .channels = 2 }, " RONDO ");
}
