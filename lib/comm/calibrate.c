#include "comm/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "base/error.h"
#include "base/log.h"
#include "tuner/predict.h"
#include "comm/run.h"
#include "tuner/samples.h"
#include "topo/sysfs.h"
#include "tuner/cost_file.h"

#define POINT(bytes) (bytes),
static const size_t points[RD_COST_POINT_COUNT] = { RD_COST_POINTS(POINT) };
#undef POINT

/* In this order: the ends soon, so that what is not reached lies between two that are. The telling
   one first with the least effort, whatever the time: it says whether there is time for more. */
static const int points_order[] = { 0, 1, RD_SAMPLES_TELLING, RD_SAMPLES_TELLING, 5, 2, 4 };
#define POINTS_ORDER_COUNT ((int)(sizeof(points_order) / sizeof(points_order[0])))

/* The exchange of two ranks at a point: messages written into the link's room, to and fro and in
   bursts; or single copies, to and fro. */
enum measurement { COPIED, LENT, MEASUREMENT_COUNT };

/* How much is measured at a point: round trips, of which the quickest counts, after one for the
   caches; and bursts of so many messages each. The first that there is time for; the last is for
   the telling point alone. */
static const struct effort {
	int pings, bursts, length;
} efforts[] = { { 8, 3, 8 }, { 2, 1, 4 }, { 1, 0, 0 } };
#define LEAST_EFFORT 2
#define EFFORT_COUNT 3
/* How often at most what is out of line is measured again, with the least effort. */
#define REPEATS 3

#define BUDGET_NS INT64_C(7000000)
#define FAR_BUDGET_NS INT64_C(20000000)
#define MEETINGS 12
/* Bytes in cache, and how often they are gone over. */
#define BLOCK (64 << 10)
#define ROUNDS 5
/* A block's result and its operands. */
#define OPERANDS 3
/* The most time and bytes for memory beyond the caches, which takes about a millisecond. */
#define MEMORY_BUDGET_NS INT64_C(2000000)
#define MEMORY_MOST (16 << 20)

static int host_of(const struct rondo_comm *comm, int rank)
{
	return comm->layouts[0]->group[rank];
}

