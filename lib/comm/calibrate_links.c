#include "comm/calibrate_links.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/calibrate_rails.h"
#include "comm/hold.h"
#include "comm/own_calls.h"
#include "comm/scratch.h"
#include "topo/cpus.h"
#include "tuner/samples.h"
#include "tuner/step_cost.h"

#define POINT(bytes) (bytes),
static const size_t points[RD_COST_POINT_COUNT] = { RD_COST_POINTS(POINT) };
#undef POINT

/* In this order: the ends soon, so that a point which is not reached lies between two that are. Two
   come first with the least effort, whatever the time: the result shows whether there is time for
   more. */
static const int points_order[] = { 0, 0, 1, RD_SAMPLES_SLOPE_FROM, RD_SAMPLES_SLOPE_FROM, 5, 2,
	4 };
#define POINTS_ORDER_COUNT ((int)(sizeof(points_order) / sizeof(points_order[0])))

/* The effort at a point, for messages through the link's slots: round trips, of which the quickest
   counts; and bursts of `length` messages one way, each with as many exchanges. The leader takes
   the first that there is time for. The last is for the two points that come twice. */
static const struct effort {
	int pings, bursts, length;
} efforts[] = { { 8, 2, 8 }, { 2, 1, 4 }, { 1, 0, 0 } };
#define LEAST_EFFORT 2
#define EFFORT_COUNT 3
/* How often at most a time out of line is measured again, with the least effort. */
#define REPEATS 3
/* How many samples of a pair at most are taken again because both ranks were on one core. */
#define ONE_CORE_REPEATS 4

/* The time for a pair of ranks on two hosts. */
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

/* Round trips that do not count: the first messages of a size find slots whose lines are in other
   caches than later ones do, or without pages. A slow network has time for one alone. */
static int rounds_before(const struct rondo_comm *comm, const struct effort *effort)
{
	return effort->bursts > 0 ? comm->settings.slots : 1;
}

/* Half the quickest round trip. */
static int ping(struct rondo_comm *comm, struct measured_pair pair, void *bytes, size_t size,
	const struct effort *effort, int64_t *way_ns)
{
	int before = rounds_before(comm, effort), err = 0;

	*way_ns = UINT32_MAX;
	for (int i = 0; i < before + effort->pings && !err; i++) {
		int64_t began = rd_clock_ns(), took;

		err = pass_one(comm, pair, false, bytes, size);
		if (!err)
			err = pass_one(comm, pair, true, bytes, size);
		took = (rd_clock_ns() - began) / 2;
		if (i >= before && took < *way_ns)
			*way_ns = took;
	}
	return err;
}

/* One measurement at a point, as rd_link_cost has it. */
struct sample {
	int64_t way_ns, busy_ns, both_ns, send_ns, recv_ns;
	bool by_turns; /* each rank's part is measured while the other does nothing */
	bool one_core; /* both ranks ended it on one core */
};

/* A message's share of a burst, which the other rank's message ends: two go all the way. */
static int burst(struct rondo_comm *comm, struct measured_pair pair, void *bytes, size_t size,
	int length, struct sample *sample)
{
	int64_t began = rd_clock_ns(), took;
	int err = 0;

	for (int k = 0; k < length && !err; k++)
		err = pass_one(comm, pair, false, bytes, size);
	if (!err)
		err = pass_one(comm, pair, true, bytes, size);
	took = rd_clock_ns() - began - 2 * sample->way_ns;
	sample->busy_ns = rd_shorter(sample->busy_ns, rd_longer(took, 0) / (length - 1));
	return err;
}

/* The quickest exchange counts. One before them brings the ranks together. */
static int exchange(struct rondo_comm *comm, struct measured_pair pair, char *bytes, size_t size,
	int count, struct sample *sample)
{
	int peer = comm->rank == pair.leader ? pair.other : pair.leader, err = 0;

	for (int i = 0; i <= count && !err; i++) {
		int64_t began = rd_clock_ns();

		err = rd_own_exchange(
			comm, peer, bytes, bytes + points[RD_COST_POINT_COUNT - 1], size);
		if (i > 0)
			sample->both_ns = rd_shorter(sample->both_ns, rd_clock_ns() - began);
	}
	return err;
}

