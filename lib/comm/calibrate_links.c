#include "comm/calibrate_links.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/calibrate_rails.h"
#include "comm/hold.h"
#include "comm/own_calls.h"
#include "comm/scratch.h"
#include "tuner/samples.h"

#define POINT(bytes) (bytes),
static const size_t points[RD_COST_POINT_COUNT] = { RD_COST_POINTS(POINT) };
#undef POINT

/* In this order: the ends soon, so that a point which is not reached lies between two that are.
   RD_SAMPLES_SLOPE_FROM comes first with the least effort, whatever the time: its result shows
   whether there is time for more. */
static const int points_order[] = { 0, 1, RD_SAMPLES_SLOPE_FROM, RD_SAMPLES_SLOPE_FROM, 5, 2, 4 };
#define POINTS_ORDER_COUNT ((int)(sizeof(points_order) / sizeof(points_order[0])))

/* The exchange of two ranks at a point: messages written into the link's slots, to and fro and in
   bursts; or single copies, to and fro. */
enum measurement { BY_SLOTS, BY_SINGLE_COPY, MEASUREMENT_COUNT };

/* The effort at a point: round trips, of which the quickest counts, after one for the caches; and
   bursts of `length` messages each. The leader takes the first that there is time for. The last is
   for RD_SAMPLES_SLOPE_FROM alone. */
static const struct effort {
	int pings, bursts, length;
} efforts[] = { { 8, 3, 8 }, { 2, 1, 4 }, { 1, 0, 0 } };
#define LEAST_EFFORT 2
#define EFFORT_COUNT 3
/* How often at most a time out of line is measured again, with the least effort. */
#define REPEATS 3

/* The most time for a pair of ranks on one host, and on two. */
#define BUDGET_NS INT64_C(7000000)
#define FAR_BUDGET_NS INT64_C(20000000)

/* ---- One point ------------------------------------------------------------------------------ */

static int send_one(
	struct rondo_comm *comm, struct measured_pair pair, bool back, void *bytes, size_t size)
{
	return rd_own_transfer(comm, back ? pair.other : pair.leader,
		back ? pair.leader : pair.other, bytes, size);
}

/* Sent bytes stay as they are, like a call's input: received bytes go behind them. */
static int pass_one(
	struct rondo_comm *comm, struct measured_pair pair, bool back, char *bytes, size_t size)
{
	bool sends = comm->rank == (back ? pair.other : pair.leader);

	return send_one(
		comm, pair, back, sends ? bytes : bytes + points[RD_COST_POINT_COUNT - 1], size);
}

/* Half the quickest round trip. */
static int ping(struct rondo_comm *comm, struct measured_pair pair, void *bytes, size_t size,
	int count, int64_t *way_ns)
{
	int err = 0;

	*way_ns = UINT32_MAX;
	for (int i = 0; i <= count && !err; i++) {
		int64_t began = rd_clock_ns(), took;

		err = pass_one(comm, pair, false, bytes, size);
		if (!err)
			err = pass_one(comm, pair, true, bytes, size);
		took = (rd_clock_ns() - began) / 2;
		if (i > 0 && took < *way_ns)
			*way_ns = took;
	}
	return err;
}

/* A message's share of a burst. The other rank's empty message ends it. */
static int burst(struct rondo_comm *comm, struct measured_pair pair, void *bytes, size_t size,
	int length, int64_t *busy_ns)
{
	int64_t began = rd_clock_ns(), took;
	int err = 0;

	for (int k = 0; k < length && !err; k++)
		err = pass_one(comm, pair, false, bytes, size);
	if (!err)
		err = pass_one(comm, pair, true, bytes, 0);
	took = (rd_clock_ns() - began) / (length + 1);
	if (took < *busy_ns)
		*busy_ns = took;
	return err;
}

/* One measurement at a point, as rd_link_cost has it. busy_ns: by slots alone. */
struct sample {
	int64_t way_ns, busy_ns;
};

static int measure_point(struct rondo_comm *comm, struct measured_pair pair, void *bytes,
	size_t size, enum measurement what, const struct effort *effort, struct sample *sample)
{
	int bursts = what == BY_SLOTS ? effort->bursts : 0, err;

	comm->single_copy = what == BY_SLOTS ? RD_SINGLE_COPY_NEVER : RD_SINGLE_COPY_ALWAYS;
	sample->busy_ns = UINT32_MAX;
	err = ping(comm, pair, bytes, size, effort->pings, &sample->way_ns);
	for (int i = 0; i < bursts && !err; i++)
		err = burst(comm, pair, bytes, size, effort->length, &sample->busy_ns);
	if (sample->busy_ns > sample->way_ns)
		sample->busy_ns = sample->way_ns;
	return err;
}

