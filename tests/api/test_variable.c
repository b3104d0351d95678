/*
 * Blocks of different lengths: every collective that has them, against the exact result; lengths
 * that do not fit each other, and calls that are refused.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "simulated.h"
#include "exec/vcounts.h"
/* Both have a `struct world`. */
#define world fork_world
#include "world.h"
#include "tuner/eligible.h"
#undef world

#define SIZE_MOST 8
#define GUARD 0x5a

/* How long each rank's block is, by pattern. */
enum pattern { NOTHING, RISING, ONE_ALONE, ODD, LONG, PATTERNS };

static size_t length(enum pattern pattern, int size, int from, int to)
{
	int k = from * 3 + to * 5;

	switch (pattern) {
	case NOTHING:
		return 0;
	case RISING:
		return from + to;
	case ONE_ALONE:
		return from == size - 1 && to == size - 1 ? 1001 : 0;
	case ODD:
		return k % 4 == 0 ? 0 : 2 * (k * 977 % 3000) + 1;
	default:
		return from == size / 2 ? 70001 : (size_t)k % 7;
	}
}

static int32_t value(int from, int to, size_t i)
{
	uint64_t x = ((uint64_t)from << 48 ^ (uint64_t)to << 40 ^ i) * UINT64_C(0x9e3779b97f4a7c15);

	return (int32_t)(x >> 32);
}

/* One rank's buffer of blocks: lengths, and places with gaps between them, the last block first. */
struct layout {
	size_t counts[SIZE_MOST], displs[SIZE_MOST];
	size_t total; /* elements, with gaps */
};

static void lay_out(struct layout *layout, int blocks, bool gaps)
{
	size_t next = 0;

	for (int i = 0; i < blocks; i++) {
		int k = gaps ? blocks - 1 - i : i;

		next += gaps ? 3 : 0;
		layout->displs[k] = next;
		next += layout->counts[k];
	}
	layout->total = next;
}

/* Elements may lie at odd addresses. */
static void put(char *at, size_t i, int32_t number)
{
	memcpy(at + 4 * i, &number, 4);
}

static bool is(const char *at, size_t i, int32_t number)
{
	return memcmp(at + 4 * i, &number, 4) == 0;
}

struct trial {
	enum pattern pattern;
	bool in_place, gaps, odd_address;
	struct rank_env *env;
	int rank, size;
	char *in, *out; /* malloced, the whole of them */
};

static int wrong(const struct trial *t, const char *what)
{
	return world_say(t->env, "%s, pattern %d%s%s%s: wrong, or: %s", what, t->pattern,
		t->in_place ? ", in place" : "", t->gaps ? ", gaps" : "",
		t->odd_address ? ", odd" : "", rondo_last_error());
}

/* Where the blocks of out must hold value(from(k), to(k)), and all else the guard. */
static bool out_is_right(const char *out, const struct layout *layout, int blocks, int rank,
	bool by_sender, const char *untouched_from)
{
	size_t i = 0;

	for (size_t at = 0; at < layout->total; at++) {
		bool inside = false;

		for (int k = 0; k < blocks && !inside; k++) {
			i = at - layout->displs[k];
			if (at < layout->displs[k] || i >= layout->counts[k])
				continue;
			inside = true;
			if (!is(out, at, by_sender ? value(k, rank, i) : value(k, 0, i)))
				return false;
		}
		if (!inside && !untouched_from && !is(out, at, 0x5a5a5a5a))
			return false;
	}
	return true;
}

static char *fresh(char **whole, size_t count, bool odd)
{
	*whole = malloc(4 * count + 8);
	memset(*whole, GUARD, 4 * count + 8);
	return *whole + (odd ? 1 : 0);
}

