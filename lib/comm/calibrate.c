#include "comm/calibrate.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/calibrate_links.h"
#include "comm/calibrate_memory.h"
#include "comm/comm.h"
#include "comm/own_calls.h"
#include "comm/route.h"
#include "mesh/mesh.h"
#include "tuner/cost_file.h"
#include "tuner/predict.h"
#include "tuner/settle.h"
#include "tuner/tuner_rows.h"

/* Barriers that are timed; the quickest counts. They are of at most BARRIER_RANKS ranks of
   rank 0's host. */
#define BARRIERS 12
#define BARRIER_RANKS 16
/* From the order to start a barrier until the ranks start it. */
#define START_NS 100000

/* The time after which costs are not measured again, whatever they are. One measurement takes some
   10 ms, and longer where the machine is busy. */
#define SETTLE_MS 50

#define LINKS_SIZE 40 /* bytes for the description of links */

static int host_of(const struct rondo_comm *comm, int rank)
{
	return comm->layouts[0]->group[rank];
}

/* ---- Ranks that measure --------------------------------------------------------------------- */

/* Rank 0 comes first. The same on every rank. */
struct team {
	int ranks[BARRIER_RANKS + 4];
	int count;
	int near; /* the first so many are on rank 0's host */
	int at; /* this rank's index; -1: it does not measure */
};

static void add(struct team *team, int rank)
{
	for (int i = 0; i < team->count; i++)
		if (team->ranks[i] == rank)
			return;
	team->ranks[team->count++] = rank;
}

static void add_pair(struct team *team, const struct rondo_comm *comm, enum rd_link_class class)
{
	struct measured_pair pair = rd_calibrate_pair(comm, class);

	if (pair.leader < 0)
		return;
	add(team, pair.leader);
	add(team, pair.other);
}

static struct team choose_team(const struct rondo_comm *comm)
{
	struct team team = { .ranks = { 0 }, .count = 1, .at = -1 };

	for (int rank = 1; rank < comm->size && team.count < BARRIER_RANKS; rank++)
		if (host_of(comm, rank) == host_of(comm, 0))
			add(&team, rank);
	team.near = team.count;
	add_pair(&team, comm, RD_NEAR);
	add_pair(&team, comm, RD_FAR);
	for (int i = 0; i < team.count; i++)
		if (team.ranks[i] == comm->rank)
			team.at = i;
	return team;
}

/* ---- Cores that ranks share ----------------------------------------------------------------- */

/* A barrier is of transfers, each of which is a call: the quickest of some to the rank itself shows
   how long that takes. Messages measured by turns are without it. */
static void add_calls(struct rondo_comm *comm, struct rd_link_cost *near)
{
	int64_t call_ns = START_NS;

	if (near->recv_ns[0] == 0)
		return;
	for (int i = 0; i < BARRIERS; i++) {
		int64_t began_ns = rd_clock_ns();

		if (rd_own_transfer(comm, comm->rank, comm->rank, NULL, 0))
			return;
		call_ns = rd_shorter(call_ns, rd_clock_ns() - began_ns);
	}
	near->send_ns[0] += (uint32_t)call_ns;
	near->recv_ns[0] += (uint32_t)call_ns;
}

/* Finds the cost of a switch for which the predicted time of a barrier is the measured one. */
static void fit_switch(struct rondo_comm *comm, int ranks, int64_t measured_ns)
{
	struct rd_costs costs = comm->costs;
	struct rd_problem problem = { .collective = RD_BARRIER, .size = ranks };
	struct rd_cut cut = { 0, RD_WHOLE, comm->piece_size, 1 };
	uint32_t low = 0, high = 50000;
	struct rd_schedule *schedule;

	if (rd_schedule_create(&schedule, &rd_linear, &problem))
		return;
	add_calls(comm, &costs.links[RD_NEAR]);
	while (low + 50 < high) {
		costs.switch_ns = (low + high) / 2;
		if (rd_predict(schedule, &costs, &cut) < measured_ns)
			low = costs.switch_ns;
		else
			high = costs.switch_ns;
	}
	comm->costs.switch_ns = costs.switch_ns;
	rd_schedule_destroy(schedule);
}

