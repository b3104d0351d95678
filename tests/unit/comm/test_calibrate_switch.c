/*
 * Rank 0 gives up the measurement of shared cores on a busy host, for all ranks. Messages and clock
 * are this test's.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/clock.h"
#include "comm/own_calls.h"

static int64_t fake_clock_ns(void);
static int fake_broadcast(
	struct rondo_comm *comm, const int *ranks, int count, int at, void *bytes, size_t size);
static int fake_barrier(struct rondo_comm *comm, const int *ranks, int count, int at);
static int fake_transfer(struct rondo_comm *comm, int from, int to, void *bytes, size_t size);

#define rd_clock_ns fake_clock_ns
#define rd_own_broadcast fake_broadcast
#define rd_own_barrier fake_barrier
#define rd_own_transfer fake_transfer
#include "comm/calibrate.c"

#define RANKS 4
#define USUAL_NS 1234 /* a switch, until it was measured */

static struct {
	int64_t ns, broadcast_ns; /* the time; what a broadcast takes */
	int64_t ordered[BARRIERS + 1]; /* by rank 0, to the other ranks: 0 ends it */
	int broadcasts, barriers, transfers;
} now;

static int64_t fake_clock_ns(void)
{
	return ++now.ns;
}

static int fake_broadcast(
	struct rondo_comm *comm, const int *ranks, int count, int at, void *bytes, size_t size)
{
	(void)comm;
	(void)ranks;
	(void)count;
	cr_assert(size == sizeof(*now.ordered) && now.broadcasts <= BARRIERS);
	now.ns += now.broadcast_ns;
	if (at > 0)
		memcpy(bytes, &now.ordered[now.broadcasts], sizeof(*now.ordered));
	else
		memcpy(&now.ordered[now.broadcasts], bytes, sizeof(*now.ordered));
	now.broadcasts++;
	return 0;
}

static int fake_barrier(struct rondo_comm *comm, const int *ranks, int count, int at)
{
	(void)comm;
	(void)ranks;
	(void)count;
	(void)at;
	now.barriers++;
	now.ns += 1000;
	return 0;
}

static int fake_transfer(struct rondo_comm *comm, int from, int to, void *bytes, size_t size)
{
	(void)comm;
	now.transfers += from != to;
	if (bytes)
		memset(bytes, 0, size);
	return 0;
}

/* Measures on this rank. Returns whether it gave up. */
static bool measure_switch(int rank, int64_t broadcast_ns, bool links_gave_up)
{
	struct team team = { .ranks = { 0, 1, 2, 3 }, .count = RANKS, .near = RANKS, .at = rank };
	struct rondo_comm comm = { .rank = rank, .size = RANKS, .piece_size = 128 << 10 };
	bool gave_up = links_gave_up;

	rd_costs_default(&comm.costs);
	comm.costs.cores = 2;
	comm.costs.switch_ns = USUAL_NS;
	now.ns = 1;
	now.broadcast_ns = broadcast_ns;
	now.broadcasts = now.barriers = now.transfers = 0;
	cr_expect_eq(calibrate_switch(&comm, &team, &gave_up), 0);
	if (gave_up)
		cr_expect_eq(comm.costs.switch_ns, USUAL_NS);
	return gave_up;
}

Test(calibrate_switch, rank_0_gives_up_on_a_busy_host)
{
	memset(now.ordered, 0xff, sizeof(now.ordered));
	cr_expect(measure_switch(0, 10 * 1000000, false));
	cr_expect_eq(now.barriers, 4);
	cr_expect_eq(now.ordered[now.broadcasts - 1], 0);
	cr_expect_eq(now.transfers, 0);
	/* Its links showed that already. */
	cr_expect(measure_switch(0, 1000, true));
	cr_expect_eq(now.broadcasts, 1);
	cr_expect_eq(now.ordered[0], 0);
	cr_expect_eq(now.barriers + now.transfers, 0);
}

/* Whatever its clock and its links say: all ranks run as many barriers. */
Test(calibrate_switch, other_ranks_give_up_when_rank_0_does)
{
	for (int i = 0; i < BARRIERS; i++)
		now.ordered[i] = 1;
	cr_expect_not(measure_switch(3, 10 * 1000000, true));
	cr_expect_eq(now.barriers, BARRIERS);
	cr_expect_eq(now.transfers, 1);
	now.ordered[2] = 0;
	cr_expect(measure_switch(3, 1000, false));
	cr_expect_eq(now.barriers, 2);
	cr_expect_eq(now.transfers, 0);
}

Test(calibrate_switch, a_quiet_host_has_all_barriers)
{
	cr_expect_not(measure_switch(0, 1000, false));
	cr_expect_eq(now.barriers, BARRIERS);
	cr_expect_eq(now.transfers, RANKS - 1);
}