/* ---- The leader ----------------------------------------------------------------------------- */

/* The effort for a point; -1: there is no time for it. */
static int affordable(int64_t message_ns, int64_t left_ns)
{
	for (int i = 0; i < LEAST_EFFORT; i++) {
		const struct effort *effort = &efforts[i];
		int messages = 2 * (effort->pings + 1) + effort->bursts * (effort->length + 1);

		if (messages * message_ns <= (left_ns > 0 ? left_ns / 2 : 0))
			return i;
	}
	return -1;
}

/* Sends the next point and effort to the other rank; point -1: there is no more. */
static int send_next(struct rondo_comm *comm, struct measured_pair pair, int point,
	enum measurement what, int effort)
{
	int32_t next =
		point < 0 ? -1 : (point * MEASUREMENT_COUNT + (int)what) * EFFORT_COUNT + effort;

	return send_one(comm, pair, false, &next, sizeof(next));
}

/* All points of one measurement. `busy`: by slots alone. */
struct series {
	enum measurement what;
	struct rd_samples ways, busy;
	int64_t deadline_ns, latest_ns;
};

static int take_sample(struct rondo_comm *comm, struct measured_pair pair, void *bytes, int point,
	int effort, struct series *series)
{
	struct sample sample;
	int err = send_next(comm, pair, point, series->what, effort);

	if (!err)
		err = measure_point(
			comm, pair, bytes, points[point], series->what, &efforts[effort], &sample);
	if (err)
		return err;
	rd_samples_add(&series->ways, point, (uint32_t)sample.way_ns);
	if (series->what == BY_SLOTS)
		rd_samples_add(&series->busy, point, (uint32_t)sample.busy_ns);
	return 0;
}

/* A time out of line is measured again, whatever the time. If it was a disturbance, its time is
   added to the deadline, so that it does not leave the other points unmeasured. */
static int measure_repeatedly(struct rondo_comm *comm, struct measured_pair pair, void *bytes,
	int point, int effort, struct series *series)
{
	int64_t began = rd_clock_ns();
	int err = take_sample(comm, pair, bytes, point, effort, series);
	uint32_t first = series->ways.least[point];

	for (int i = 0; i < REPEATS && !err && rd_samples_doubt(&series->ways, point); i++)
		err = take_sample(comm, pair, bytes, point, LEAST_EFFORT, series);
	if (first / 2 > series->ways.least[point])
		series->deadline_ns += rd_clock_ns() - began;
	if (series->deadline_ns > series->latest_ns)
		series->deadline_ns = series->latest_ns;
	return err;
}

static int measure_series(struct rondo_comm *comm, struct measured_pair pair, void *bytes,
	int64_t budget_ns, const struct rd_link_cost *cost, struct series *series)
{
	bool single_copy = series->what == BY_SINGLE_COPY;
	int err = 0;

	series->deadline_ns = rd_clock_ns() + budget_ns;
	series->latest_ns = series->deadline_ns + budget_ns;
	for (int i = 0; i < POINTS_ORDER_COUNT && !err; i++) {
		int point = points_order[i];
		bool known = series->ways.measured >> point & 1;
		bool first = point == RD_SAMPLES_SLOPE_FROM && !known && !single_copy;
		int64_t message_ns =
			single_copy ? cost->way_ns[point] : rd_samples_expect(&series->ways, point);
		int effort = first ? LEAST_EFFORT
				   : affordable(message_ns, series->deadline_ns - rd_clock_ns());

		if (effort >= 0 && points[point] <= comm->piece_size &&
			!(single_copy && (known || points[point] < cost->posts_min)))
			err = measure_repeatedly(comm, pair, bytes, point, effort, series);
	}
	return err;
}

static int lead(struct rondo_comm *comm, struct measured_pair pair, bool oversubscribed,
	void *bytes, int64_t budget_ns, struct rd_link_cost *cost)
{
	const struct rd_link_cost standard = *cost;
	struct series slots = { .what = BY_SLOTS };
	struct series single_copy = { .what = BY_SINGLE_COPY, .ways.alike = cost->way_ns };
	int err = measure_series(comm, pair, bytes, budget_ns, cost, &slots);

	if (err)
		return err;

	const struct rd_link *link = comm->links[pair.other * comm->channels];

	rd_samples_settle(&slots.ways, standard.way_ns, cost->way_ns);
	rd_samples_settle(&slots.busy, standard.busy_ns, cost->busy_ns);
	cost->posts = link->ops->send != NULL && link->send_min < UINT32_MAX;
	cost->posts_min = cost->posts ? (uint32_t)link->send_min : 0;
	cost->single_copy = cost->posts && link->single_copy;
	if (cost->single_copy && !oversubscribed)
		err = measure_series(comm, pair, bytes, budget_ns, cost, &single_copy);
	for (int point = 0; point < RD_COST_POINT_COUNT; point++)
		cost->single_copy_ns[point] =
			single_copy.ways.measured >> point & 1 &&
					!rd_samples_doubt(&single_copy.ways, point)
				? single_copy.ways.least[point]
				: cost->way_ns[point];
	return err ? err : send_next(comm, pair, -1, BY_SLOTS, 0);
}