/* The times of a barrier on one rank, by the clock that the ranks of a host share. */
struct barrier_times {
	int64_t start_ns; /* of all ranks */
	int64_t began_ns, ended_ns;
};

/* Yields until `at_ns`. On a host whose ranks have different clocks, returns at once. */
static int64_t await_start(int64_t at_ns)
{
	int64_t now_ns = rd_clock_ns();

	while (now_ns < at_ns && at_ns - now_ns <= START_NS) {
		sched_yield();
		now_ns = rd_clock_ns();
	}
	return now_ns;
}

/* Barriers that the ranks start together, as they do a call: each ends before the next begins. Rank
   0 gives up for all. */
static int time_barriers(struct rondo_comm *comm, const struct team *team,
	struct barrier_times times[BARRIERS], bool *gave_up)
{
	int64_t give_up_ns = rd_clock_ns() + RD_CALIBRATE_PATIENCE * RD_CALIBRATE_NS;
	int err = 0;

	for (int i = 0; i < BARRIERS && !err; i++) {
		int64_t now_ns = rd_clock_ns();
		int64_t at_ns = *gave_up || now_ns >= give_up_ns ? 0 : now_ns + START_NS;

		err = rd_own_broadcast(
			comm, team->ranks, team->near, team->at, &at_ns, sizeof(at_ns));
		*gave_up = at_ns == 0;
		if (err || *gave_up)
			break;
		times[i] =
			(struct barrier_times){ .start_ns = at_ns, .began_ns = await_start(at_ns) };
		err = rd_own_barrier(comm, team->ranks, team->near, team->at);
		times[i].ended_ns = rd_clock_ns();
	}
	return err;
}

/* On rank 0: the latest end of each barrier, over the ranks whose clock is its own. */
static int add_times(
	struct rondo_comm *comm, const struct team *team, struct barrier_times times[BARRIERS])
{
	struct barrier_times there[BARRIERS];
	size_t size = sizeof(there);
	int err = 0;

	if (team->at > 0)
		return rd_own_transfer(comm, comm->rank, 0, times, size);
	for (int k = 1; k < team->near && !err; k++) {
		err = rd_own_transfer(comm, team->ranks[k], 0, there, size);
		for (int i = 0; i < BARRIERS && !err; i++) {
			if (there[i].began_ns > times[i].ended_ns ||
				there[i].ended_ns < times[i].began_ns)
				continue;
			times[i].ended_ns = rd_longer(times[i].ended_ns, there[i].ended_ns);
		}
	}
	return err;
}

static int64_t least_ns(const struct barrier_times times[BARRIERS])
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < BARRIERS; i++)
		least = rd_shorter(least, times[i].ended_ns - times[i].start_ns);
	return least;
}

static int calibrate_switch(struct rondo_comm *comm, const struct team *team, bool *gave_up)
{
	struct barrier_times times[BARRIERS];
	int err = time_barriers(comm, team, times, gave_up);

	if (err || *gave_up)
		return err;
	err = add_times(comm, team, times);
	if (!err && comm->rank == 0)
		fit_switch(comm, team->near, least_ns(times));
	return err;
}

/* ---- The whole ------------------------------------------------------------------------------ */

/* The transport to such a peer, and its rails where there are several: "tcp over 2 rails". */
static void describe_links(
	const struct rondo_comm *comm, enum rd_link_class class, char text[LINKS_SIZE])
{
	const struct rd_member *members = rd_control_members(comm->control);
	const char *name = "none";

	for (int peer = comm->size - 1; peer >= 0; peer--)
		if (peer != comm->rank &&
			(host_of(comm, peer) == host_of(comm, comm->rank)) == (class == RD_NEAR))
			name = rd_route_cheapest(comm, members, peer, 0)->transport->name;
	if (comm->rails[class] > 1)
		snprintf(text, LINKS_SIZE, "%s over %u rails", name, comm->rails[class]);
	else
		snprintf(text, LINKS_SIZE, "%s", name);
}

/* Describes the conditions of the measurement; on rank 0. Older files say "cores" also where ranks
   share them: their cost of a switch was measured otherwise, and is not found. */