static int time_messages(struct rondo_comm *comm, int from, int to, char *bytes, size_t size,
	int count, int64_t *took_ns)
{
	int64_t began = rd_clock_ns();
	int err = 0;

	for (int k = 0; k < count && !err; k++)
		err = rd_own_transfer(comm, from, to, bytes, size);
	*took_ns = rd_clock_ns() - began;
	return err;
}

/*
 * Messages of which each rank does its part while the other does nothing, as ranks do that share a
 * core: where both run, they wait for each other's locks and cache lines in the kernel. The other
 * rank yields until all have come, and answers with its time. Transfers to the rank itself move
 * nothing: the time of their calls does not count. The first ones make their plan.
 */
static int take_turns(struct rondo_comm *comm, struct measured_pair pair, char *bytes, size_t size,
	int count, struct sample *sample)
{
	bool leads = comm->rank == pair.leader;
	char *place = leads ? bytes : bytes + points[RD_COST_POINT_COUNT - 1];
	int64_t idle_ns = 0, took_ns = 0, began;
	int64_t all_ns = rd_shorter(count * sample->way_ns, RD_CALIBRATE_NS);
	int err = pass_one(comm, pair, true, bytes, 0);

	for (int i = 0; i < 2 && !err; i++)
		err = time_messages(comm, comm->rank, comm->rank, bytes, 0, count, &idle_ns);
	began = rd_clock_ns();
	while (!leads && rd_clock_ns() - began < all_ns)
		sched_yield();
	if (!err)
		err = time_messages(comm, pair.leader, pair.other, place, size, count, &took_ns);
	took_ns = rd_longer(took_ns - idle_ns, count) / count;
	if (leads)
		sample->send_ns = rd_shorter(sample->send_ns, took_ns);
	if (!err)
		err = send_one(comm, pair, true, &took_ns, sizeof(took_ns));
	if (leads)
		sample->recv_ns = rd_shorter(sample->recv_ns, took_ns);
	return err;
}

/* A rank's core, and the number of those that it may run on. */
struct own_core {
	int32_t core, allowed;
};

/* Ranks with a core each may stay on one while they only wait for each other: each message takes a
   switch then, as hardly any of a later call does. One of them moves to another core. */
static int leave_one_core(struct rondo_comm *comm, struct measured_pair pair, bool *one_core)
{
	const int *host = comm->layouts[0]->group;
	int peer = comm->rank == pair.leader ? pair.other : pair.leader;
	struct rd_cpus cpus;
	struct own_core here = { sched_getcpu(),
		rd_cpus_allowed(&cpus) ? rd_cpus_count(&cpus) : 0 };
	struct own_core there = { -1, 0 };
	int err = 0;

	if (host[pair.leader] == host[pair.other])
		err = rd_own_exchange(comm, peer, &here, &there, sizeof(here));
	*one_core = here.core >= 0 && here.core == there.core && !comm->oversubscribed;
	/* The leader moves where the other rank may not. */
	if (*one_core && (comm->rank == pair.other || there.allowed == 1))
		rd_cpus_leave(here.core);
	return err;
}

/* The points whose samples decide on others: how long those may take, and whether messages go past
   the caches. They come twice. Both ranks know the point, so that neither waits for a message that
   never comes. */
static bool matters_most(int point)
{
	return point == 0 || point == RD_SAMPLES_SLOPE_FROM;
}