static int try_all_gather(struct trial *t)
{
	struct layout out;
	size_t mine = length(t->pattern, t->size, t->rank, 0);

	for (int k = 0; k < t->size; k++)
		out.counts[k] = length(t->pattern, t->size, k, 0);
	lay_out(&out, t->size, t->gaps);

	char *recv = fresh(&t->out, out.total, t->odd_address);
	char *send = fresh(&t->in, mine, t->odd_address);

	if (t->in_place)
		send = recv + 4 * out.displs[t->rank];
	for (size_t i = 0; i < mine; i++)
		put(send, i, value(t->rank, 0, i));
	if (rondo_all_gather_v(t->env->comm, send, recv, out.counts, t->gaps ? out.displs : NULL,
		    RONDO_I32, NULL) ||
		!out_is_right(recv, &out, t->size, t->rank, false, NULL))
		return wrong(t, "all_gather_v");
	return 0;
}

static int try_reduce_scatter(struct trial *t)
{
	struct layout in;

	for (int k = 0; k < t->size; k++)
		in.counts[k] = length(t->pattern, t->size, k, 0);
	lay_out(&in, t->size, false);

	size_t mine = in.counts[t->rank];
	char *send = fresh(&t->in, in.total, t->odd_address);
	char *recv = fresh(&t->out, mine, t->odd_address);

	if (t->in_place)
		recv = send + 4 * in.displs[t->rank];
	for (int k = 0; k < t->size; k++)
		for (size_t i = 0; i < in.counts[k]; i++)
			put(send, in.displs[k] + i, value(t->rank, k, i));
	if (rondo_reduce_scatter_v(t->env->comm, send, recv, in.counts, RONDO_I32, RONDO_SUM, NULL))
		return wrong(t, "reduce_scatter_v");
	for (size_t i = 0; i < mine; i++) {
		uint32_t sum = 0;

		for (int rank = 0; rank < t->size; rank++)
			sum += (uint32_t)value(rank, t->rank, i);
		if (!is(recv, i, (int32_t)sum))
			return wrong(t, "reduce_scatter_v");
	}
	return !t->in_place && !is(recv, mine, 0x5a5a5a5a) ? wrong(t, "beside recv") : 0;
}

static int try_all_to_all(struct trial *t)
{
	struct layout in, out;

	for (int k = 0; k < t->size; k++) {
		/* In place a pair exchanges as much in both directions. */
		int low = k < t->rank ? k : t->rank, high = k < t->rank ? t->rank : k;

		in.counts[k] = length(
			t->pattern, t->size, t->in_place ? low : t->rank, t->in_place ? high : k);
		out.counts[k] = length(
			t->pattern, t->size, t->in_place ? low : k, t->in_place ? high : t->rank);
	}
	lay_out(&in, t->size, t->gaps);
	lay_out(&out, t->size, t->gaps);

	char *send = fresh(&t->in, in.total, t->odd_address);
	char *recv = t->in_place ? send : fresh(&t->out, out.total, t->odd_address);

	for (int k = 0; k < t->size; k++)
		for (size_t i = 0; i < in.counts[k]; i++)
			put(send, in.displs[k] + i, value(t->rank, k, i));
	if (rondo_all_to_all_v(t->env->comm, send, in.counts, t->gaps ? in.displs : NULL, recv,
		    out.counts, t->gaps ? out.displs : NULL, RONDO_I32, NULL) ||
		!out_is_right(recv, &out, t->size, t->rank, true, NULL))
		return wrong(t, "all_to_all_v");
	return 0;
}

/* A block for each rank, all of which lie at the root. */
static struct layout rooted_layout(const struct trial *t)
{
	struct layout all;

	for (int k = 0; k < t->size; k++)
		all.counts[k] = length(t->pattern, t->size, k, 0);
	lay_out(&all, t->size, t->gaps);
	return all;
}

static int try_gather(struct trial *t)
{
	int root = t->pattern % t->size;
	struct layout all = rooted_layout(t);
	size_t mine = all.counts[t->rank];

	char *recv = t->rank == root ? fresh(&t->out, all.total, t->odd_address) : NULL;
	char *send = fresh(&t->in, mine, t->odd_address);

	if (t->in_place && t->rank == root)
		send = recv + 4 * all.displs[root];
	for (size_t i = 0; i < mine; i++)
		put(send, i, value(t->rank, 0, i));
	if (rondo_gather_v(t->env->comm, send, mine, recv, t->rank == root ? all.counts : NULL,
		    t->rank == root && t->gaps ? all.displs : NULL, RONDO_I32, root, NULL) ||
		(recv && !out_is_right(recv, &all, t->size, t->rank, false, NULL)))
		return wrong(t, "gather_v");
	return 0;
}

