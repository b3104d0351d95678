/* Transports that promise to reach and do not: their pairs take the next one, on both sides. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "transports/transports.h"
#include "captured_stderr.h"
#include "variants.h"
#include "world.h"

/* ---- Transports that break their promise --------------------------------------------------- */

enum fault {
	OPEN_FAILS,
	NEVER_READY,
	BREAKS,
	SWALLOWS, /* what is sent never comes */
	GARBLES, /* something else comes */
};

static enum fault fault;
static int faulty_rank =
	-1; /* the fault shows there only, the other ranks see silence; -1: on all */

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

static int broken_reach(const struct rd_place *here, const struct rd_place *there)
{
	(void)here, (void)there;
	return 1;
}

static int listen_as(const struct rd_transport *transport, struct rd_endpoint **result,
	const struct rd_local *local, size_t *card_size)
{
	struct broken_endpoint *endpoint = calloc(1, sizeof(*endpoint));

	endpoint->base.transport = transport;
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
		.abi = RD_TRANSPORT_ABI, .name = (name_), .reach = broken_reach, \
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

/* ---- One that carries short messages only -------------------------------------------------- */

static size_t width;
static struct rd_transport narrow;

static int narrow_open(struct rd_endpoint *endpoint, int peer, int channel,
	const unsigned char *card, size_t card_size, struct rd_link **link)
{
	int err = rd_transport_shm.open(endpoint, peer, channel, card, card_size, link);

	if (!err)
		(*link)->transport = &narrow;
	return err;
}

static int narrow_listen(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	static struct rd_settings settings;
	static struct rd_local own;
	int err;

	if (local->rank > 1)
		return rd_fail(RONDO_UNSUPPORTED, "not on this rank");
	settings = *local->settings;
	settings.piece_size = width;
	own = *local;
	own.settings = &settings;
	err = rd_transport_shm.listen(result, &own, card, card_size);
	if (!err)
		(*result)->transport = &narrow;
	return err;
}

/* It is shm with pieces of its own, between ranks 0 and 1. */
static void add_narrow(size_t bytes)
{
	width = bytes;
	narrow = rd_transport_shm;
	narrow.name = "narrow";
	narrow.reach = broken_reach;
	narrow.listen = narrow_listen;
	narrow.open = narrow_open;
	cr_assert_eq(rd_transport_add(&narrow), 0);
}

/* The same with pieces of 128 KiB, which maps no memory. */
static void add_unmapped(void)
{
	add_narrow(128 << 10);
	narrow.offer = NULL;
	narrow.withdraw = NULL;
	narrow.map = NULL;
}

/* ---- One whose rank 1 does not run for a while ---------------------------------------------- */

#define LATE_MS 3000

static struct rd_transport late;

static int late_open(struct rd_endpoint *endpoint, int peer, int channel, const unsigned char *card,
	size_t card_size, struct rd_link **link)
{
	int err;

	/* Ranks are processes of the test. */
	if (peer == 0)
		usleep(LATE_MS * 1000);
	err = rd_transport_shm.open(endpoint, peer, channel, card, card_size, link);
	if (!err)
		(*link)->transport = &late;
	return err;
}

static int late_listen(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	int err = rd_transport_shm.listen(result, local, card, card_size);

	if (!err)
		(*result)->transport = &late;
	return err;
}

static void add_late(void)
{
	late = rd_transport_shm;
	late.name = "late";
	late.reach = broken_reach;
	late.listen = late_listen;
	late.open = late_open;
	cr_assert_eq(rd_transport_add(&late), 0);
}

/* ---- Two that cost alike, which the ranks have in different order --------------------------- */

static struct rd_transport twins[2], opener;

static int twin_listen(int twin, struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	int err = rd_transport_shm.listen(result, local, card, card_size);

	if (!err)
		(*result)->transport = &twins[twin];
	return err;
}

static int listen_castor(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	return twin_listen(0, result, local, card, card_size);
}

static int listen_pollux(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	return twin_listen(1, result, local, card, card_size);
}

static int twin_open(struct rd_endpoint *endpoint, int peer, int channel, const unsigned char *card,
	size_t card_size, struct rd_link **link)
{
	int err = rd_transport_shm.open(endpoint, peer, channel, card, card_size, link);

	if (!err)
		(*link)->transport = endpoint->transport;
	return err;
}

/* The ranks go over the table of transports from its beginning, and this is in it: each has the
   twins behind it, in its own order. */
static int add_twins(const struct rd_settings *settings)
{
	int err = rd_transport_add(&twins[settings->rank & 1]);

	if (!err)
		err = rd_transport_add(&twins[!(settings->rank & 1)]);
	return err ? err : rd_fail(RONDO_UNSUPPORTED, "it adds others");
}

static void add_opener(void)
{
	for (int i = 0; i < 2; i++) {
		twins[i] = rd_transport_shm;
		twins[i].name = i == 0 ? "castor" : "pollux";
		twins[i].reach = broken_reach;
		twins[i].listen = i == 0 ? listen_castor : listen_pollux;
		twins[i].open = twin_open;
	}
	opener = rd_transport_shm;
	opener.name = "opener";
	opener.probe = add_twins;
	cr_assert_eq(rd_transport_add(&opener), 0);
}

/* ---- Worlds with them ---------------------------------------------------------------------- */

static int sum_up(struct rank_env *env)
{
	int64_t number = env->rank + 1, wanted = env->size * (env->size + 1) / 2;

	if (env->create_error)
		return world_say(env, "%s", rondo_last_error());
	if (rondo_all_reduce(env->comm, &number, &number, 1, RONDO_I64, RONDO_SUM, NULL))
		return world_say(env, "%s", rondo_last_error());
	return number == wanted ? 0 : world_say(env, "a wrong sum");
}

/* Runs the world; what it wrote to standard error comes back as text. */
static const char *run_world(const struct world *world, int *failed, struct rank_outcome *outcomes)
{
	captured_stderr_begin();
	*failed = world_run(world, sum_up, NULL, outcomes);
	return captured_stderr_end();
}

static void expect_detour(enum fault of, int rank, const char *line)
{
	struct world world = { .size = 2 };
	struct rank_outcome outcomes[WORLD_MAX];
	const char *text;
	int failed;

	fault = of;
	faulty_rank = rank;
	cr_assert_eq(rd_transport_add(&first), 0);
	setenv("RONDO_INIT_TIMEOUT_MS", "8000", 1);
	text = run_world(&world, &failed, outcomes);
	cr_expect_eq(failed, 0, "%s", text);
	cr_expect_eq(captured_stderr_times(text, " WARN "), 1, "%s", text);
	cr_expect(strstr(text, line), "%s", text);
}

Test(routes, a_link_that_cannot_be_opened_gives_way, .timeout = 60)
{
	expect_detour(OPEN_FAILS, -1,
		"[0] RONDO WARN rank 0 and rank 1 do not reach each other over first (rank ");
}

Test(routes, what_one_rank_alone_sees_leads_both_another_way, .timeout = 60)
{
	expect_detour(OPEN_FAILS, 1,
		"[0] RONDO WARN rank 0 and rank 1 do not reach each other over first (rank 1 says: "
		"the driver says no), and go on over shm\n");
}

Test(routes, a_link_that_breaks_gives_way, .timeout = 60)
{
	expect_detour(
		BREAKS, 0, "over first (rank 0 says: fell off the bus), and go on over shm\n");
}

Test(routes, a_link_over_which_something_else_comes_gives_way, .timeout = 60)
{
	expect_detour(GARBLES, 0,
		"over first (rank 0 says: the first message came out wrong), and go on over shm\n");
}

Test(routes, a_link_over_which_nothing_comes_gives_way, .timeout = 60)
{
	expect_detour(
		SWALLOWS, -1, " says: nothing came through within 2000 ms), and go on over shm\n");
}

Test(routes, a_link_that_is_never_ready_gives_way, .timeout = 60)
{
	expect_detour(NEVER_READY, -1,
		" says: nothing came through within 2000 ms), and go on over shm\n");
}

/* Rank 0 waits for longer than it would for a link over which nothing comes. */
Test(routes, a_peer_that_has_not_run_yet_is_waited_for, .timeout = 60)
{
	struct world world = { .size = 2 };
	struct rank_outcome outcomes[WORLD_MAX];
	const char *text;
	int failed;

	add_late();
	setenv("RONDO_INIT_TIMEOUT_MS", "8000", 1);
	text = run_world(&world, &failed, outcomes);
	cr_expect_eq(failed, 0, "%s", text);
	cr_expect_eq(captured_stderr_times(text, " WARN "), 0, "%s", text);
}

Test(routes, of_transports_that_cost_alike_both_of_a_pair_take_the_same, .timeout = 60)
{
	struct world world = { .size = 3 };
	struct rank_outcome outcomes[WORLD_MAX];
	const char *text;
	int failed;

	add_opener();
	text = run_world(&world, &failed, outcomes);
	cr_expect_eq(failed, 0, "%s", text);
	cr_expect_eq(captured_stderr_times(text, " WARN "), 0, "%s", text);
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
	text = run_world(&world, &failed, outcomes);
	cr_expect_eq(failed, 0, "%s", text);
	cr_expect_eq(captured_stderr_times(text, " WARN "), 20, "%s", text);
	cr_expect_eq(captured_stderr_times(text, "over first (rank "), 10, "%s", text);
	cr_expect_eq(captured_stderr_times(text, "and go on over second"), 10, "%s", text);
	cr_expect_eq(captured_stderr_times(text, "over second (rank "), 10, "%s", text);
	cr_expect_eq(captured_stderr_times(text, "and go on over shm"), 10, "%s", text);
}

Test(routes, where_none_is_left_all_that_was_tried_is_named, .timeout = 60)
{
	struct world world = { .size = 2, .transport = "first,second" };
	struct rank_outcome outcomes[WORLD_MAX];
	int failed;

	fault = BREAKS;
	cr_assert_eq(rd_transport_add(&first), 0);
	cr_assert_eq(rd_transport_add(&second), 0);
	run_world(&world, &failed, outcomes);
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
	struct world world = { .size = 4, .channels = 2 };
	struct rank_outcome outcomes[WORLD_MAX];
	const char *text;
	int failed;

	text = run_world(&world, &failed, outcomes);
	cr_expect_eq(failed, 0, "%s", text);
	cr_expect_eq(captured_stderr_times(text, " RONDO "), 0, "%s", text);
}

/* Ranks 0 and 1 have such a link, rank 2 has not: messages must be as long on all. */
static int sum_up_much(struct rank_env *env)
{
	static int32_t numbers[50000];
	size_t count = sizeof(numbers) / sizeof(*numbers);
	struct rondo_way way;

	if (env->create_error)
		return world_say(env, "%s", rondo_last_error());
	for (size_t i = 0; i < count; i++)
		numbers[i] = env->rank + (int32_t)i;
	if (rondo_all_reduce(env->comm, numbers, numbers, count, RONDO_I32, RONDO_SUM, NULL))
		return world_say(env, "%s", rondo_last_error());
	for (size_t i = 0; i < count; i++)
		if (numbers[i] != 3 + 3 * (int32_t)i)
			return world_say(env, "element %zu is %d", i, (int)numbers[i]);
	if (rondo_explain(env->comm, "all_reduce", count, RONDO_I32, 0, &way, 1) < 1 ||
		way.piece_size > width)
		return world_say(env, "pieces of %zu bytes", way.piece_size);
	return 0;
}

Test(routes, the_shortest_message_that_any_link_carries_is_what_all_ranks_send, .timeout = 60)
{
	static const char *const algorithms[] = { "ring", "doubling", "" };
	struct rank_outcome outcomes[WORLD_MAX];

	add_narrow(1024);
	for (int i = 0; i < 3; i++) {
		struct world world = { .size = 3, .timeout_ms = 5000, .algo = algorithms[i] };

		cr_expect_eq(
			world_run(&world, sum_up_much, NULL, outcomes), 0, "%s", outcomes[2].text);
	}
}

Test(routes, a_link_that_carries_next_to_nothing_is_an_error_that_names_it, .timeout = 60)
{
	struct world world = { .size = 3 };
	struct rank_outcome outcomes[WORLD_MAX];
	int failed;

	add_narrow(32);
	run_world(&world, &failed, outcomes);
	cr_expect_eq(failed, 3);
	for (int rank = 0; rank < 3; rank++)
		cr_expect(strstr(outcomes[rank].text,
				  "transport narrow carries messages of 32 bytes"),
			"%s", outcomes[rank].text);
}

/* ---- One pair whose links map no memory ----------------------------------------------------- */

#define UNMAPPED_MOST (100 << 10)

/* Each collective on memory from rondo_mem_alloc(), which all other links map. */
static int call_all(struct rank_env *env)
{
	static const size_t counts[] = { 1, 64, 1000, 1024, 5000, 40000, UNMAPPED_MOST };
	size_t bytes = (size_t)env->size * (UNMAPPED_MOST + 1) * sizeof(float);
	struct memory memory = { NULL, NULL, NULL };
	int wrong = 0;

	if (env->create_error)
		return world_say(env, "%s", rondo_last_error());
	TRY(rondo_mem_alloc((void **)&memory.in, bytes));
	TRY(rondo_mem_alloc((void **)&memory.out, bytes));
	for (int collective = 0; collective < RD_COLLECTIVE_COUNT && !wrong; collective++)
		for (size_t i = 0; i < sizeof(counts) / sizeof(*counts) && !wrong; i++)
			for (int in_place = 0; in_place < 2 && !wrong; in_place++)
				if (collective != RD_TRANSFER)
					wrong = try_call(env, &memory, collective, RONDO_SUM,
						counts[i], in_place, false);
	close_memory(&memory);
	return wrong;
}

Test(routes, one_pair_that_maps_no_memory_keeps_no_call_from_being_right, .timeout = 120)
{
	static const char *const algorithms[] = { "", "two_shot" };
	struct rank_outcome outcomes[WORLD_MAX];

	add_unmapped();
	for (int i = 0; i < 2; i++) {
		struct world world = { .size = 3, .timeout_ms = 20000, .algo = algorithms[i] };

		cr_expect_eq(
			world_run(&world, call_all, NULL, outcomes), 0, "\"%s\"", algorithms[i]);
	}
}

Test(routes, one_pair_that_maps_no_memory_leaves_devices_messages_or_the_host, .timeout = 120)
{
	static const struct way through[] = {
		{ "emulated:3", "auto", false, NULL, RD_KERNEL_MESSAGES },
		{ "emulated:3", "staged", false, NULL, RD_KERNEL_STAGED },
		{ "emulated:3", "stepped", false, NULL, RD_KERNEL_STAGED },
	};

	add_unmapped();
	for (int i = 0; i < 3; i++) {
		struct trial trial = { &through[i], 3, all_collectives, 20000 };

		cr_expect_eq(in_child(run_trial, &trial), 0, "%s", through[i].kernel);
	}
}
