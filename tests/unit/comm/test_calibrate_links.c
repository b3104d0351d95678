/*
 * The choices of a pair that measures its link: to leave a core that both are on, and to write past
 * the caches. The ranks' messages, clock and cores are this test's, so each case is exact.
 */
#include <criterion/criterion.h>
#include <sched.h>

#include "base/clock.h"
#include "comm/own_calls.h"
#include "topo/cpus.h"

static int64_t fake_clock_ns(void);
static int fake_transfer(struct rondo_comm *comm, int from, int to, void *bytes, size_t size);
static int fake_exchange(struct rondo_comm *comm, int peer, void *out, void *in, size_t size);
static bool fake_allowed(struct rd_cpus *cpus);
static int fake_core(void);
static void fake_leave(int cpu);
static int fake_yield(void);

#define rd_clock_ns fake_clock_ns
#define rd_own_transfer fake_transfer
#define rd_own_exchange fake_exchange
#define rd_cpus_allowed fake_allowed
#define rd_cpus_leave fake_leave
#define sched_getcpu fake_core
#define sched_yield fake_yield
#include "comm/calibrate_links.c"

#define RANKS 3

/* The state of this rank, which the cases set and the calls above change. */
static struct {
	int64_t now_ns;
	int64_t through_ns, past_ns; /* of a message through the caches, and past them */
	int64_t idle_ns; /* of a transfer that moves nothing */
	int64_t look_ns; /* at the clock */
	int messages; /* left before one fails; -1: none does */
	int passed; /* messages */
	struct rd_link *opened; /* by the first message, to rank 1; NULL: all links are open */
	struct own_core here, there; /* this rank's, and its peer's */
	int left; /* how often this rank left its core */
	int yields; /* how often it yielded */
	int questions; /* how often the ranks exchanged their cores */
} now;

static int64_t fake_clock_ns(void)
{
	return now.now_ns += now.look_ns;
}

static int pass(const struct rondo_comm *comm)
{
	if (now.messages == 0)
		return RONDO_TIMEOUT;
	now.messages -= now.messages > 0;
	now.passed++;
	if (now.opened)
		comm->links[1] = now.opened;
	now.now_ns += comm->costs.links[RD_NEAR].past_caches ? now.past_ns : now.through_ns;
	return 0;
}

static __attribute__((noinline)) int fake_transfer(
	struct rondo_comm *comm, int from, int to, void *bytes, size_t size)
{
	if (from == to) {
		now.now_ns += now.idle_ns;
		return 0;
	}
	if (to == comm->rank)
		memset(bytes, 0, size);
	return pass(comm);
}

static int fake_exchange(struct rondo_comm *comm, int peer, void *out, void *in, size_t size)
{
	(void)peer;
	if (size == sizeof(now.there) && in != (char *)out + points[RD_COST_POINT_COUNT - 1]) {
		now.questions++;
		memcpy(in, &now.there, size);
	}
	return pass(comm);
}

static bool fake_allowed(struct rd_cpus *cpus)
{
	*cpus = (struct rd_cpus){ { 0 } };
	for (int cpu = 0; cpu < now.here.allowed; cpu++)
		rd_cpus_add(cpus, cpu);
	return true;
}

static int fake_core(void)
{
	return now.here.core;
}

static void fake_leave(int cpu)
{
	cr_expect_eq(cpu, now.here.core);
	now.left++;
}

static int fake_yield(void)
{
	now.yields++;
	return 0;
}

/* Ranks 0 and 1 are on one host, and rank 2 on another. */
static struct rondo_comm *comm_of(int rank)
{
	static const struct rd_link_ops no_ops;
	static int hosts[RANKS] = { 0, 0, 1 }, order[RANKS] = { 0, 1, 2 };
	static struct rd_layout layout = { .order = order, .group = hosts };
	static struct rd_link link;
	static struct rd_link *links[RANKS];
	static struct rondo_comm comm;

