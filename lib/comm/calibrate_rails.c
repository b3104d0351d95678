#include "comm/calibrate_rails.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/own_calls.h"
#include "comm/scratch.h"

#define POINT(bytes) (bytes),
static const size_t points[RD_COST_POINT_COUNT] = { RD_COST_POINTS(POINT) };
#undef POINT

/* Messages that each rail carries in a round, so that it always has a next one. */
#define MESSAGES 2
/* Rounds over one rail, and over all: at least, and at most, where other processes disturb them. */
#define ROUNDS 4
#define ROUNDS_MAX 16
/* The two quickest rounds confirm each other if they differ by this part at most. */
#define ALIKE 16
/* The most time for the least number of rounds. */
#define BUDGET_NS INT64_C(40000000)

/* The two quickest rounds of a kind. */
struct quickest {
	int64_t first_ns, second_ns;
};

struct measurement {
	int leader, other;
	int rails;
	void *bytes; /* of all messages of a round */
	struct quickest one, all; /* rounds over one rail, and over all */
};

/* ---- Rounds --------------------------------------------------------------------------------- */

static void add_round(struct quickest *quickest, int64_t ns)
{
	if (ns < quickest->first_ns) {
		quickest->second_ns = quickest->first_ns;
		quickest->first_ns = ns;
	} else if (ns < quickest->second_ns) {
		quickest->second_ns = ns;
	}
}

static bool is_confirmed(const struct quickest *quickest)
{
	return quickest->second_ns - quickest->first_ns <= quickest->first_ns / ALIKE;
}

/* Messages from the leader to the other rank, which an empty one back ends. */
static int run_round(struct rondo_comm *comm, const struct measurement *measurement, size_t message,
	int channels, struct quickest *quickest)
{
	size_t piece_size = comm->piece_size,
	       size = MESSAGES * (size_t)measurement->rails * message;
	int64_t began = rd_clock_ns();
	int err;

	comm->piece_size = message;
	comm->used_channels = channels;
	err = rd_own_transfer(
		comm, measurement->leader, measurement->other, measurement->bytes, size);
	if (!err)
		err = rd_own_transfer(
			comm, measurement->other, measurement->leader, measurement->bytes, 0);
	comm->piece_size = piece_size;
	comm->used_channels = comm->channels;
	add_round(quickest, rd_clock_ns() - began);
	return err;
}

static int run_rounds(struct rondo_comm *comm, struct measurement *measurement, int point)
{
	int err = run_round(comm, measurement, points[point], 1, &measurement->one);

	return err ? err
		   : run_round(comm, measurement, points[point], measurement->rails,
			     &measurement->all);
}

/* The leader sends the point of the next rounds to the other rank; -1: there are no more. */
static int pass_point(
	struct rondo_comm *comm, const struct measurement *measurement, int32_t *point)
{
	return rd_own_transfer(
		comm, measurement->leader, measurement->other, point, sizeof(*point));
}

/* ---- The leader ----------------------------------------------------------------------------- */

/* The longest messages that there is time for: those show best which is the limit. -1: none. */
static int32_t find_point(const struct rondo_comm *comm, const struct rd_link_cost *cost)
{
	int64_t messages = 2 * ROUNDS * MESSAGES * (int64_t)cost->rails;
	int32_t point = RD_COST_POINT_COUNT - 1;

	while (point > 0 &&
		(points[point] > comm->piece_size || messages * cost->way_ns[point] > BUDGET_NS))
		point--;
	return point > 0 ? point : -1;
}

/* Thousandths. An empty message to and fro takes as long over any number of rails. */
static uint32_t ratio_of(const struct measurement *measurement, const struct rd_link_cost *cost)
{
	int64_t empty_ns = 2 * (int64_t)cost->way_ns[0];
	int64_t one_ns = measurement->one.first_ns - empty_ns;
	int64_t all_ns = measurement->all.first_ns - empty_ns;

	if (all_ns <= 0 || one_ns <= 0)
		return 0;
	return all_ns < one_ns ? (uint32_t)(all_ns * 1000 / one_ns) : 1000;
}

static int lead(struct rondo_comm *comm, struct measurement *measurement, struct rd_link_cost *cost)
{
	int32_t point = find_point(comm, cost), end = -1;
	int err = 0;

	for (int i = 0; i < ROUNDS_MAX && point >= 0 && !err; i++) {
		if (i >= ROUNDS && is_confirmed(&measurement->one) &&
			is_confirmed(&measurement->all))
			break;
		err = pass_point(comm, measurement, &point);
		if (!err)
			err = run_rounds(comm, measurement, point);
	}
	if (!err && point >= 0)
		cost->striped = ratio_of(measurement, cost);
	return err ? err : pass_point(comm, measurement, &end);
}

/* ---- Both ranks ----------------------------------------------------------------------------- */

static int follow(struct rondo_comm *comm, struct measurement *measurement)
{
	int32_t point;

	for (;;) {
		int err = pass_point(comm, measurement, &point);

		if (err || point < 0)
			return err;
		if (point >= RD_COST_POINT_COUNT || points[point] > comm->piece_size)
			return rd_comm_fail(comm,
				rd_fail(RONDO_PROTOCOL,
					"rank %d asked rank %d to measure rails at point %d",
					measurement->leader, comm->rank, (int)point),
				measurement->leader);
		err = run_rounds(comm, measurement, point);
		if (err)
			return err;
	}
}

int rd_calibrate_rails(struct rondo_comm *comm, int leader, int other, struct rd_link_cost *cost)
{
	struct measurement measurement = {
		.leader = leader,
		.other = other,
		.rails = (int)cost->rails,
		.one = { INT64_MAX, INT64_MAX },
		.all = { INT64_MAX, INT64_MAX },
	};
	size_t size = MESSAGES * (size_t)cost->rails * points[RD_COST_POINT_COUNT - 1];
	int err;

	measurement.bytes = rd_scratch_create(size);
	if (!measurement.bytes)
		return rd_comm_fail(
			comm, rd_fail(RONDO_MEMORY, "no memory to measure rails"), comm->rank);
	memset(measurement.bytes, 1, size);
	err = comm->rank == leader ? lead(comm, &measurement, cost) : follow(comm, &measurement);
	rd_scratch_destroy(measurement.bytes, size);
	return err;
}