static int measure_point(struct rondo_comm *comm, struct measured_pair pair, void *bytes, int point,
	const struct effort *effort, struct sample *sample)
{
	size_t size = points[point];
	int err = ping(comm, pair, bytes, size, effort, &sample->way_ns);

	sample->busy_ns = sample->both_ns = sample->send_ns = sample->recv_ns = UINT32_MAX;
	for (int i = 0; i < effort->bursts && !err; i++) {
		err = burst(comm, pair, bytes, size, effort->length, sample);
		if (!err)
			err = exchange(comm, pair, bytes, size, effort->length, sample);
		if (!err && sample->by_turns)
			err = take_turns(comm, pair, bytes, size, comm->settings.slots, sample);
	}
	sample->busy_ns = rd_shorter(sample->busy_ns, sample->way_ns);
	sample->one_core = false;
	return err || !matters_most(point) ? err : leave_one_core(comm, pair, &sample->one_core);
}

/* ---- The leader ----------------------------------------------------------------------------- */

/* Whether the pair shares cores with other ranks, and the kernel carries its messages. */
static bool takes_turns(const struct rondo_comm *comm, struct measured_pair pair)
{
	const struct rd_link *link = comm->links[pair.other * comm->channels];
	const int *host = comm->layouts[0]->group;

	return comm->oversubscribed && host[pair.leader] == host[pair.other] && link->ops->send &&
	       link->send_min < UINT32_MAX && !link->single_copy;
}

/* The effort for a point; -1: there is no time for it. */
static int affordable(const struct rondo_comm *comm, struct measured_pair pair, int64_t message_ns,
	int64_t left_ns)
{
	int by_turns = takes_turns(comm, pair) ? 2 * (comm->settings.slots + 1) : 0;

	for (int i = 0; i < LEAST_EFFORT; i++) {
		const struct effort *effort = &efforts[i];
		int messages = 2 * (effort->pings + rounds_before(comm, effort)) +
			       effort->bursts * (3 * (effort->length + 1) + by_turns);

		if (messages * message_ns <= (left_ns > 0 ? left_ns / 2 : 0))
			return i;
	}
	return -1;
}

/* Sends the next point and effort to the other rank, and how both measure; point -1: there is no
   more. */
static int send_next(struct rondo_comm *comm, struct measured_pair pair, int point, int effort)
{
	int past = (int)comm->costs.links[RD_NEAR].past_caches;
	int32_t next = (point * EFFORT_COUNT + effort) * 4 + 2 * takes_turns(comm, pair) + past;

	next = point < 0 ? -1 : next;
	return send_one(comm, pair, false, &next, sizeof(next));
}

/* All points. */
struct series {
	struct rd_samples ways, busy, both, sends, recvs;
	int64_t deadline_ns, latest_ns, give_up_ns;
	int one_core_repeats;
	bool one_core; /* during the last sample */
};

static int take_sample(struct rondo_comm *comm, struct measured_pair pair, void *bytes, int point,
	int effort, struct series *series)
{
	struct sample sample = { .by_turns = takes_turns(comm, pair) };
	int err = send_next(comm, pair, point, effort);

	if (!err)
		err = measure_point(comm, pair, bytes, point, &efforts[effort], &sample);
	if (err)
		return err;
	rd_samples_add(&series->ways, point, (uint32_t)sample.way_ns);
	rd_samples_add(&series->busy, point, (uint32_t)sample.busy_ns);
	if (efforts[effort].bursts > 0)
		rd_samples_add(&series->both, point, (uint32_t)sample.both_ns);
	if (efforts[effort].bursts > 0 && sample.by_turns) {
		rd_samples_add(&series->sends, point, (uint32_t)sample.send_ns);
		rd_samples_add(&series->recvs, point, (uint32_t)sample.recv_ns);
	}
	series->one_core = sample.one_core;
	return 0;
}

/* A sample of one core is taken again while there is time. On a busy machine two cores take the
   longer, as neither rank may run when the other does. */
static int take_apart(struct rondo_comm *comm, struct measured_pair pair, void *bytes, int point,
	int effort, struct series *series)
{
	int err = take_sample(comm, pair, bytes, point, effort, series);

	while (!err && series->one_core && series->one_core_repeats < ONE_CORE_REPEATS &&
		rd_clock_ns() < series->deadline_ns) {
		series->one_core_repeats++;
		err = take_sample(comm, pair, bytes, point, effort, series);
	}
	return err;
}

