/*
 * Failover of links of verbs whose queue pairs are moved to error. It needs the RDMA devices that
 * tests/system/vm/test_verbs_failover.sh makes.
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
#include "transports/verbs/resume.h"

#define RAILS 3
#define MESSAGES 300
#define PIECES 8
#define PIECE_ROOM 65536
#define SEEDS 36
#define LIMIT_MS 120000 /* an emulated guest on a busy machine is slow */

static void use_devices(void)
{
	if (access("/sys/class/infiniband/rxe2", F_OK))
		cr_skip_test("no RDMA devices rxe0, rxe1 and rxe2 here");
	setenv("RONDO_IB_DEVICE", "rxe0,rxe1,rxe2", 1);
	fixture_wait_ms = LIMIT_MS;
}

static unsigned landed; /* messages in registered memory */

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
	unsigned char *memory; /* registered at both ends: PIECES to send from, one to land in */
	uint64_t marks[PIECES]; /* from->sent when the piece may be written again */
};

/* From a piece of registered memory, which is written again as soon as that is allowed. */
static bool send_from_memory(struct flow *flow, uint64_t key, size_t size)
{
	unsigned char *piece = flow->memory + key % PIECES * PIECE_ROOM;
	struct rd_tag tag = tag_of(key);

	if (flow->from->sent < flow->marks[key % PIECES])
		return false;
	fill_bytes(piece, size, key);
	if (!flow->from->ops->send(flow->from, &tag, piece, size))
		return false;
	flow->marks[key % PIECES] = flow->from->posted;
	return true;
}

static bool take_into_memory(struct flow *flow, uint64_t key, size_t size)
{
	unsigned char *into = flow->memory + PIECES * PIECE_ROOM;
	struct rd_message message;

	if (!flow->to->ops->recv(flow->to, into, size, &message) ||
		!verify_message(flow->fixture, &message, key, size))
		return false;
	landed += message.data == into;
	flow->to->ops->release(flow->to);
	return true;
}

static bool flow_send(struct flow *flow, uint64_t key, size_t size)
{
	return flow->memory ? send_from_memory(flow, key, size) : try_send(flow->from, key, size);
}

static bool flow_take(struct flow *flow, uint64_t key, size_t size)
{
	return flow->memory ? take_into_memory(flow, key, size)
			    : try_recv(flow->fixture, flow->to, key, size);
}

/* Both endpoints may send from the memory, and receive there. */
static void flow_register(struct flow *flow, const struct ends *ends, uint64_t id)
{
	struct rd_registration registration = { id, NULL, (PIECES + 1) * PIECE_ROOM, -1, 0 };

	flow->memory = registration.base = malloc(registration.size);
	for (int i = 0; i < 2; i++) {
		const struct fixture *fixture = &ends->fixtures[i];

		require(fixture->transport->attach(fixture->endpoint, &registration) == 0,
			"attach: %s", rondo_last_error());
	}
}

static void move(struct flow *flow, uint64_t *random)
{
	size_t most = flow->from->message_max;

	for (uint64_t n = next_random(random) % 8; n > 0 && flow->sent < MESSAGES; n--) {
		if (!flow_send(flow, flow->sent, size_of(flow->sent, most)))
			break;
		flow->sent++;
	}
	for (uint64_t n = next_random(random) % 8; n > 0 && flow->taken < MESSAGES; n--) {
		if (!flow_take(flow, flow->taken, size_of(flow->taken, most)))
			break;
		flow->taken++;
	}
}

/* Breaks the queue pair that a link uses at one end, at the other, or at both. */
static void cut(const struct ends *ends, uint64_t way)
{
	if (way % 3 != 1)
		break_queue_pair(ends->from, ends->from->rail);
	if (way % 3 != 0)
		break_queue_pair(ends->to, ends->to->rail);
}

/* Messages both ways, and two cuts: the second one far from the first, or before the link goes on
   after it. */