/* The ranks of a host follow each other along the line. */
static bool is_oversubscribed(const struct rondo_comm *comm)
{
	const int *order = comm->layouts[0]->order;
	int here = 0;

	for (int i = 0; i < comm->size; i++) {
		bool same = i > 0 && host_of(comm, order[i]) == host_of(comm, order[i - 1]);

		here = same ? here + 1 : 1;
		if (here > (int)comm->costs.cores)
			return true;
	}
	return false;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* All are number 0, and not counted: another rank may be in its user's first call already. */
static int call_now(struct rondo_comm *comm, struct rd_call call)
{
	struct rd_task task = { .comm = comm, .call = call, .turn = comm->issued++, .after = -1 };

	return rd_run(&task, 1);
}

static int transfer(struct rondo_comm *comm, int from, int to, void *bytes, size_t size)
{
	return call_now(comm, (struct rd_call){
				      .problem = { RD_TRANSFER, comm->rank, comm->size, from, to,
					      comm->layouts[0] },
				      .type = RONDO_U8,
				      .count = size,
				      .in = comm->rank == from ? bytes : NULL,
				      .out = comm->rank == to ? bytes : NULL,
			      });
}

static int meet(struct rondo_comm *comm)
{
	return call_now(comm,
		(struct rd_call){
			.problem = { RD_BARRIER, comm->rank, comm->size, 0, 0, comm->layouts[0] },
			.type = RONDO_U8,
		});
}

/* Rank 0's bytes go to everybody, down a binomial tree. */
static int log_line(struct rondo_comm *comm, void *bytes, size_t size)
{
	int rank = comm->rank, err = 0, step = 1;

	while (step < comm->size && !(rank & step))
		step *= 2;
	if (rank > 0)
		err = transfer(comm, rank & (rank - 1), rank, bytes, size);
	for (step /= 2; step > 0 && !err; step /= 2)
		if (rank + step < comm->size)
			err = transfer(comm, rank, rank + step, bytes, size);
	return err;
}

/* ---- A pair of ranks ------------------------------------------------------------------------ */

/* Two ranks that measure the link between them; the first leads. */
struct pair {
	int leader, other;
};

static bool takes_part(const struct rondo_comm *comm, struct pair pair)
{
	return comm->rank == pair.leader || comm->rank == pair.other;
}

static int send_one(struct rondo_comm *comm, struct pair pair, bool back, void *bytes, size_t size)
{
	return transfer(comm, back ? pair.other : pair.leader, back ? pair.leader : pair.other,
		bytes, size);
}

/* What is sent stays as it is, like a call's input: what comes is put behind it. */
static int pass_one(struct rondo_comm *comm, struct pair pair, bool back, char *bytes, size_t size)
{
	bool sends = comm->rank == (back ? pair.other : pair.leader);

	return send_one(
		comm, pair, back, sends ? bytes : bytes + points[RD_COST_POINT_COUNT - 1], size);
}

/* Half the quickest round trip. */
static int ping(struct rondo_comm *comm, struct pair pair, void *bytes, size_t size, int count,
	int64_t *way_ns)
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

/* A message's share of a burst, which ends when the other says that it has all of it. */
static int burst(struct rondo_comm *comm, struct pair pair, void *bytes, size_t size, int length,
	int64_t *busy_ns)
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

static int measure_point(struct rondo_comm *comm, struct pair pair, void *bytes, int point,
	enum measurement what, const struct effort *effort, struct rd_link_cost *cost)
{
	int64_t way_ns, busy_ns = UINT32_MAX;
	int err;

	comm->single_copy = what == LENT ? RD_SINGLE_COPY_ALWAYS : RD_SINGLE_COPY_NEVER;
	err = ping(comm, pair, bytes, points[point], effort->pings, &way_ns);
	if (what == LENT) {
		cost->single_copy_ns[point] = (uint32_t)way_ns;
		return err;
	}
	for (int i = 0; i < effort->bursts && !err; i++)
		err = burst(comm, pair, bytes, points[point], effort->length, &busy_ns);
	cost->way_ns[point] = (uint32_t)way_ns;
	cost->busy_ns[point] = (uint32_t)(busy_ns < way_ns ? busy_ns : way_ns);
	return err;
}

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

/* The leader says which point comes next, and with what effort; -1: no more. */
static int say_next(
	struct rondo_comm *comm, struct pair pair, int point, enum measurement what, int effort)
{
	int32_t next =
		point < 0 ? -1 : (point * MEASUREMENT_COUNT + (int)what) * EFFORT_COUNT + effort;

	return send_one(comm, pair, false, &next, sizeof(next));
}

static void note_kind(const struct rd_link *link, struct rd_link_cost *cost)
{
	cost->posts = link->ops->send != NULL && link->send_min < UINT32_MAX;
	cost->posts_min = cost->posts ? (uint32_t)link->send_min : 0;
	cost->single_copy = cost->posts && link->single_copy;
}

/* What a leader measures: way_ns and busy_ns, or single_copy_ns in `ways`. */
struct study {
	enum measurement what;
	struct rd_samples ways, busy;
	int64_t deadline_ns, latest_ns;
};

static int take_sample(struct rondo_comm *comm, struct pair pair, void *bytes, int point,
	int effort, struct study *study)
{
	struct rd_link_cost cost;
	int err = say_next(comm, pair, point, study->what, effort);

	if (!err)
		err = measure_point(comm, pair, bytes, point, study->what, &efforts[effort], &cost);
	if (err)
		return err;
	rd_samples_add(&study->ways, point,
		study->what == LENT ? cost.single_copy_ns[point] : cost.way_ns[point]);
	if (study->what == COPIED)
		rd_samples_add(&study->busy, point, cost.busy_ns[point]);
	return 0;
}

/* What is out of line is measured again, whatever the time. What a disturbance took is given back,
   so that it does not leave the other sizes unmeasured. */
static int study_point(struct rondo_comm *comm, struct pair pair, void *bytes, int point,
	int effort, struct study *study)
{
	int64_t began = rd_clock_ns();
	int err = take_sample(comm, pair, bytes, point, effort, study);
	uint32_t first = study->ways.least[point];

	for (int i = 0; i < REPEATS && !err && rd_samples_doubt(&study->ways, point); i++)
		err = take_sample(comm, pair, bytes, point, LEAST_EFFORT, study);
	if (first / 2 > study->ways.least[point])
		study->deadline_ns += rd_clock_ns() - began;
	if (study->deadline_ns > study->latest_ns)
		study->deadline_ns = study->latest_ns;
	return err;
}

static int study_all(struct rondo_comm *comm, struct pair pair, void *bytes, int64_t budget_ns,
	const struct rd_link_cost *cost, struct study *study)
{
	int err = 0;

	study->deadline_ns = rd_clock_ns() + budget_ns;
	study->latest_ns = study->deadline_ns + budget_ns;
	for (int i = 0; i < POINTS_ORDER_COUNT && !err; i++) {
		int point = points_order[i];
		bool copied_once = study->what == LENT, known = study->ways.measured >> point & 1;
		bool first = point == RD_SAMPLES_TELLING && !known && !copied_once;
		int64_t message_ns =
			copied_once ? cost->way_ns[point] : rd_samples_expect(&study->ways, point);
		int effort = first ? LEAST_EFFORT
				   : affordable(message_ns, study->deadline_ns - rd_clock_ns());

		if (effort >= 0 && points[point] <= comm->piece_size &&
			!(copied_once && (known || points[point] < cost->posts_min)))
			err = study_point(comm, pair, bytes, point, effort, study);
	}
	return err;
}

static int lead(struct rondo_comm *comm, struct pair pair, void *bytes, int64_t budget_ns,
	struct rd_link_cost *cost)
{
	const struct rd_link_cost standard = *cost;
	struct study copied = { .what = COPIED };
	int err = study_all(comm, pair, bytes, budget_ns, cost, &copied);

	rd_samples_settle(&copied.ways, standard.way_ns, cost->way_ns);
	rd_samples_settle(&copied.busy, standard.busy_ns, cost->busy_ns);
	note_kind(comm->links[pair.other * comm->channels], cost);

	struct study copied_once = { .what = LENT, .ways.alike = cost->way_ns };

	if (!err && cost->single_copy && !is_oversubscribed(comm))
		err = study_all(comm, pair, bytes, budget_ns, cost, &copied_once);
	for (int point = 0; point < RD_COST_POINT_COUNT; point++)
		cost->single_copy_ns[point] =
			copied_once.ways.measured >> point & 1 &&
					!rd_samples_doubt(&copied_once.ways, point)
				? copied_once.ways.least[point]
				: cost->way_ns[point];
	return err ? err : say_next(comm, pair, -1, COPIED, 0);
}

static int follow(struct rondo_comm *comm, struct pair pair, void *bytes)
{
	struct rd_link_cost ignored;
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
		err = measure_point(comm, pair, bytes, next / EFFORT_COUNT / MEASUREMENT_COUNT,
			(enum measurement)what, &efforts[next % EFFORT_COUNT], &ignored);
		if (err)
			return err;
	}
}