/* ---- Both ranks ----------------------------------------------------------------------------- */

static int follow(struct rondo_comm *comm, struct measured_pair pair, void *bytes)
{
	struct sample ignored;
	int32_t next;
	int err, what;

	for (;;) {
		err = send_one(comm, pair, false, &next, sizeof(next));
		if (err || next < 0)
			return err;
		if (next >= RD_COST_POINT_COUNT * MEASUREMENT_COUNT * EFFORT_COUNT)
			return rd_comm_fail(comm,
				rd_fail(RONDO_PROTOCOL, "rank %d asked rank %d for measurement %d",
					pair.leader, comm->rank, (int)next),
				pair.leader);
		what = next / EFFORT_COUNT % MEASUREMENT_COUNT;
		err = measure_point(comm, pair, bytes,
			points[next / EFFORT_COUNT / MEASUREMENT_COUNT], (enum measurement)what,
			&efforts[next % EFFORT_COUNT], &ignored);
		if (err)
			return err;
	}
}

static bool takes_part(const struct rondo_comm *comm, struct measured_pair pair)
{
	return comm->rank == pair.leader || comm->rank == pair.other;
}

/* Measures *cost on the leader, which sends it to rank 0. */
static int calibrate_pair(struct rondo_comm *comm, struct measured_pair pair, bool oversubscribed,
	void *bytes, int64_t budget_ns, struct rd_link_cost *cost)
{
	int err = 0;

	if (comm->rank == pair.leader)
		err = lead(comm, pair, oversubscribed, bytes, budget_ns, cost);
	else if (comm->rank == pair.other)
		err = follow(comm, pair, bytes);
	if (!err && takes_part(comm, pair) && cost->rails > 1)
		err = rd_calibrate_rails(comm, pair.leader, pair.other, cost);
	if (!err && pair.leader != 0 && (comm->rank == 0 || comm->rank == pair.leader))
		err = rd_own_transfer(comm, pair.leader, 0, cost, sizeof(*cost));
	return err;
}

/* The ranks of a host follow each other along the line. */
struct measured_pair rd_calibrate_pair(const struct rondo_comm *comm, enum rd_link_class class)
{
	const int *host = comm->layouts[0]->group, *order = comm->layouts[0]->order;

	for (int i = 1; i < comm->size; i++) {
		bool near = host[order[i]] == host[order[i - 1]];

		if (near == (class == RD_NEAR))
			return (struct measured_pair){ order[i - 1], order[i] };
	}
	return (struct measured_pair){ -1, -1 };
}

int rd_calibrate_links(struct rondo_comm *comm, bool oversubscribed)
{
	struct measured_pair near = rd_calibrate_pair(comm, RD_NEAR);
	struct measured_pair far = rd_calibrate_pair(comm, RD_FAR);
	struct rd_link_cost *costs = comm->costs.links;
	size_t size = points[RD_COST_POINT_COUNT - 1];
	void *bytes = NULL;
	int err = 0;

	if (takes_part(comm, near) || takes_part(comm, far)) {
		bytes = rd_scratch_create(2 * size);
		if (!bytes)
			return rd_comm_fail(comm,
				rd_fail(RONDO_MEMORY, "no memory to measure links"), comm->rank);
		/* Memory that was never written is one page of zeros, and always in a cache. */
		memset(bytes, 1, 2 * size);
	}
	if (near.leader >= 0)
		err = calibrate_pair(comm, near, oversubscribed, bytes, BUDGET_NS, &costs[RD_NEAR]);
	if (!err && far.leader >= 0)
		err = calibrate_pair(
			comm, far, oversubscribed, bytes, FAR_BUDGET_NS, &costs[RD_FAR]);
	rd_scratch_destroy(bytes, 2 * size);
	return err;
}

void rd_calibrate_trim(struct rondo_comm *comm)
{
	struct measured_pair near = rd_calibrate_pair(comm, RD_NEAR);
	int peer = comm->rank == near.leader ? near.other : near.leader;
	struct rd_link *link;

	if (!takes_part(comm, near) || !rd_hold(comm))
		return;
	link = comm->links[peer * comm->channels];
	if (link && link->transport->trim)
		link->transport->trim(link);
	rd_unhold(comm);
}