static void cut_at_random(struct ends *ends, uint64_t seed, bool registered)
{
	struct flow flows[2] = {
		{ .fixture = &ends->fixtures[1], .from = ends->from, .to = ends->to },
		{ .fixture = &ends->fixtures[0], .from = ends->to, .to = ends->from },
	};
	uint64_t random = seed, first = next_random(&random) % (MESSAGES / 2);
	uint64_t second = first + (seed % 2 ? next_random(&random) % (MESSAGES / 3) : 0);
	uint64_t deadline = now_ms() + (uint64_t)fixture_wait_ms;
	uint64_t cuts = 0;

	for (uint64_t i = 0; registered && i < 2; i++)
		flow_register(&flows[i], ends, 2 * seed + i + 1);
	while (flows[0].taken < MESSAGES || flows[1].taken < MESSAGES) {
		for (int i = 0; i < 2; i++)
			move(&flows[i], &random);
		if (cuts < 2 && flows[0].sent >= (cuts ? second : first))
			cut(ends, seed + cuts++);
		require(!ends->from->error, "%s", ends->from->reason);
		require(!ends->to->error, "%s", ends->to->reason);
		require(fixture_wait(ends->fixture, deadline, "all messages"), "seed %lu: %s", seed,
			ends->shared->report);
	}
	require(cuts == 2, "nothing was cut");
	for (int i = 0; i < 2; i++)
		free(flows[i].memory);
}

static void try_seeds(bool registered)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct shape shape = { .size = 2, .channels = 2, .slots = 1 + (int)(seed % 5) };
		int channel = (int)(seed / 2 % 2);
		struct ends ends;
		int rail;

		shape.piece = seed % 4 < 2 ? 4096 : 16384;
		setenv("RONDO_CHECKSUM", seed % 3 ? "1" : "0", 1);
		open_ends(&ends, shape);
		/* From the last rail, a link goes on over the first, which is polled before. */
		ends.from = ends.fixtures[0].links[1][channel];
		ends.to = ends.fixtures[1].links[0][channel];
		rail = ends.from->rail;
		cr_assert_eq(rail, channel);
		cut_at_random(&ends, seed, registered);
		cr_assert_neq(ends.from->rail, rail, "goes on over the other rail");
		cr_assert_eq(ends.from->rail, ends.to->rail);
		ends_close(&ends);
	}
}

Test(verbs_failover, loses_and_doubles_nothing, .timeout = 500, .init = use_devices)
{
	try_seeds(false);
}

Test(verbs_failover, keeps_what_lies_in_registered_memory, .timeout = 500, .init = use_devices)
{
	try_seeds(true);
	cr_assert_gt(landed, 0, "no message landed");
}

/* ---- Asleep -------------------------------------------------------------------------------- */

static bool has_sent(struct fixture *fixture, void *key)
{
	(void)fixture;
	return try_send(fixture->links[1 - fixture->local.rank][0], *(uint64_t *)key, 1000);
}

static bool has_taken(struct fixture *fixture, void *key)
{
	return try_recv(
		fixture, fixture->links[1 - fixture->local.rank][0], *(uint64_t *)key, 1000);
}

/* Each waits asleep for the other's message. Now and then one breaks the queue pair, and sleeps. */
static void take_turns(struct fixture *fixture, struct rd_link **links)
{
	uint64_t rank = (uint64_t)fixture->local.rank;

	for (uint64_t key = 0; key < 90 && !failed(fixture); key++) {
		if (key % 2 == rank) {
			sleep_until(fixture, has_sent, &key);
			if (key == 20 || key == 61)
				break_queue_pair(links[0], links[0]->rail);
		} else {
			sleep_until(fixture, has_taken, &key);
		}
	}
	ok(fixture, links[0]->rail == 2, "it goes on over rail %d", links[0]->rail);
}

Test(verbs_failover, wakes_ranks_that_sleep, .timeout = 300, .init = use_devices)
{
	fixture_pair("verbs", &shape_small, THREADS, take_turns, take_turns);
}

/* ---- Without a rail ------------------------------------------------------------------------- */

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
	.init = use_devices)
{
	int files = contract_open_files();
	struct ends ends;
	const char *reason;

	open_ends(&ends, shape_small);
	for (int rail = 0; rail < RAILS; rail++)
		break_queue_pair(ends.from, rail);
	reason = await_failure(&ends, ends.from);
	cr_assert(strstr(reason, "is out of reach by rxe"), "%s", reason);
	cr_assert(strstr(reason, "IBV_WC_WR_FLUSH_ERR"), "%s", reason);
	fixtures_close(ends.fixtures);
	shared_destroy(ends.shared);
	cr_assert_eq(contract_open_files(), files);
}