static void describe(const struct rondo_comm *comm, char key[RD_COST_KEY_SIZE])
{
	int hosts = comm->layouts[0]->group_count;
	char near[LINKS_SIZE], far[LINKS_SIZE];

	describe_links(comm, RD_NEAR, near);
	describe_links(comm, RD_FAR, far);
	snprintf(key, RD_COST_KEY_SIZE,
		"%s, %d ranks on %d host%s, %u %scores, near %s, far %s, pieces of %zu",
		comm->local.place.host_name, comm->size, hosts, hosts == 1 ? "" : "s",
		comm->costs.cores, comm->oversubscribed ? "shared " : "", near, far,
		comm->piece_size);
	for (char *c = key; *c; c++)
		if (*c == '\n' || *c == ']')
			*c = '?';
}

/* Rank 0 sends it to the team before the first measurement, and after each. */
struct order {
	struct rd_costs costs;
	uint32_t measure; /* 0: the costs are known */
};

static int pass_order(struct rondo_comm *comm, const struct team *team, struct order *order)
{
	return rd_own_broadcast(comm, team->ranks, team->count, team->at, order, sizeof(*order));
}

/* *gave_up: of rank 0. */
static int measure_once(struct rondo_comm *comm, const struct team *team, bool *gave_up)
{
	enum rd_single_copy_mode single_copy = comm->single_copy;
	int err = rd_calibrate_links(comm, gave_up);

	if (!err && comm->rank == 0 && !*gave_up)
		rd_calibrate_memory(&comm->costs);
	/* Where each has a core, none waits for a switch: a default serves. */
	if (!err && team->near > (int)comm->costs.cores && team->at < team->near)
		err = calibrate_switch(comm, team, gave_up);
	comm->single_copy = single_copy;
	rd_costs_bound(&comm->costs);
	return err;
}

/* On rank 0: a file gets no costs of a disturbed run. */
static void end(struct rondo_comm *comm, const char *key, const struct rd_settling *settling,
	struct rd_costs *costs)
{
	bool settled = rd_settling_end(settling, costs);

	rd_costs_bound(costs);
	if (settled)
		rd_cost_file_keep(comm->settings.tune_file, key, costs);
	else
		rd_log(RD_INFO, RD_PICK,
			"costs [%s] did not settle in %d measurement%s: built-in ones replace "
			"those within a host, and none are kept",
			key, settling->count, RD_PLURAL(settling->count));
}

/* By the team: sets comm->costs on rank 0. */
static int measure(
	struct rondo_comm *comm, const struct team *team, const char *key, struct order *order)
{
	struct rd_settling settling = { .usual = comm->costs };
	int64_t deadline_ms = rd_clock_ms() + SETTLE_MS;
	int err = pass_order(comm, team, order);

	while (!err && order->measure) {
		comm->costs = order->costs;
		err = measure_once(comm, team, &settling.gave_up);
		if (!err && comm->rank == 0) {
			order->measure = rd_settling_add(
				&settling, &comm->costs, rd_clock_ms() < deadline_ms);
			if (!order->measure) {
				end(comm, key, &settling, &comm->costs);
				rd_calibrate_trim(comm);
			}
		}
		if (!err)
			err = pass_order(comm, team, order);
		if (!err && comm->rank > 0 && !order->measure)
			rd_calibrate_trim(comm);
	}
	return err;
}

static void log_costs(const struct rondo_comm *comm, const char *key, bool known, int64_t took_ns)
{
	char text[RD_COSTS_SIZE];

	rd_costs_print(&comm->costs, text, sizeof(text));
	for (char *c = text; *c; c++)
		*c = *c == '\n' ? ';' : *c;
	rd_log(RD_INFO, RD_PICK, "costs [%s] %s in %.1f ms: %s", key, known ? "found" : "measured",
		(double)took_ns / 1e6, text);
}

_Static_assert(RD_COSTS_SIZE >= RD_TUNER_TEXT_SIZE + 1400, "costs and rows fit into one message");

static const char rows_begin[] = "\nrows\n"; /* between the costs' lines and the rows */

