/* Transports that are shm with one difference: short messages, no mapping, a rank that is late, two
   of one price. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "routes.h"
#include "gpus.h"
#include "variants.h"

/* ---- shm by another name ------------------------------------------------------------------- */

/* Its listen() ends in routes_listen(). */
static void rename_shm(struct rd_transport *transport, const char *name,
	int (*listen)(struct rd_endpoint **, const struct rd_local *, unsigned char *, size_t *))
{
	*transport = rd_transport_shm;
	transport->name = name;
	transport->reach = routes_reach;
	transport->listen = listen;
	transport->open = routes_open;
}

/* ---- Short messages, between ranks 0 and 1 only -------------------------------------------- */

static size_t width;
static struct rd_transport narrow;

static int narrow_listen(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	static struct rd_settings settings;
	static struct rd_local own;

	if (local->rank > 1)
		return rd_fail(RONDO_UNSUPPORTED, "not on this rank");
	settings = *local->settings;
	settings.piece_size = width;
	own = *local;
	own.settings = &settings;
	return routes_listen(&narrow, result, &own, card, card_size);
}

static void add_narrow(size_t bytes)
{
	width = bytes;
	rename_shm(&narrow, "narrow", narrow_listen);
	cr_assert_eq(rd_transport_add(&narrow), 0);
}

/* Only ranks 0 and 1 have this link: messages must have one length on all ranks. */
static int sum_up_much(struct rank_env *env)
{
	static int32_t numbers[50000];
	size_t count = sizeof(numbers) / sizeof(*numbers);
	struct rondo_way way;

	TRY(env->create_error);
	for (size_t i = 0; i < count; i++)
		numbers[i] = env->rank + (int32_t)i;
	if (rondo_all_reduce(env->comm, numbers, numbers, count, RONDO_I32, RONDO_SUM, NULL))
		return world_report(env, "%s", rondo_last_error());
	for (size_t i = 0; i < count; i++)
		if (numbers[i] != 3 + 3 * (int32_t)i)
			return world_report(env, "element %zu is %d", i, (int)numbers[i]);
	if (rondo_explain(env->comm, "all_reduce", count, RONDO_I32, 0, &way, 1) < 1 ||
		way.piece_size > width)
		return world_report(env, "pieces of %zu bytes", way.piece_size);
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
	routes_run(&world, &failed, outcomes);
	cr_expect_eq(failed, 3);
	for (int rank = 0; rank < 3; rank++)
		cr_expect(strstr(outcomes[rank].text,
				  "transport narrow carries messages of 32 bytes"),
			"%s", outcomes[rank].text);
}

/* ---- One pair whose links map no memory ----------------------------------------------------- */

/* narrow with pieces of 128 KiB, which maps no memory. */
static void add_unmapped(void)
{
	add_narrow(128 << 10);
	narrow.offer = NULL;
	narrow.withdraw = NULL;
	narrow.map = NULL;
}

#define UNMAPPED_MOST (100 << 10)

/* Each collective on memory from rondo_mem_alloc(), which all other links map. */
static int call_all(struct rank_env *env)
{
	static const size_t counts[] = { 1, 64, 1000, 1024, 5000, 40000, UNMAPPED_MOST };
	size_t bytes = (size_t)env->size * (UNMAPPED_MOST + 1) * sizeof(float);
	struct memory memory = { NULL, NULL, NULL };
	int wrong = 0;

	TRY(env->create_error);
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
	static const struct variant through[] = {
		{ "3", "auto", false, NULL, RD_KERNEL_MESSAGES },
		{ "3", "staged", false, NULL, RD_KERNEL_STAGED },
		{ "3", "stepped", false, NULL, RD_KERNEL_STAGED },
	};

	need_tests_gpus("3");
	add_unmapped();
	for (int i = 0; i < 3; i++)
		cr_expect_eq(try_body(&through[i], 3, all_collectives, 20000), 0, "%s",
			through[i].kernel);
}

/* ---- One whose rank 1 does not run for a while ---------------------------------------------- */

/* Below RD_SLOW_MS: a line of the log tells of a call that waits as long. */
#define LATE_MS 1500

static struct rd_transport late;

static int late_listen(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	return routes_listen(&late, result, local, card, card_size);
}

static int late_open(struct rd_endpoint *endpoint, int peer, int channel, const unsigned char *card,
	size_t card_size, struct rd_link **link)
{
	/* Ranks are processes of the test. */
	if (peer == 0)
		usleep(LATE_MS * 1000);
	return routes_open(endpoint, peer, channel, card, card_size, link);
}

/* Silence is no refusal. */
Test(routes, a_peer_that_has_not_run_yet_is_waited_for, .timeout = 60)
{
	rename_shm(&late, "late", late_listen);
	late.open = late_open;
	cr_assert_eq(rd_transport_add(&late), 0);
	setenv("RONDO_INIT_TIMEOUT_MS", "8000", 1);
	routes_expect_none(&(struct world){ .size = 2 }, " WARN ");
}

/* ---- Two that cost alike, which the ranks have in different order --------------------------- */

static struct rd_transport twins[2], opener;

static int listen_castor(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	return routes_listen(&twins[0], result, local, card, card_size);
}

static int listen_pollux(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	return routes_listen(&twins[1], result, local, card, card_size);
}

/* Ranks probe the table of transports in order, and this one is in it: it adds the twins behind it,
   in an order of the rank's own. */
static int add_twins(const struct rd_settings *settings)
{
	int err = rd_transport_add(&twins[settings->rank & 1]);

	if (!err)
		err = rd_transport_add(&twins[!(settings->rank & 1)]);
	return err ? err : rd_fail(RONDO_UNSUPPORTED, "it adds others");
}

Test(routes, of_transports_that_cost_alike_both_of_a_pair_take_the_same, .timeout = 60)
{
	rename_shm(&twins[0], "castor", listen_castor);
	rename_shm(&twins[1], "pollux", listen_pollux);
	opener = rd_transport_shm;
	opener.name = "opener";
	opener.probe = add_twins;
	cr_assert_eq(rd_transport_add(&opener), 0);
	routes_expect_none(&(struct world){ .size = 3 }, " WARN ");
}