	link = (struct rd_link){ .ops = &no_ops, .shares_room = true };
	for (int i = 0; i < RANKS; i++)
		links[i] = &link;
	comm = (struct rondo_comm){ .rank = rank,
		.size = RANKS,
		.channels = 1,
		.links = links,
		.layouts = { &layout },
		.settings.slots = 4 };
	now.now_ns = 1;
	now.through_ns = now.past_ns = 1000;
	now.idle_ns = now.look_ns = 0;
	now.messages = -1;
	now.opened = NULL;
	now.passed = now.left = now.questions = now.yields = 0;
	return &comm;
}

/* ---- One core ------------------------------------------------------------------------------- */

Test(calibrate_links, one_of_two_ranks_on_one_core_leaves_it)
{
	static const struct {
		const char *what;
		int rank, peer;
		struct own_core here, there;
		bool oversubscribed, one_core;
		int left;
	} tries[] = {
		{ "the other", 1, 0, { 5, 8 }, { 5, 8 }, false, true, 1 },
		{ "the leader stays", 0, 1, { 5, 8 }, { 5, 8 }, false, true, 0 },
		{ "the leader, for the other may not", 0, 1, { 5, 8 }, { 5, 1 }, false, true, 1 },
		{ "two cores", 1, 0, { 5, 8 }, { 6, 8 }, false, false, 0 },
		{ "shared cores", 1, 0, { 5, 8 }, { 5, 8 }, true, false, 0 },
		{ "unknown cores", 1, 0, { -1, 8 }, { -1, 8 }, false, false, 0 },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		struct rondo_comm *comm = comm_of(tries[i].rank);
		bool one_core = !tries[i].one_core;

		comm->oversubscribed = tries[i].oversubscribed;
		now.here = tries[i].here;
		now.there = tries[i].there;
		cr_expect_eq(leave_one_core(comm, (struct measured_pair){ 0, 1 }, &one_core), 0);
		cr_expect_eq(one_core, tries[i].one_core, "%s", tries[i].what);
		cr_expect_eq(now.left, tries[i].left, "%s", tries[i].what);
		/* Its peer waits for it, whatever this rank's cores. */
		cr_expect_eq(now.questions, 1, "%s", tries[i].what);
	}
}

Test(calibrate_links, ranks_on_two_hosts_share_no_core)
{
	struct rondo_comm *comm = comm_of(2);
	bool one_core = true;

	now.here = (struct own_core){ 5, 8 };
	cr_expect_eq(leave_one_core(comm, (struct measured_pair){ 0, 2 }, &one_core), 0);
	cr_expect_not(one_core);
	cr_expect_eq(now.questions, 0);
}

/* A rank that asked at another point than its peer would wait for ever. */
Test(calibrate_links, both_ranks_ask_for_cores_at_the_same_two_points)
{
	static char bytes[2 << 17];

	for (int rank = 0; rank < 2; rank++)
		for (int point = 0; point < RD_COST_POINT_COUNT; point++) {
			struct rondo_comm *comm = comm_of(rank);
			struct sample sample = { .by_turns = false };

			now.here = (struct own_core){ rank, 8 };
			now.there = (struct own_core){ 1 - rank, 8 };
			cr_expect_eq(measure_point(comm, (struct measured_pair){ 0, 1 }, bytes,
					     point, &efforts[0], &sample),
				0);
			cr_expect_eq(now.questions, point == 0 || point == RD_SAMPLES_SLOPE_FROM,
				"rank %d, point %d: %d", rank, point, now.questions);
			cr_expect_not(sample.one_core);
		}
}

/* ---- Costs ---------------------------------------------------------------------------------- */

static bool send_nothing(
	struct rd_link *link, const struct rd_tag *tag, const void *from, size_t size)
{
	(void)link;
	(void)tag;
	(void)from;
	(void)size;
	return true;
}

static struct sample sample_of(struct rondo_comm *comm, bool by_turns)
{
	static char bytes[2 << 17];
	struct sample sample = { .by_turns = by_turns };

	now.here = now.there = (struct own_core){ -1, 8 };
	cr_assert_eq(
		measure_point(comm, (struct measured_pair){ 0, 1 }, bytes, 1, &efforts[0], &sample),
		0);
	return sample;
}