static int try_scatter(struct trial *t)
{
	int root = t->pattern % t->size;
	struct layout all = rooted_layout(t);
	size_t mine = all.counts[t->rank];

	char *send = t->rank == root ? fresh(&t->in, all.total, t->odd_address) : NULL;
	char *recv = fresh(&t->out, mine, t->odd_address);

	if (t->in_place && t->rank == root)
		recv = send + 4 * all.displs[root];
	for (int k = 0; k < t->size && send; k++)
		for (size_t i = 0; i < all.counts[k]; i++)
			put(send, all.displs[k] + i, value(k, 0, i));
	if (rondo_scatter_v(t->env->comm, send, t->rank == root ? all.counts : NULL,
		    t->rank == root && t->gaps ? all.displs : NULL, recv, mine, RONDO_I32, root,
		    NULL))
		return wrong(t, "scatter_v");
	for (size_t i = 0; i < mine; i++)
		if (!is(recv, i, value(t->rank, 0, i)))
			return wrong(t, "scatter_v");
	return 0;
}

static int try_gather_bytes(struct trial *t)
{
	int root = t->pattern % t->size;
	size_t mine = length(t->pattern, t->size, t->rank, 0), sizes[SIZE_MOST], at = 0;
	char *send = fresh(&t->in, mine, t->odd_address);
	void *recv = &at;

	for (size_t i = 0; i < mine; i++)
		send[i] = (char)value(t->rank, 0, i);
	if (rondo_gather_bytes(t->env->comm, send, mine, &recv, sizes, root))
		return wrong(t, "gather_bytes");
	if (t->rank != root)
		return recv ? wrong(t, "gather_bytes: not the root, and recv is not NULL") : 0;
	t->out = recv;
	for (int k = 0; k < t->size; k++) {
		if (sizes[k] != length(t->pattern, t->size, k, 0))
			return wrong(t, "gather_bytes: a size is");
		for (size_t i = 0; i < sizes[k]; i++)
			if (t->out[at++] != (char)value(k, 0, i))
				return wrong(t, "gather_bytes: a byte is");
	}
	return t->out[at] ? wrong(t, "gather_bytes: the end is") : 0;
}

static int (*const kinds[])(struct trial *trial) = { try_all_gather, try_reduce_scatter,
	try_all_to_all, try_gather, try_scatter, try_gather_bytes };

static int try_all(struct rank_env *env)
{
	if (!env->comm)
		return world_say(env, "create: %s", rondo_last_error());
	for (int n = 0; n < PATTERNS * 8; n++) {
		for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
			struct trial trial = { n / 8, n & 1, n & 2, n & 4, env, env->rank,
				env->size, NULL, NULL };
			int bad = kinds[k](&trial);

			free(trial.in);
			free(trial.out);
			if (bad)
				return bad;
		}
	}
	return 0;
}

static void run_all(struct fork_world set)
{
	set.limit_ms = 100000;
	cr_assert_eq(world_run(&set, try_all, NULL, NULL), 0);
}

Test(variable, blocks_of_all_lengths_arrive_over_shared_memory, .timeout = 250)
{
	for (int size = 1; size <= SIZE_MOST; size += size < 5 ? 1 : 3)
		run_all((struct fork_world){ .size = size, .transport = "shm" });
	run_all((struct fork_world){
		.size = 3, .transport = "shm", .channels = 3, .piece_size = 1000 });
}

Test(variable, blocks_of_all_lengths_arrive_over_tcp, .timeout = 250)
{
	for (int size = 2; size <= SIZE_MOST; size += size < 4 ? 1 : 4)
		run_all((struct fork_world){ .size = size, .transport = "tcp" });
	run_all((struct fork_world){ .size = 4, .transport = "mixed", .channels = 2 });
}