/* On the pair, and then on rank 0, *cost is what was measured. */
static int calibrate_pair(struct rondo_comm *comm, struct pair pair, void *bytes, int64_t budget_ns,
	struct rd_link_cost *cost)
{
	int err = 0;

	if (comm->rank == pair.leader)
		err = lead(comm, pair, bytes, budget_ns, cost);
	else if (comm->rank == pair.other)
		err = follow(comm, pair, bytes);
	if (!err && pair.leader != 0 && (comm->rank == 0 || comm->rank == pair.leader))
		err = transfer(comm, pair.leader, 0, cost, sizeof(*cost));
	return err;
}

/* The first two ranks on one host (or on two); leader -1: there are none. */
static struct pair find_pair(const struct rondo_comm *comm, bool same_host)
{
	for (int a = 0; a < comm->size; a++)
		for (int b = a + 1; b < comm->size; b++)
			if ((host_of(comm, a) == host_of(comm, b)) == same_host)
				return (struct pair){ a, b };
	return (struct pair){ -1, -1 };
}

static int calibrate_links(struct rondo_comm *comm)
{
	struct pair near = find_pair(comm, true), far = find_pair(comm, false);
	size_t size = points[RD_COST_POINT_COUNT - 1];
	void *bytes = NULL;
	int err = 0;

	if (takes_part(comm, near) || takes_part(comm, far)) {
		bytes = malloc(2 * size);
		if (!bytes)
			return rd_comm_fail(comm,
				rd_fail(RONDO_MEMORY, "no memory to measure links"), comm->rank);
		/* What nobody ever wrote is one page of zeros, and always in a cache. */
		memset(bytes, 1, 2 * size);
	}
	if (near.leader >= 0)
		err = calibrate_pair(comm, near, bytes, BUDGET_NS, &comm->costs.links[RD_NEAR]);
	if (!err && far.leader >= 0)
		err = calibrate_pair(comm, far, bytes, FAR_BUDGET_NS, &comm->costs.links[RD_FAR]);
	free(bytes);
	return err;
}

/* ---- Memory --------------------------------------------------------------------------------- */

typedef void block_work(char *into, const char *a, const char *b);

static uint32_t time_ps(block_work *run, char *memory)
{
	int64_t began = rd_clock_ns();

	run(memory, memory + BLOCK, memory + 2 * BLOCK);
	return (uint32_t)((rd_clock_ns() - began) * 1000 / BLOCK);
}