/* A time out of line is measured again, also past the deadline. If it was a disturbance, its time
   is added to the deadline, so that it does not leave the other points unmeasured. */
static int measure_repeatedly(struct rondo_comm *comm, struct measured_pair pair, void *bytes,
	int point, int effort, struct series *series)
{
	int64_t began = rd_clock_ns();
	int err = take_apart(comm, pair, bytes, point, effort, series);
	uint32_t first = series->ways.least[point];

	for (int i = 0; i < REPEATS && !err && rd_clock_ns() < series->give_up_ns &&
			rd_samples_doubt(&series->ways, point);
		i++)
		err = take_sample(comm, pair, bytes, point, LEAST_EFFORT, series);
	if (first / 2 > series->ways.least[point])
		series->deadline_ns += rd_clock_ns() - began;
	if (series->deadline_ns > series->latest_ns)
		series->deadline_ns = series->latest_ns;
	return err;
}

static bool gains(const struct series *past, const struct series *through)
{
	uint32_t through_ns = through->ways.least[RD_SAMPLES_SLOPE_FROM];

	return past->ways.least[RD_SAMPLES_SLOPE_FROM] < through_ns - through_ns / RD_PAST_GAIN;
}

/* Whether messages go past the caches from now on. The series has samples through them of the point
   that shows it. They may be disturbed, or of one core, so a gain takes one more. */
static int try_past(struct rondo_comm *comm, struct measured_pair pair, void *bytes, int effort,
	struct series *series)
{
	const int point = RD_SAMPLES_SLOPE_FROM;
	uint32_t *past = &comm->costs.links[RD_NEAR].past_caches;
	struct series through = *series;
	int err;

	if (comm->oversubscribed || !comm->links[pair.other * comm->channels]->shares_room)
		return 0;
	*past = 1;
	err = take_apart(comm, pair, bytes, point, effort, series);
	*past = 0;
	if (!err && gains(series, &through))
		err = take_apart(comm, pair, bytes, point, effort, &through);
	*past = gains(series, &through);
	if (!*past)
		*series = through;
	return err;
}

static int measure_series(struct rondo_comm *comm, struct measured_pair pair, void *bytes,
	int64_t budget_ns, struct series *series)
{
	int err = 0;

	comm->single_copy = RD_SINGLE_COPY_NEVER;
	series->deadline_ns = rd_clock_ns() + budget_ns;
	series->latest_ns = series->deadline_ns + budget_ns;
	series->give_up_ns = rd_clock_ns() + RD_CALIBRATE_PATIENCE * budget_ns;
	for (int i = 0; i < POINTS_ORDER_COUNT && !err && rd_clock_ns() < series->give_up_ns; i++) {
		int point = points_order[i];
		bool known = series->ways.measured >> point & 1;
		/* The first messages take longer than others. */
		int64_t until_ns = point == 0 ? series->give_up_ns : series->deadline_ns;
		int64_t message_ns = rd_samples_expect(&series->ways, point);
		int effort = matters_most(point) && !known
				     ? LEAST_EFFORT
				     : affordable(comm, pair, message_ns, until_ns - rd_clock_ns());

		if (effort >= 0 && points[point] <= comm->piece_size)
			err = measure_repeatedly(comm, pair, bytes, point, effort, series);
		if (point == RD_SAMPLES_SLOPE_FROM && known && !err)
			err = try_past(
				comm, pair, bytes, effort < 0 ? LEAST_EFFORT : effort, series);
	}
	return err;
}

/* Two tasks take longer than one, without any bytes. A collective call is one. */
static void leave_out_tasks(struct rd_link_cost *cost)
{
	uint32_t more_ns =
		cost->both_ns[0] > cost->way_ns[0] ? cost->both_ns[0] - cost->way_ns[0] : 0;

	for (int point = 0; point < RD_COST_POINT_COUNT; point++)
		cost->both_ns[point] -= more_ns;
}

