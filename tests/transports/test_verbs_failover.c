/*
 * Failover of links of verbs whose queue pairs are moved to error. It needs two RDMA devices, rxe0
 * and rxe1, as tests/vm/test_verbs_failover.sh makes them.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transports/contract/fixture.h"
#include "transports/contract/leaks.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"
#include "transports/verbs/link.h"

#define MESSAGES 300
#define SEEDS 12
#define LIMIT_MS 120000 /* an emulated guest on a busy machine is slow */

static void use_two_devices(void)
{
	if (access("/sys/class/infiniband/rxe1", F_OK))
		cr_skip_test("no RDMA devices rxe0 and rxe1 here");
	setenv("RONDO_IB_DEVICE", "rxe0,rxe1", 1);
	fixture_wait_ms = LIMIT_MS;
}

static void open_ends(struct ends *ends, struct shape shape)
{
	bool open = ends_open(ends, "verbs", shape);

	require(open, "%s", ends->shared->report);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static void break_queue_pair(struct rd_link *base, int rail)
{
	struct rd_verbs_link *link = (struct rd_verbs_link *)base;
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };

	require(rd_verbs.modify_qp(link->pairs[rail].qp, &attributes, IBV_QP_STATE) == 0,
		"cannot break a queue pair");
}

/* One direction of the traffic. */
struct flow {
	struct fixture *fixture; /* the receiver's */
	struct rd_link *from, *to;
	uint64_t sent, taken;
};

static void move(struct flow *flow, uint64_t *random)
{
	size_t most = flow->from->message_max;

	for (uint64_t burst = next_random(random) % 8; burst > 0 && flow->sent < MESSAGES;
		burst--) {
		if (!try_send(flow->from, flow->sent, size_of(flow->sent, most)))
			break;
		flow->sent++;
	}
	for (uint64_t burst = next_random(random) % 8; burst > 0 && flow->taken < flow->sent;
		burst--) {
		if (!try_recv(flow->fixture, flow->to, flow->taken, size_of(flow->taken, most)))
			break;
		flow->taken++;
	}
}

/* Messages both ways, of which a random one breaks the queue pair here, there, or on both sides. */
static void cut_at_random(struct ends *ends, uint64_t seed)
{
	struct flow flows[2] = {
		{ &ends->fixtures[1], ends->from, ends->to, 0, 0 },
		{ &ends->fixtures[0], ends->to, ends->from, 0, 0 },
	};
	uint64_t random = seed, cut = next_random(&random) % (MESSAGES - 50);
	uint64_t deadline = now_ms() + (uint64_t)fixture_wait_ms;
	bool is_cut = false;

	while (flows[0].taken < MESSAGES || flows[1].taken < MESSAGES) {
		for (int i = 0; i < 2; i++)
			move(&flows[i], &random);
		if (!is_cut && flows[0].sent >= cut) {
			if (seed % 3 != 1)
				break_queue_pair(ends->from, ends->from->rail);
			if (seed % 3 != 0)
				break_queue_pair(ends->to, ends->to->rail);
			is_cut = true;
		}
		require(!ends->from->error, "%s", ends->from->reason);
		require(!ends->to->error, "%s", ends->to->reason);
		require(fixture_wait(ends->fixture, deadline, "all messages"), "seed %lu: %s", seed,
			ends->shared->report);
	}
	require(is_cut, "nothing was cut");
}

Test(verbs_failover, loses_and_doubles_nothing, .timeout = 500, .init = use_two_devices)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct shape shape = { .size = 2, .channels = 1, .slots = 1 + (int)(seed % 5) };
		struct ends ends;
		int rail;

		shape.piece = seed % 2 ? 4096 : 16384;
		open_ends(&ends, shape);
		rail = ends.from->rail;
		cut_at_random(&ends, seed);
		cr_assert_neq(ends.from->rail, rail, "goes on over the other rail");
		cr_assert_eq(ends.from->rail, ends.to->rail);
		ends_close(&ends);
	}
}

/* Waits until the link has failed, and returns its reason. */
static const char *await_failure(struct ends *ends, struct rd_link *link)
{
	uint64_t deadline = now_ms() + (uint64_t)fixture_wait_ms;

	while (!link->error)
		require(fixture_wait(ends->fixture, deadline, "a failure"), "no failure");
	cr_assert_eq(link->error, RONDO_BROKEN);
	return link->reason;
}

Test(verbs_failover, without_a_rail_that_works_is_an_error_in_words, .timeout = 120,
	.init = use_two_devices)
{
	int files = contract_open_files();
	struct ends ends;
	const char *reason;

	open_ends(&ends, shape_small);
	break_queue_pair(ends.from, 0);
	break_queue_pair(ends.from, 1);
	reason = await_failure(&ends, ends.from);
	cr_assert(strstr(reason, "is out of reach by rxe"), "%s", reason);
	cr_assert(strstr(reason, "IBV_WC_WR_FLUSH_ERR"), "%s", reason);
	fixtures_close(ends.fixtures);
	shared_destroy(ends.shared);
	cr_assert_eq(contract_open_files(), files);
}

Test(verbs_failover, of_a_rail_in_reserve_changes_nothing, .timeout = 120, .init = use_two_devices)
{
	struct ends ends;
	int rail;

	open_ends(&ends, shape_small);
	rail = ends.from->rail;
	break_queue_pair(ends.from, 1 - rail);
	for (uint64_t key = 0; key < 50; key++) {
		require(send_message(ends.fixture, ends.from, key, 100), "it sends");
		require(recv_message(ends.fixture, ends.to, key, 100), "it receives");
	}
	cr_assert_eq(ends.from->rail, rail);
	ends_close(&ends);
}