/* The peer gives up its rail, says so over the next, and closes before this rank looks. */
Test(verbs_failover, of_a_peer_that_has_closed_is_an_error, .timeout = 120, .init = use_devices)
{
	uint64_t deadline = now_ms() + LIMIT_MS;
	struct rd_verbs_link *link;
	struct fixture *peer;
	struct ends ends;

	setenv("RONDO_IB_TIMEOUT", "14", 1); /* close() waits until the peer answers, or for 1 s */
	open_ends(&ends, shape_small);
	peer = &ends.fixtures[1];
	link = (struct rd_verbs_link *)ends.to;
	break_queue_pair(ends.to, ends.to->rail);
	while (!link->resumed && now_ms() < deadline)
		peer->transport->advance(peer->endpoint);
	require(link->resumed, "the peer goes on over another rail");
	fixture_close(peer);
	await_failure(&ends, ends.from);
	fixture_close(&ends.fixtures[0]);
	shared_destroy(ends.shared);
}

Test(verbs_failover, of_a_rail_in_reserve_changes_nothing, .timeout = 120, .init = use_devices)
{
	struct ends ends;
	int rail;

	open_ends(&ends, shape_small);
	rail = ends.from->rail;
	for (int step = 1; step < RAILS; step++)
		break_queue_pair(ends.from, (rail + step) % RAILS);
	for (uint64_t key = 0; key < 50; key++) {
		require(send_message(ends.fixture, ends.from, key, 100), "it sends");
		require(recv_message(ends.fixture, ends.to, key, 100), "it receives");
	}
	cr_assert_eq(ends.from->rail, rail);
	ends_close(&ends);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

/* The counts by which a link of verbs goes on over another rail. */

/* A receiver sends these counts. The sender of `count` messages, who knows of `known` released
   ones, decodes them to the same. */
static void try_counts(uint64_t known, uint64_t released, uint64_t arrived, uint64_t count)
{
	struct rd_verbs_counts sent = { .arrived = arrived, .released = released }, read = { 0 };
	uint32_t immediate = rd_verbs_resume_encode(sent);

	cr_assert_eq(immediate >> 23, 0, "%x", immediate);
	cr_assert(rd_verbs_resume_decode(immediate, count, known, &read), "%lu", released);
	cr_assert_eq(read.arrived, arrived);
	cr_assert_eq(read.released, released);
}

Test(verbs_resume, keeps_all_counts_that_a_link_can_have)
{
	static const uint64_t starts[] = { 0, 1, 65472, 65535, 65536, 131071, UINT32_MAX - 64,
		UINT32_MAX, (uint64_t)UINT32_MAX + 1, 1ull << 48 };

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		for (uint64_t released = 0; released <= RD_VERBS_MESSAGES; released++)
			for (uint64_t held = 0; released + held <= RD_VERBS_MESSAGES; held++)
				for (uint64_t lost = 0; released + held + lost <= RD_VERBS_MESSAGES;
					lost += 7)
					try_counts(starts[i], starts[i] + released,
						starts[i] + released + held,
						starts[i] + released + held + lost);
}

Test(verbs_resume, refuses_counts_of_messages_that_were_never_sent)
{
	struct rd_verbs_counts counts;

	/* More have arrived, or were released, than were sent. */
	cr_assert(!rd_verbs_resume_decode(
		rd_verbs_resume_encode((struct rd_verbs_counts){ 11, 10 }), 10, 5, &counts));
	cr_assert(!rd_verbs_resume_decode(
		rd_verbs_resume_encode((struct rd_verbs_counts){ 11, 11 }), 10, 5, &counts));
	/* Fewer were released than before. */
	cr_assert(!rd_verbs_resume_decode(
		rd_verbs_resume_encode((struct rd_verbs_counts){ 4, 4 }), 10, 5, &counts));
	cr_assert(!rd_verbs_resume_decode(0x7f0000, 64, 0, &counts));
	cr_assert(!rd_verbs_resume_decode(0xffff, 65536 + 64, 65536, &counts));
}

Test(verbs_resume, rails_take_turns_and_end)
{
	cr_assert_eq(rd_verbs_rail_after(0, 0x2), 1);
	cr_assert_eq(rd_verbs_rail_after(1, 0x1), 0);
	cr_assert_eq(rd_verbs_rail_after(1, 0xd), 2);
	cr_assert_eq(rd_verbs_rail_after(3, 0x7), 0);
	cr_assert_eq(rd_verbs_rail_after(7, 0x44), 2);
	cr_assert_eq(rd_verbs_rail_after(0, 0), -1);
}