static int lead(struct rondo_comm *comm, struct measured_pair pair, void *bytes, int64_t budget_ns,
	struct rd_link_cost *cost)
{
	const struct rd_link_cost standard = *cost;
	struct series series = { .ways.measured = 0 };
	int err = measure_series(comm, pair, bytes, budget_ns, &series);

	if (err)
		return err;

	const struct rd_link *link = comm->links[pair.other * comm->channels];

	rd_samples_settle(&series.ways, standard.way_ns, cost->way_ns);
	rd_samples_settle(&series.busy, standard.busy_ns, cost->busy_ns);
	rd_samples_settle(&series.both, standard.both_ns, cost->both_ns);
	if (series.sends.measured) {
		rd_samples_settle(&series.sends, standard.busy_ns, cost->send_ns);
		rd_samples_settle(&series.recvs, standard.busy_ns, cost->recv_ns);
	}
	leave_out_tasks(cost);
	cost->posts = link->ops->send != NULL && link->send_min < UINT32_MAX;
	cost->posts_min = cost->posts ? (uint32_t)link->send_min : 0;
	cost->single_copy = cost->posts && link->single_copy;
	return send_next(comm, pair, -1, 0);
}

/* ---- Both ranks ----------------------------------------------------------------------------- */

static int follow(struct rondo_comm *comm, struct measured_pair pair, void *bytes)
{
	struct sample sample;
	int32_t next;
	int err;

	comm->single_copy = RD_SINGLE_COPY_NEVER;

	for (;;) {
		err = send_one(comm, pair, false, &next, sizeof(next));
		if (err || next < 0)
			return err;
		if (next >= RD_COST_POINT_COUNT * EFFORT_COUNT * 4)
			return rd_comm_fail(comm,
				rd_fail(RONDO_PROTOCOL, "rank %d asked rank %d for measurement %d",
					pair.leader, comm->rank, (int)next),
				pair.leader);
		comm->costs.links[RD_NEAR].past_caches = next % 2;
		sample.by_turns = next / 2 % 2;
		err = measure_point(comm, pair, bytes, next / 4 / EFFORT_COUNT,
			&efforts[next / 4 % EFFORT_COUNT], &sample);
		if (err)
			return err;
	}
}

static bool takes_part(const struct rondo_comm *comm, struct measured_pair pair)
{
	return comm->rank == pair.leader || comm->rank == pair.other;
}

/* Measures *cost on the leader, which sends it to rank 0. */
static int calibrate_pair(struct rondo_comm *comm, struct measured_pair pair, void *bytes,
	int64_t budget_ns, struct rd_link_cost *cost)
{
	int err = 0;

	/* Opens the link, whose kind decides how to measure. */
	if (takes_part(comm, pair))
		err = pass_one(comm, pair, false, bytes, 0);
	if (err)
		return err;
	if (comm->rank == pair.leader)
		err = lead(comm, pair, bytes, budget_ns, cost);
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

int rd_calibrate_links(struct rondo_comm *comm, bool *gave_up)
{
	struct measured_pair near = rd_calibrate_pair(comm, RD_NEAR);
	struct measured_pair far = rd_calibrate_pair(comm, RD_FAR);
	struct rd_link_cost *costs = comm->costs.links;
	size_t size = points[RD_COST_POINT_COUNT - 1];
	int64_t began_ns = rd_clock_ns();
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
		err = calibrate_pair(comm, near, bytes, RD_CALIBRATE_NS, &costs[RD_NEAR]);
	*gave_up = rd_clock_ns() - began_ns >= RD_CALIBRATE_PATIENCE * RD_CALIBRATE_NS;
	if (!err && far.leader >= 0)
		err = calibrate_pair(comm, far, bytes, FAR_BUDGET_NS, &costs[RD_FAR]);
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