Test(variable, blocks_of_all_lengths_arrive_between_threads, .timeout = 250)
{
	run_all((struct fork_world){ .size = 4, .transport = "mixed", .threads = true });
}

/* ---- Over simulated links -------------------------------------------------------------------- */

/* What a rank's block is worth: of an input block (to is whom it is for), or a sum of all. */
static int32_t worth(const struct rd_problem *problem, int rank, int block, size_t i)
{
	if (problem->collective == RD_ALL_TO_ALL)
		return value(rank, block % problem->size, i);
	return value(rank, block, i);
}

static size_t block_length(const struct rd_problem *problem, enum pattern pattern, int block)
{
	if (problem->collective == RD_ALL_TO_ALL)
		return length(pattern, problem->size, block / problem->size, block % problem->size);
	return length(pattern, problem->size, block, 0);
}

static int32_t expected(const struct rd_problem *problem, int block, size_t i)
{
	uint32_t sum = 0;

	for (int rank = 0; rank < problem->size; rank++) {
		struct rd_problem there = *problem;

		there.rank = rank;
		if (rd_in_block(&there, block) >= 0)
			sum += (uint32_t)worth(&there, rank, block, i);
	}
	return (int32_t)sum;
}

/* Lays a rank's blocks one after the other, and fills its input. */
static void lay_call(struct rd_call *call, enum pattern pattern)
{
	const struct rd_problem *problem = &call->problem;
	int in_blocks = rd_in_blocks(problem), out_blocks = rd_out_blocks(problem);
	struct rd_vcounts *vcounts = rd_vcounts_create(in_blocks, out_blocks);
	struct rd_extent *extents[2] = { vcounts->in, vcounts->out };
	size_t ends[2] = { 0, 0 };

	for (int side = 0; side < 2; side++) {
		for (int i = 0; i < (side ? out_blocks : in_blocks); i++) {
			for (int block = 0; block < rd_blocks(problem); block++)
				if ((side ? rd_out_block(problem, block)
					  : rd_in_block(problem, block)) == i)
					extents[side][i].size =
						4 * block_length(problem, pattern, block);
			extents[side][i].offset = ends[side];
			ends[side] += extents[side][i].size;
		}
	}
	vcounts->pairwise = true;
	call->vcounts = vcounts;
	call->in = malloc(ends[0]);
	call->out = malloc(ends[1]);
	for (int block = 0; block < rd_blocks(problem); block++) {
		int at = rd_in_block(problem, block);

		for (size_t i = 0; at >= 0 && i < extents[0][at].size / 4; i++)
			put((char *)call->in + extents[0][at].offset, i,
				worth(problem, problem->rank, block, i));
	}
}

static bool call_is_right(const struct rd_call *call)
{
	for (int block = 0; block < rd_blocks(&call->problem); block++) {
		int at = rd_out_block(&call->problem, block);

		for (size_t i = 0; at >= 0 && i < call->vcounts->out[at].size / 4; i++)
			if (!is((char *)call->out + call->vcounts->out[at].offset, i,
				    expected(&call->problem, block, i)))
				return false;
	}
	return true;
}

static void simulate(const struct rd_algorithm *algorithm, enum rd_collective collective, int size,
	enum pattern pattern, uint64_t seed)
{
	struct rd_plan *plans[SIZE_MOST];
	struct rd_call calls[SIZE_MOST];
	struct rd_simulated simulated = { 0 };
	struct rd_simulation set = { .size = size,
		.channels = 1 + (int)(seed % 3),
		.piece_size = 1024,
		.slots = 2,
		.zero_copy = seed & 1,
		.seed = seed,
		.latency_ns = 1000,
		.jitter_ns = 5000,
		.dead_rank = -1 };