static void print_shared(const struct rondo_comm *comm, const struct rd_tuner_rows *rows,
	char text[RD_COSTS_SIZE + 1])
{
	int length = rd_costs_print(&comm->costs, text, RD_COSTS_SIZE);

	if (rows->count == 0)
		return;
	length += sprintf(text + length, "%s", rows_begin + 1);
	rd_tuner_rows_print(rows, text + length, (size_t)(RD_COSTS_SIZE + 1 - length));
}

static bool read_shared(
	struct rondo_comm *comm, char *text, struct rd_tuner_rows *rows, char wrong[RD_REASON_SIZE])
{
	char *begin = strstr(text, rows_begin);
	int line;

	if (begin)
		begin[1] = '\0';
	return rd_costs_read(&comm->costs, text, &line, wrong, RD_REASON_SIZE) &&
	       rd_tuner_rows_read(rows, begin ? begin + sizeof(rows_begin) - 1 : "", NULL,
		       comm->layouts[0]->group_count, comm->size, &line, wrong, RD_REASON_SIZE);
}

int rd_keep_rows(struct rondo_comm *comm, const struct rd_tuner_rows *rows)
{
	if (rows->count == 0)
		return 0;
	comm->rows = malloc(sizeof(*rows));
	if (!comm->rows)
		return rd_fail(RONDO_MEMORY, "no memory for the rows of RONDO_TUNE_FILE");
	*comm->rows = *rows;
	return 0;
}

/* On rank 0, when all calls of the calibration are done: the other ranks have no rows yet. A
   malformed file is logged in one warning, and counts as empty. */
static void find_rows(const struct rondo_comm *comm, struct rd_tuner_rows *rows)
{
	const char *path = comm->settings.tune_file, *unreadable = NULL;
	char *text = *path ? rd_cost_file_text(path, &unreadable) : NULL, wrong[RD_REASON_SIZE];
	int line;

	if (text && rd_tuner_is_csv(text) &&
		!rd_tuner_rows_read(rows, text, path, comm->layouts[0]->group_count, comm->size,
			&line, wrong, sizeof(wrong)))
		rd_log(RD_WARN, RD_PICK,
			"RONDO_TUNE_FILE %s is not used: line %d: %s. Correct or remove it", path,
			line, wrong);
	/* A look for costs there has logged it, too. */
	if (unreadable && comm->settings.reproducible)
		rd_log(RD_WARN, RD_PICK, "RONDO_TUNE_FILE %s is not used: %s", path, unreadable);
	free(text);
}

/* All ranks read rank 0's text, also rank 0: their costs are the same to the bit. */
static int share_costs(struct rondo_comm *comm)
{
	char text[RD_COSTS_SIZE + 1], wrong[RD_REASON_SIZE];
	struct rd_tuner_rows rows = { 0 };
	int err = 0;

	if (comm->rank == 0) {
		find_rows(comm, &rows);
		print_shared(comm, &rows, text);
		err = rd_control_tell_costs(comm->control, text);
	} else {
		err = rd_control_await_costs(comm->control, text);
	}
	if (err)
		return err;
	if (read_shared(comm, text, &rows, wrong))
		return rd_keep_rows(comm, &rows);
	return rd_comm_fail(comm,
		rd_fail(RONDO_PROTOCOL, "rank 0 sent costs that make no sense: %s", wrong), 0);
}

static int measure_for_all(struct rondo_comm *comm)
{
	struct team team;
	struct order order = { .measure = 1 };
	char key[RD_COST_KEY_SIZE] = "";
	int64_t began = rd_clock_ns();
	bool known = false;
	int err = 0;

	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++)
		comm->costs.links[class].rails = comm->rails[class];
	if (comm->rank == 0) {
		describe(comm, key);
		known = comm->settings.reproducible ||
			rd_cost_file_find(comm->settings.tune_file, key, &comm->costs);
	}
	order.costs = comm->costs;
	order.measure = !known;
	team = choose_team(comm);
	if (team.at >= 0)
		err = measure(comm, &team, key, &order);
	if (!err && comm->rank == 0 && rd_log_on(RD_INFO, RD_PICK))
		log_costs(comm, key, known, rd_clock_ns() - began);
	return err;
}

int rd_calibrate(struct rondo_comm *comm)
{
	int err = measure_for_all(comm);

	return err || comm->size == 1 ? err : share_costs(comm);
}