static uint32_t quickest_ps(block_work *run, char *memory)
{
	uint32_t best = UINT32_MAX, took;

	for (int i = 0; i <= ROUNDS; i++) {
		took = time_ps(run, memory);
		if (i > 0 && took < best)
			best = took;
	}
	return best;
}

static void copy_block(char *into, const char *a, const char *b)
{
	(void)b;
	memcpy(into, a, BLOCK);
}

static void add_floats(char *into, const char *a, const char *b)
{
	rd_reduce(RONDO_F32, RONDO_SUM)(into, a, b, BLOCK / 4);
}

static void add_halves(char *into, const char *a, const char *b)
{
	rd_reduce(RONDO_BF16, RONDO_SUM)(into, a, b, BLOCK / 2);
}

static void calibrate_cache(struct rd_costs *costs)
{
	char *memory = calloc(OPERANDS, BLOCK);

	if (!memory)
		return;
	costs->copy_ps = quickest_ps(copy_block, memory);
	costs->reduce_ps[RD_WHOLE] = quickest_ps(add_floats, memory);
	costs->reduce_ps[RD_HALF] = quickest_ps(add_halves, memory);
	free(memory);
}

/* The second-level cache, by far the largest that a core has to itself; 0 or less: not known. */
static long cache_bytes(void)
{
	long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

	if (bytes > 0)
		return bytes;
	/* The file has KiB: "1024K". */
	return rd_sysfs_number(0, "", "/sys/devices/system/cpu/cpu0/cache/index2/size") * 1024;
}

/* Processor time: on a busy machine others would use up the budget, and memory beyond the caches
   would seldom be measured. */
static int64_t spent_ns(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return spent.tv_sec * INT64_C(1000000000) + spent.tv_nsec;
}

/* False: the time is over before all of it has pages. */
static bool write_pages(char *memory, size_t size, int64_t deadline_ns)
{
	for (size_t at = 0; at < size; at += BLOCK) {
		if (spent_ns() > deadline_ns)
			return false;
		memset(memory + at, 1, BLOCK);
	}
	return true;
}

/* Each work runs on blocks that others have displaced from the caches since they were last used.
   The quickest counts, as in cache. */
static bool go_round(
	char *memory, size_t size, int64_t deadline_ns, uint32_t best[RD_TYPE_CLASS_COUNT + 1])
{
	static block_work *const works[] = { copy_block, add_floats, /* as RD_TYPE_CLASSES */
		add_halves };
	size_t at = 0;

	for (int i = 0; i < ROUNDS; i++) {
		if (spent_ns() > deadline_ns)
			return false;
		for (int k = 0; k < RD_TYPE_CLASS_COUNT + 1; k++) {
			uint32_t took = time_ps(works[k], memory + at);

			best[k] = i == 0 || took < best[k] ? took : best[k];
			at = (at + OPERANDS * BLOCK) % size;
		}
	}
	return true;
}

/* In half as much again as the caches hold. Where there is no time or memory for that, memory costs
   as much as a cache. */
static void calibrate_memory(struct rd_costs *costs)
{
	int64_t deadline_ns = spent_ns() + MEMORY_BUDGET_NS;
	uint32_t best[RD_TYPE_CLASS_COUNT + 1];
	long bytes = cache_bytes();
	size_t size;
	char *memory;

	if (bytes > 0 && bytes <= UINT32_MAX)
		costs->cache_bytes = (uint32_t)bytes;
	size = (3 * (size_t)costs->cache_bytes / 2 / (OPERANDS * BLOCK) + 1) * OPERANDS * BLOCK;
	memory = size <= MEMORY_MOST ? malloc(size) : NULL;
	costs->memory_copy_ps = costs->copy_ps;
	memcpy(costs->memory_reduce_ps, costs->reduce_ps, sizeof(costs->reduce_ps));
	if (memory && write_pages(memory, size, deadline_ns) &&
		go_round(memory, size, deadline_ns, best)) {
		costs->memory_copy_ps = best[0];
		memcpy(costs->memory_reduce_ps, best + 1, sizeof(costs->memory_reduce_ps));
	}
	free(memory);
}

/* ---- Cores that ranks share ----------------------------------------------------------------- */