	for (int rank = 0; rank < size; rank++) {
		struct rd_problem problem = { .collective = collective,
			.rank = rank,
			.size = size,
			.root = rd_collective_has_root(collective) ? size / 2 : 0 };

		cr_assert_eq(rd_plan_create(&plans[rank], algorithm, &problem), 0);
		calls[rank] = (struct rd_call){
			.problem = problem, .type = RONDO_I32, .op = RONDO_SUM, .number = 1
		};
		lay_call(&calls[rank], pattern);
	}
	cr_assert_eq(rd_simulate(&set, (const struct rd_plan *const *)plans, calls, &simulated), 0,
		"%s of pattern %d by %s on %d ranks: %s", rd_collective_name(collective), pattern,
		algorithm->name, size, rondo_last_error());
	for (int rank = 0; rank < size; rank++) {
		cr_assert_eq(simulated.errors[rank], 0);
		cr_assert(call_is_right(&calls[rank]),
			"%s of pattern %d by %s on %d ranks: rank %d",
			rd_collective_name(collective), pattern, algorithm->name, size, rank);
		rd_plan_destroy(plans[rank]);
		free((void *)calls[rank].in);
		free(calls[rank].out);
		rd_call_finish(&calls[rank]);
	}
	rd_simulated_finish(&simulated);
}

/* Algorithms whose blocks only their ends see, for the collectives where nobody else knows them. */
static bool knows_lengths(const struct rd_algorithm *algorithm, enum rd_collective collective)
{
	return collective == RD_ALL_GATHER || collective == RD_REDUCE_SCATTER ||
	       strcmp(algorithm->name, "linear") == 0;
}

Test(variable, every_algorithm_takes_blocks_of_all_lengths_over_simulated_links, .timeout = 120)
{
	static const enum rd_collective collectives[] = { RD_ALL_GATHER, RD_REDUCE_SCATTER,
		RD_ALL_TO_ALL, RD_GATHER, RD_SCATTER };
	uint64_t seed = 0;

	for (int c = 0; c < 5; c++) {
		for (int a = 0; rd_algorithms[a]; a++) {
			for (int size = 1; size <= SIZE_MOST; size++) {
				struct rd_problem problem = { .collective = collectives[c],
					.size = size };

				if (rd_algorithms[a]->direct_access ||
					!rd_algorithm_can(rd_algorithms[a], &problem) ||
					!knows_lengths(rd_algorithms[a], collectives[c]))
					continue;
				for (int pattern = NOTHING; pattern <= ODD; pattern++)
					simulate(rd_algorithms[a], collectives[c], size, pattern,
						seed++);
			}
		}
	}
}

/* ---- On streams and in groups --------------------------------------------------------------- */

/* The arrays are gone before the calls run. */
static int queue_and_group(struct rank_env *env)
{
	int size = env->size, rank = env->rank, out[2][SIZE_MOST * SIZE_MOST];
	int in[SIZE_MOST];
	rondo_stream *stream = NULL;

	for (int i = 0; i < SIZE_MOST; i++)
		in[i] = 100 * rank + i;
	TRY(rondo_stream_create(&stream));
	for (int k = 0; k < 2; k++) {
		size_t *counts = malloc(size * sizeof(*counts));

		for (int i = 0; i < size; i++)
			counts[i] = i + 1;
		if (k == 1)
			TRY(rondo_group_start());
		TRY(rondo_all_gather_v(env->comm, in, out[k], counts, NULL, RONDO_I32, stream));
		if (k == 1)
			TRY(rondo_group_end());
		memset(counts, 0xff, size * sizeof(*counts));
		free(counts);
	}
	TRY(rondo_stream_synchronize(stream));
	rondo_stream_destroy(stream);
	for (int k = 0; k < 2; k++)
		for (int from = 0, at = 0; from < size; from++)
			for (int i = 0; i <= from; i++, at++)
				if (out[k][at] != 100 * from + i)
					return world_say(env, "element %d is wrong", at);
	return 0;
}

Test(variable, counts_need_not_outlive_the_call, .timeout = 60)
{
	struct fork_world set = { .size = 4 };

	cr_assert_eq(world_run(&set, queue_and_group, NULL, NULL), 0);
}

/* ---- What does not fit ---------------------------------------------------------------------- */

enum misfit { GATHERED, SCATTERED, EXCHANGED, AT_THE_ROOT, FROM_THE_ROOT, NOT_VARIED };