Test(calibrate_links, a_message_by_turns_is_work_without_the_call_around_it)
{
	struct rondo_comm *comm = comm_of(0);

	now.idle_ns = 100;
	cr_expect_eq(sample_of(comm, true).send_ns, 900);
	comm = comm_of(0);
	cr_expect_eq(sample_of(comm, false).send_ns, UINT32_MAX);
}

/* Its peer sends all of the messages meanwhile, and may need the core for that. */
Test(calibrate_links, a_rank_receives_by_turns_when_its_peer_has_sent)
{
	struct rondo_comm *comm = comm_of(1);
	int64_t without_ns, began_ns;

	began_ns = now.now_ns;
	sample_of(comm, false);
	without_ns = now.now_ns - began_ns;
	comm = comm_of(1);
	now.look_ns = 1;
	began_ns = now.now_ns;
	sample_of(comm, true);
	/* Each time: two messages around it, four in it, and as long as those take before. */
	cr_expect_geq(now.now_ns - began_ns - without_ns, efforts[0].bursts * (2 + 4 + 4) * 1000);
	cr_expect_gt(now.yields, 0);
}

/* Shared memory has no locks of a kernel; ranks with cores of their own take no turns. */
Test(calibrate_links, only_messages_through_the_kernel_on_shared_cores_are_by_turns)
{
	static const struct rd_link_ops sends = { .send = send_nothing }, writes = { .send = NULL };
	static const struct {
		const struct rd_link_ops *ops;
		size_t send_min;
		int other;
		bool shares_cores, single_copy, by_turns;
	} tries[] = {
		{ &sends, 1024, 1, true, false, true },
		{ &sends, 1024, 1, false, false, false },
		{ &sends, 1024, 2, true, false, false },
		{ &sends, 1024, 1, true, true, false },
		{ &sends, SIZE_MAX, 1, true, false, false },
		{ &writes, 1024, 1, true, false, false },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		struct rondo_comm *comm = comm_of(0);
		struct rd_link *link = comm->links[tries[i].other];

		comm->oversubscribed = tries[i].shares_cores;
		link->ops = tries[i].ops;
		link->send_min = tries[i].send_min;
		link->single_copy = tries[i].single_copy;
		cr_expect_eq(takes_turns(comm, (struct measured_pair){ 0, tries[i].other }),
			tries[i].by_turns, "%zu", i);
	}
}

/* Ranks of another host than rank 0's have exchanged no message before. */
Test(calibrate_links, the_first_message_of_a_pair_opens_its_link)
{
	static const struct rd_link_ops sends = { .send = send_nothing };
	static char bytes[2 << 17];
	struct rondo_comm *comm = comm_of(0);
	struct rd_costs costs;

	rd_costs_default(&costs);
	now.here = now.there = (struct own_core){ -1, 8 };
	now.look_ns = 1;
	now.opened = comm->links[1];
	now.opened->ops = &sends;
	comm->links[1] = NULL;
	comm->oversubscribed = true;
	comm->piece_size = 128 << 10;
	cr_expect_eq(calibrate_pair(comm, (struct measured_pair){ 0, 1 }, bytes, RD_CALIBRATE_NS,
			     &costs.links[RD_NEAR]),
		0);
	for (int i = 0; i < RD_COST_POINT_COUNT; i++)
		cr_expect_gt(costs.links[RD_NEAR].send_ns[i], 0, "point %d", i);
}

/* ---- Time ----------------------------------------------------------------------------------- */

static bool gives_up(int64_t message_ns)
{
	struct rondo_comm *comm = comm_of(0);
	bool gave_up;

	comm->piece_size = 128 << 10;
	rd_costs_default(&comm->costs);
	now.here = (struct own_core){ 0, 8 };
	now.there = (struct own_core){ 1, 8 };
	now.through_ns = now.past_ns = message_ns;
	cr_expect_eq(rd_calibrate_links(comm, &gave_up), 0);
	return gave_up;
}