/* Finds what a switch must cost for a barrier to cost what it did. */
static void fit_switch(struct rondo_comm *comm, int64_t measured_ns)
{
	struct rd_problem problem = {
		.collective = RD_BARRIER, .size = comm->size, .layout = comm->layouts[0]
	};
	struct rd_cut cut = { 0, RD_WHOLE, comm->piece_size, 1 };
	uint32_t low = 100, high = 50000;
	struct rd_choice *choice;
	struct rd_schedule *schedule;

	if (rd_picker_choose(comm->picker, RD_BARRIER, 0, RD_WHOLE, false, &choice) ||
		rd_schedule_create(&schedule, choice->algorithm, &problem))
		return;
	while (low + 50 < high) {
		comm->costs.switch_ns = (low + high) / 2;
		if (rd_predict(schedule, &comm->costs, &cut) < measured_ns)
			low = comm->costs.switch_ns;
		else
			high = comm->costs.switch_ns;
	}
	rd_schedule_destroy(schedule);
}

static int calibrate_switch(struct rondo_comm *comm)
{
	int64_t times_ns[MEETINGS], took;
	int err = 0;

	for (int i = 0; i <= MEETINGS && !err; i++) {
		int64_t began = rd_clock_ns();

		err = meet(comm);
		took = rd_clock_ns() - began;
		/* Sorted as they come; the first is for getting together. */
		int k = i - 1;

		for (; k > 0 && times_ns[k - 1] > took; k--)
			times_ns[k] = times_ns[k - 1];
		if (k >= 0)
			times_ns[k] = took;
	}
	if (!err && comm->rank == 0)
		fit_switch(comm, times_ns[MEETINGS / 2]);
	return err;
}

/* ---- The whole ------------------------------------------------------------------------------ */

static const char *transport_of(const struct rondo_comm *comm, bool same_host)
{
	for (int peer = 0; peer < comm->size; peer++)
		if (peer != comm->rank &&
			(host_of(comm, peer) == host_of(comm, comm->rank)) == same_host)
			return comm->links[peer * comm->channels]->transport->name;
	return "none";
}

/* Under what conditions; on rank 0. */
static void describe(const struct rondo_comm *comm, char key[RD_TUNE_KEY_SIZE])
{
	int hosts = comm->layouts[0]->group_count;

	snprintf(key, RD_TUNE_KEY_SIZE,
		"%s, %d ranks on %d host%s, %u cores, near %s, far %s, pieces of %zu",
		comm->local.place.host_name, comm->size, hosts, hosts == 1 ? "" : "s",
		comm->costs.cores, transport_of(comm, true), transport_of(comm, false),
		comm->piece_size);
	for (char *c = key; *c; c++)
		if (*c == '\n' || *c == ']')
			*c = '?';
}

/* What rank 0 says at first. */
struct opening {
	struct rd_costs costs;
	uint32_t known; /* there is nothing to measure */
};

static int measure(struct rondo_comm *comm, const char *key)
{
	enum rd_single_copy_mode single_copy = comm->single_copy;
	int err = calibrate_links(comm);

	if (!err && comm->rank == 0) {
		calibrate_cache(&comm->costs);
		calibrate_memory(&comm->costs);
	}
	if (!err && is_oversubscribed(comm))
		err = calibrate_switch(comm);
	comm->single_copy = single_copy;
	rd_costs_bound(&comm->costs);
	if (!err)
		err = log_line(comm, &comm->costs, sizeof(comm->costs));
	if (!err && comm->rank == 0)
		rd_tune_keep(comm->settings.tune_file, key, &comm->costs);
	return err;
}

static void log_costs(const struct rondo_comm *comm, const char *key, bool known, int64_t took_ns)
{
	char text[2048];

	rd_costs_print(&comm->costs, text, sizeof(text));
	for (char *c = text; *c; c++)
		*c = *c == '\n' ? ';' : *c;
	rd_log(RD_INFO, RD_PICK, "costs [%s] %s in %.1f ms: %s", key, known ? "found" : "measured",
		(double)took_ns / 1e6, text);
}

int rd_calibrate(struct rondo_comm *comm)
{
	char key[RD_TUNE_KEY_SIZE] = "";
	int64_t began = rd_clock_ns();
	struct opening opening = { .costs = comm->costs };
	int err;

	if (comm->rank == 0) {
		comm->costs.cores = (uint32_t)comm->cores;
		describe(comm, key);
		opening.costs = comm->costs;
		opening.known = comm->settings.reproducible ||
				rd_tune_find(comm->settings.tune_file, key, &opening.costs);
	}
	err = log_line(comm, &opening, sizeof(opening));
	if (err)
		return err;
	comm->costs = opening.costs;
	if (!opening.known)
		err = measure(comm, key);
	if (!err && comm->rank == 0 && rd_log_on(RD_INFO, RD_PICK))
		log_costs(comm, key, opening.known, rd_clock_ns() - began);
	return err;
}