/* Rank 1 thinks otherwise of one length. */
static int differ(struct rank_env *env)
{
	enum misfit misfit = *(enum misfit *)env->argument;
	size_t counts[3] = { 4, 5, 6 }, same[3] = { 5, 5, 5 };
	int in[64] = { 0 }, out[64], err = 0;
	bool odd_one = env->rank == 1;

	counts[2] += odd_one;
	switch (misfit) {
	case GATHERED:
		err = rondo_all_gather_v(env->comm, in, out, counts, NULL, RONDO_I32, NULL);
		break;
	case SCATTERED:
		err = rondo_reduce_scatter_v(
			env->comm, in, out, counts, RONDO_I32, RONDO_SUM, NULL);
		break;
	case EXCHANGED:
		same[2] += odd_one;
		err = rondo_all_to_all_v(env->comm, in, same, NULL, out, (size_t[]){ 5, 5, 5 },
			NULL, RONDO_I32, NULL);
		break;
	case AT_THE_ROOT:
		err = rondo_gather_v(
			env->comm, in, odd_one ? 6 : 5, out, same, NULL, RONDO_I32, 0, NULL);
		break;
	case FROM_THE_ROOT:
		err = rondo_scatter_v(
			env->comm, in, same, NULL, out, odd_one ? 6 : 5, RONDO_I32, 0, NULL);
		break;
	case NOT_VARIED:
		err = odd_one ? rondo_all_gather(env->comm, in, out, 5, RONDO_I32, NULL)
			      : rondo_all_gather_v(env->comm, in, out, same, NULL, RONDO_I32, NULL);
		break;
	}
	/* Who only sends hears of it at the next call. */
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	world_say(env, "%s", rondo_last_error());
	return err == RONDO_MISMATCH ? 0 : 1;
}

static void expect_misfit(enum misfit misfit, const char *one, const char *other)
{
	static const char *const transports[] = { "shm", "tcp" };
	struct rank_outcome outcomes[WORLD_MAX];

	for (int t = 0; t < 2; t++) {
		struct fork_world set = {
			.size = 3, .transport = transports[t], .timeout_ms = 20000
		};

		cr_assert_eq(world_run(&set, differ, &misfit, outcomes), 0);
		for (int i = 0; i < 3; i++) {
			cr_assert(strstr(outcomes[i].text, one), "%s: %s", one, outcomes[i].text);
			cr_assert(
				strstr(outcomes[i].text, other), "%s: %s", other, outcomes[i].text);
			cr_assert_str_eq(outcomes[i].text, outcomes[0].text);
		}
	}
}

Test(variable, counts_that_differ_are_an_error_everywhere, .timeout = 120)
{
	expect_misfit(GATHERED, "all_gather_v #1: rank ", "rank 1");
	expect_misfit(SCATTERED, "reduce_scatter_v #1: rank ", "rank 1");
}

/*
 * Counts choose the algorithm, too: for long blocks the ring, for short ones pat, whose chunks go
 * another way. So messages meet that are not of the same block; why, only the digest of all counts
 * tells.
 */
static int take_another_way(struct rank_env *env)
{
	enum { MANY = 4 << 20 };
	static int in[MANY + 64], out[MANY + 64];
	size_t counts[4] = { 4, 5, 6, env->rank == 1 ? MANY : 7 };
	int err = rondo_reduce_scatter_v(env->comm, in, out, counts, RONDO_I32, RONDO_SUM, NULL);

	world_say(env, "%s", rondo_last_error());
	return err == RONDO_MISMATCH ? 0 : 1;
}

Test(variable, counts_that_lead_to_another_algorithm_are_said_to_be_the_reason, .timeout = 60)
{
	struct fork_world set = { .size = 4, .transport = "shm", .timeout_ms = 20000 };
	struct rank_outcome outcomes[WORLD_MAX];

	setenv("RONDO_REPRODUCIBLE", "1", 1);
	cr_expect_eq(world_run(&set, take_another_way, NULL, outcomes), 0);
	for (int i = 0; i < 4; i++)
		cr_expect(strstr(outcomes[i].text, "reduce_scatter_v #1: rank ") &&
				  strstr(outcomes[i].text, " were given different counts"),
			"%s", outcomes[i].text);
}