/* Where every message waits for other processes, a sample of the full effort takes seconds. */
Test(calibrate_links, a_busy_host_has_few_messages_until_the_leader_gives_up)
{
	cr_expect(gives_up(20 * 1000000));
	/* One opens the link, and one chooses the point. Two round trips and the cores; the end,
	   and what the other pair found. */
	cr_expect_eq(now.passed, 9);
	cr_expect(gives_up(2000000));
	cr_expect_leq(now.passed, 21);
}

Test(calibrate_links, on_a_quiet_host_the_leader_does_not_give_up)
{
	cr_expect_not(gives_up(1000));
	cr_expect_eq(now.passed, 445);
	/* Beyond the time for all points, the first still has its bursts. */
	cr_expect_not(gives_up(100000));
	cr_expect_eq(now.passed, 83);
}

/* ---- Past the caches ------------------------------------------------------------------------ */

/* Tries it on the leader, whose sample through the caches took first_ns. Returns whether messages
   go past them from now on. */
static bool past_after(struct rondo_comm *comm, uint32_t first_ns, int64_t through_ns,
	int64_t past_ns, struct series *series)
{
	static char bytes[2 << 17];

	now.through_ns = through_ns;
	now.past_ns = past_ns;
	now.here = (struct own_core){ 0, 8 };
	now.there = (struct own_core){ 1, 8 };
	*series = (struct series){ .deadline_ns = INT64_MAX, .latest_ns = INT64_MAX };
	rd_samples_add(&series->ways, RD_SAMPLES_SLOPE_FROM, first_ns);
	cr_expect_eq(try_past(comm, (struct measured_pair){ 0, 1 }, bytes, 0, series), 0);
	return comm->costs.links[RD_NEAR].past_caches;
}

Test(calibrate_links, messages_go_past_the_caches_where_that_saves_a_quarter)
{
	struct series series;

	cr_expect(past_after(comm_of(0), 1000, 1000, 700, &series));
	cr_expect_eq(series.ways.least[RD_SAMPLES_SLOPE_FROM], 700);
	cr_expect_not(past_after(comm_of(0), 1000, 1000, 800, &series));
	/* Messages through the caches keep their own cost. */
	cr_expect_eq(series.ways.least[RD_SAMPLES_SLOPE_FROM], 1000);
	cr_expect_not(past_after(comm_of(0), 1000, 1000, 1300, &series));
}

Test(calibrate_links, a_disturbed_sample_through_the_caches_sends_none_past_them)
{
	struct series series;

	cr_expect_not(past_after(comm_of(0), 9000, 1000, 800, &series));
	cr_expect_eq(series.ways.least[RD_SAMPLES_SLOPE_FROM], 1000);
	cr_expect(past_after(comm_of(0), 9000, 1000, 700, &series));
}

Test(calibrate_links, past_the_caches_is_tried_where_ranks_share_room_and_no_core)
{
	struct rondo_comm *comm = comm_of(0);
	struct series series;

	comm->links[1]->shares_room = false;
	cr_expect_not(past_after(comm, 1000, 1000, 100, &series));
	cr_expect_eq(now.now_ns, 1, "messages were sent");
	comm = comm_of(0);
	comm->oversubscribed = true;
	cr_expect_not(past_after(comm, 1000, 1000, 100, &series));
	cr_expect_eq(now.now_ns, 1, "messages were sent");
}

Test(calibrate_links, a_message_that_fails_ends_the_try)
{
	static char bytes[2 << 17];

	for (int messages = 0; messages < 40; messages += 13) {
		struct rondo_comm *comm = comm_of(0);
		struct series series = { .deadline_ns = INT64_MAX, .latest_ns = INT64_MAX };

		now.messages = messages;
		rd_samples_add(&series.ways, RD_SAMPLES_SLOPE_FROM, 1000);
		cr_expect_eq(try_past(comm, (struct measured_pair){ 0, 1 }, bytes, 0, &series),
			RONDO_TIMEOUT, "after %d messages", messages);
	}
}
