/* Links of tagged messages that do not open: the pair takes the next transport, and its calls keep
   the link that they have. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/error.h"
#include "bootstrap/control_state.h"
#include "comm/hold.h"
#include "comm/opening.h"
#include "routes.h"
#include "text.h"

/* ---- A transport that is shm, but for tagged messages ---------------------------------------- */

enum fault { OPEN_FAILS, BREAKS };

static enum fault fault;
static int faulty_rank; /* -1: all */
static struct rd_transport first;
static const struct rd_endpoint *mailboxes; /* of this process */

static int listen_as_first(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	static int listens;
	int err = routes_listen(&first, result, local, card, card_size);

	if (!err && listens++ == 1 && (faulty_rank < 0 || faulty_rank == local->rank))
		mailboxes = *result;
	return err;
}

static int open_as_first(struct rd_endpoint *endpoint, int peer, int channel,
	const unsigned char *card, size_t card_size, struct rd_link **link)
{
	static struct rd_link broken = { .error = RONDO_SYSTEM, .reason = "fell off the bus" };

	if (endpoint == mailboxes && fault == OPEN_FAILS)
		return rd_fail(RONDO_SYSTEM, "the driver says no");
	if (endpoint == mailboxes) {
		broken.transport = &first;
		*link = &broken;
		return 0;
	}
	return routes_open(endpoint, peer, channel, card, card_size, link);
}

static void add_first(void)
{
	first = rd_transport_shm;
	first.name = "first";
	first.reach = routes_reach;
	first.listen = listen_as_first;
	first.open = open_as_first;
	cr_assert_eq(rd_transport_add(&first), 0);
}

/* ---- Fallbacks ------------------------------------------------------------------------------- */

/* Rank 0 sends; the other needs the link only where rank 0 has asked for it. */
static int send_a_message(struct rank_env *env)
{
	bool sends = env->rank == 0, failed = faulty_rank < 0 || faulty_rank == env->rank;
	bool ended;
	int value = sends ? 8 : 0, reports;
	rondo_request *request;

	if (env->create_error || world_sum_one(env))
		return 1;
	TRY(sends ? rondo_send_tagged(env->comm, &value, sizeof(value), 1, 5, &request)
		  : rondo_recv_tagged(
			    env->comm, &value, sizeof(value), RONDO_ANY_SOURCE, 5, &request));
	TRY(rondo_request_start(request, NULL, NULL));
	TRY(rondo_request_wait(request, 20000));
	rondo_request_destroy(request);
	/* The message went over the next transport: this rank knows of all failures. */
	rd_hold(env->comm);
	rd_open_step(env->comm);
	ended = env->comm->connecting.ended;
	rd_unhold(env->comm);
	pthread_mutex_lock(&env->comm->control->lock);
	reports = env->comm->control->participant->link_failures.count;
	pthread_mutex_unlock(&env->comm->control->lock);
	if (value != 8 || reports > failed || ended)
		return world_report(env, "%d, with %d reports%s", value, reports,
			ended ? ", and the links of calls end" : "");
	return world_sum_one(env);
}

static void expect_fallback(enum fault of, int rank, const char *line)
{
	struct world world = { .size = 2, .transport = "first,tcp" };
	const char *text;

	fault = of;
	faulty_rank = rank;
	add_first();
	text = world_run_captured(&world, send_a_message, NULL);
	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect(strstr(text, line), "%s", text);
}

Test(routes_tagged, a_link_that_cannot_be_opened_gives_way, .timeout = 60)
{
	expect_fallback(OPEN_FAILS, -1,
		"[0] RONDO WARN rank 0 and rank 1 do not reach each other over first for tagged "
		"messages (rank ");
}

Test(routes_tagged, what_the_sender_alone_sees_leads_both_another_way, .timeout = 60)
{
	expect_fallback(OPEN_FAILS, 0, "(rank 0 says: the driver says no), and go on over tcp\n");
}

Test(routes_tagged, what_the_receiver_alone_sees_leads_both_another_way, .timeout = 60)
{
	expect_fallback(OPEN_FAILS, 1, "(rank 1 says: the driver says no), and go on over tcp\n");
}

Test(routes_tagged, a_link_that_breaks_gives_way, .timeout = 60)
{
	expect_fallback(BREAKS, 0, "(rank 0 says: fell off the bus), and go on over tcp\n");
}

Test(routes_tagged, a_link_that_breaks_at_the_receiver_gives_way, .timeout = 60)
{
	expect_fallback(BREAKS, 1, "(rank 1 says: fell off the bus), and go on over tcp\n");
}

/* ---- None is left ---------------------------------------------------------------------------- */

/* The receiver's end fails, and it waits for nobody: the sender learns of it all the same. */
static int send_in_vain(struct rank_env *env)
{
	rondo_request *request;
	int value = 8;

	if (env->create_error || world_sum_one(env))
		return 1;
	if (env->rank == 0) {
		TRY(rondo_send_tagged(env->comm, &value, sizeof(value), 1, 5, &request));
		TRY(rondo_request_start(request, NULL, NULL));
		EXPECT_ERROR(rondo_request_wait(request, 20000), RONDO_SYSTEM,
			"rank 1 opens a link of tagged messages to rank 0: the driver says no");
		rondo_request_destroy(request);
	} else {
		EXPECT_ERROR(rondo_barrier(env->comm, NULL), RONDO_SYSTEM, "the driver says no");
	}
	return 0;
}

Test(routes_tagged, where_none_is_left_both_ranks_learn_it, .timeout = 60)
{
	struct world world = { .size = 2, .transport = "first", .quiet = true };

	fault = OPEN_FAILS;
	faulty_rank = 1;
	add_first();
	cr_assert_eq(world_run(&world, send_in_vain, NULL, NULL), 0);
}