Test(variable, a_pair_that_disagrees_is_named_with_its_numbers, .timeout = 120)
{
	expect_misfit(EXCHANGED, "rank 1 sends 6 i32 to rank 2", "which expects 5");
	expect_misfit(AT_THE_ROOT, "rank 1 sends 6 i32 to rank 0", "which expects 5");
	expect_misfit(FROM_THE_ROOT, "rank 0 sends 5 i32 to rank 1", "which expects 6");
}

Test(variable, blocks_of_one_length_and_of_many_are_different_calls, .timeout = 120)
{
	expect_misfit(NOT_VARIED, "rank 1 all_gather #1 of 5 i32", "all_gather_v #1 of i32");
}

static int expect_refusal(struct rank_env *env, int err, const char *reason)
{
	if (err == RONDO_INVALID && strstr(rondo_last_error(), reason))
		return 0;
	return world_say(env, "%d, \"%s\" instead of \"%s\"", err, rondo_last_error(), reason);
}

#define REFUSED(call, reason) \
	do { \
		if (expect_refusal(env, call, reason)) \
			return 1; \
	} while (0)

static int ask_wrongly(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	size_t counts[2] = { 4, 4 }, huge[2] = { 1, SIZE_MAX / 4 }, far[2] = { 0, SIZE_MAX / 8 };
	size_t apart[2] = { 0, 6 };
	int data[64] = { 0 }, more[64];
	void *gathered;

	REFUSED(rondo_all_gather_v(NULL, data, more, counts, NULL, RONDO_I32, NULL),
		"comm is NULL");
	REFUSED(rondo_all_gather_v(comm, data, more, NULL, NULL, RONDO_I32, NULL),
		"counts is NULL");
	REFUSED(rondo_all_gather_v(comm, data, NULL, counts, NULL, RONDO_I32, NULL),
		"recv is NULL");
	REFUSED(rondo_all_gather_v(comm, data, more, huge, NULL, RONDO_I32, NULL), "too large");
	REFUSED(rondo_all_gather_v(comm, data, more, counts, far, RONDO_I32, NULL), "too large");
	REFUSED(rondo_all_gather_v(comm, data + 1, data, counts, NULL, RONDO_I32, NULL), "overlap");
	REFUSED(rondo_all_gather_v(comm, data, more, counts, NULL, 77, NULL), "77 is no type");
	REFUSED(rondo_reduce_scatter_v(comm, data, more, counts, RONDO_I32, 77, NULL),
		"77 is no operation");
	REFUSED(rondo_all_to_all_v(comm, data, counts, NULL, data, counts, apart, RONDO_I32, NULL),
		"overlap");
	REFUSED(rondo_all_to_all_v(comm, data, NULL, NULL, more, counts, NULL, RONDO_I32, NULL),
		"counts is NULL");
	REFUSED(rondo_gather_v(comm, data, 4, more, counts, NULL, RONDO_I32, 2, NULL),
		"rank 2 is not in 0..1");
	gathered = data;
	REFUSED(rondo_gather_bytes(comm, NULL, 4, &gathered, counts, 0), "send is NULL");
	if (gathered)
		return world_say(env, "recv is not NULL after an error");
	if (env->rank == 0)
		REFUSED(rondo_gather_bytes(comm, data, 4, NULL, counts, 0), "recv is NULL");
	TRY(rondo_group_start());
	REFUSED(rondo_gather_bytes(comm, data, 4, &gathered, counts, 0), "no group");
	REFUSED(rondo_group_end(), "no group");
	/* None of it did any harm. */
	TRY(rondo_all_gather_v(comm, data, more, counts, NULL, RONDO_I32, NULL));
	return 0;
}

Test(variable, wrong_arguments_are_refused_and_harm_nothing, .timeout = 60)
{
	struct fork_world set = { .size = 2 };

	cr_assert_eq(world_run(&set, ask_wrongly, NULL, NULL), 0);
}
