/* ctest label: threads */
/* Plan files of RONDO_PLAN: they run like algorithms in C, in their range, and wrong ones never. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checked_call.h"
#include "comm/plan_cache.h"
#include "exec/algorithms.h"
#include "free_port.h"
#include "plan/calls.h"
#include "plan/collective.h"
#include "plan/export.h"

#define LIMIT_S 90
#define MOST 4099

/* ---- A folder of plan files ----------------------------------------------------------------- */

static char folder[] = "/tmp/rondo-test-XXXXXX";

static void name_path(char path[128], const char *name)
{
	snprintf(path, 128, "%s/%s.json", folder, name);
}

static void put_text(const char *name, const char *text)
{
	char path[128];
	FILE *out;

	name_path(path, name);
	out = fopen(path, "we");
	cr_assert(out);
	fputs(text, out);
	fclose(out);
}

/* The plans of an algorithm of Rondo's, as those of "carried". */
static void put_file(const char *name, const char *algorithm, enum rd_collective collective,
	int size, int64_t least, int64_t most)
{
	struct rd_problem problem = { .collective = collective, .size = size };
	struct rd_plan_file *file;
	char path[128];
	FILE *out;

	name_path(path, name);
	cr_assert_eq(plan_calls_file(&file, rd_algorithm_called(algorithm), &problem), 0, "%s",
		rondo_last_error());
	strcpy(file->name, "carried");
	file->least_bytes = least;
	file->most_bytes = most;
	out = fopen(path, "we");
	cr_assert(out);
	plan_file_write(file, out);
	fclose(out);
	rd_plan_file_destroy(file);
}

static void begin(void)
{
	cr_assert(mkdtemp(folder));
	setenv("RONDO_PLAN", folder, 1);
}

static void end(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(plan_files, .init = begin, .fini = end, .timeout = LIMIT_S);

/* ---- They run ------------------------------------------------------------------------------- */

static const char *const carried[CHECKED_COLLECTIVES] = {
	[RD_ALL_REDUCE] = "halving",
	[RD_REDUCE] = "binomial",
	[RD_BROADCAST] = "tree",
	[RD_REDUCE_SCATTER] = "pat",
	[RD_ALL_GATHER] = "ring",
	[RD_GATHER] = "linear",
	[RD_SCATTER] = "linear",
	[RD_ALL_TO_ALL] = "linear",
};

static bool has_run(const rondo_comm *comm, enum rd_collective collective)
{
	for (struct rd_prepared *it = comm->prepared[collective]; it; it = it->next)
		if (strcmp(it->plans[0]->algorithm, "carried") == 0)
			return true;
	return false;
}

static int try_call(struct rank_env *env, struct reference *r, struct checked_memory *memory)
{
	for (int in_place = 0; in_place <= 1; in_place++) {
		int err = checked_call(env, env->comm, r, in_place, NULL, memory);

		if (err < 0)
			return checked_call_wrong(
				env, r, in_place, rondo_last_error(), (size_t)err);
		if (err)
			return err;
	}
	return 0;
}

static int try_collective(struct rank_env *env, struct reference *r, struct checked_memory *memory)
{
	int roots = rd_collective_has_root(r->collective) ? env->size : 1, bad = 0;

	reference_fill(r);
	reference_combine(r);
	for (r->root = 0; r->root < roots && !bad; r->root++)
		bad = try_call(env, r, memory);
	r->root = 0;
	return bad;
}

/* The collectives from the first to the last, each with odd sizes and none. */
static int try_collectives(struct rank_env *env, int first, int last)
{
	static const size_t counts[] = { 0, 1, 7, 1023, MOST };
	struct checked_memory memory = checked_memory_get(env, MOST * 8 * (size_t)env->size);
	struct reference reference;
	int bad = 0;

	if (!env->comm)
		return world_report(env, "create: %s", rondo_last_error());
	reference_init(&reference, env->rank, env->size, MOST);
	reference.type = RONDO_F32;
	reference.op = RONDO_AVG;
	for (int c = first; c <= last && !bad; c++) {
		reference.collective = c;
		reference.op = rd_collective_reduces(c) ? RONDO_AVG : RONDO_SUM;
		for (size_t i = 0; i < sizeof(counts) / sizeof(*counts) && !bad; i++) {
			reference.count = counts[i];
			bad = try_collective(env, &reference, &memory);
		}
		if (!bad && !has_run(env->comm, c))
			bad = world_report(env, "no file ran %s", rd_collective_name(c));
	}
	reference_finish(&reference);
	checked_memory_put(env, &memory);
	return bad;
}

static int try_all(struct rank_env *env)
{
	return try_collectives(env, 0, CHECKED_COLLECTIVES - 1);
}

static void run_all(int size, const char *transport, bool threads)
{
	struct world world = { .size = size, .transport = transport, .threads = threads };

	/* Ranks that are threads have read the files of another number of ranks before. */
	for (int c = 0; c < CHECKED_COLLECTIVES; c++) {
		char name[64];

		snprintf(name, sizeof(name), "%s_%d", rd_collective_name(c), size);
		put_file(name, carried[c], c, size, 0, INT64_MAX);
	}
	cr_expect_eq(world_run(&world, try_all, NULL, NULL), 0, "%d over %s", size, transport);
}

Test(plan_files, run_over_shm)
{
	for (int size = 2; size <= 5; size++)
		run_all(size, "shm", ONLY_THREADS);
}

Test(plan_files, run_over_tcp)
{
	run_all(3, "tcp", ONLY_THREADS);
}

Test(plan_files, run_between_hosts)
{
	run_all(4, "mixed", ONLY_THREADS);
}

Test(plan_files, run_where_ranks_are_threads)
{
	run_all(3, NULL, true);
}

static int try_all_reduce(struct rank_env *env)
{
	return try_collectives(env, RD_ALL_REDUCE, RD_ALL_REDUCE);
}

Test(plan_files, run_by_direct_access)
{
	struct world world = { .size = 3, .memory = REGISTERED, .threads = ONLY_THREADS };

	put_file("direct", "two_shot", RD_ALL_REDUCE, 3, 0, INT64_MAX);
	cr_expect_eq(world_run(&world, try_all_reduce, NULL, NULL), 0);
}

/* ---- Their range ---------------------------------------------------------------------------- */

static bool is_chosen(rondo_comm *comm, size_t size, const char *name)
{
	struct rondo_way ways[RD_ALGORITHMS_KNOWN];
	int count = rondo_explain(comm, "all_reduce", size, RONDO_U8, 0, ways, RD_ALGORITHMS_KNOWN);

	for (int i = 0; i < count; i++)
		if (ways[i].chosen)
			return strcmp(ways[i].algorithm, name) == 0;
	return false;
}

/* Sizes of one size class differ, too. */
static int expect_range(struct rank_env *env)
{
	static const size_t sizes[] = { 0, 1001, 1002, 1022, 1023, 1 << 20 };
	static const bool in_range[] = { false, false, true, true, false, false };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		if (is_chosen(env->comm, sizes[i], "carried") != in_range[i])
			return world_report(env, "%zu bytes", sizes[i]);
	return 0;
}

Test(plan_files, run_in_their_range_alone)
{
	struct world world = { .size = 3, .threads = ONLY_THREADS };

	put_file("range", "pat", RD_ALL_REDUCE, 3, 1002, 1022);
	cr_expect_eq(world_run(&world, expect_range, NULL, NULL), 0);
}

static int expect_carried(struct rank_env *env)
{
	return is_chosen(env->comm, 64, "carried") ? 0 : world_report(env, "the file is not used");
}

Test(plan_files, may_have_a_blank_behind_the_comma)
{
	struct world world = { .size = 3, .threads = ONLY_THREADS };
	char first[128], second[128], list[300];

	put_file("first", "pat", RD_ALL_REDUCE, 4, 0, INT64_MAX);
	put_file("second", "pat", RD_ALL_REDUCE, 3, 0, INT64_MAX);
	name_path(first, "first");
	name_path(second, "second");
	snprintf(list, sizeof(list), "%s, %s", first, second);
	setenv("RONDO_PLAN", list, 1);
	cr_expect_eq(world_run(&world, expect_carried, NULL, NULL), 0);
}

static int expect_ring(struct rank_env *env)
{
	return is_chosen(env->comm, 64, "ring") ? 0 : world_report(env, "RONDO_ALGO is not used");
}

Test(plan_files, come_after_the_algorithm_that_is_named)
{
	struct world world = { .size = 3, .algo = "ring", .threads = ONLY_THREADS };

	put_file("any", "pat", RD_ALL_REDUCE, 3, 0, INT64_MAX);
	cr_expect_eq(world_run(&world, expect_ring, NULL, NULL), 0);
}

static int expect_none(struct rank_env *env)
{
	if (is_chosen(env->comm, 64, "carried"))
		return world_report(env, "a file of 4 ranks runs on 3");
	return world_sum_one(env);
}

Test(plan_files, of_other_numbers_of_ranks_wait_for_those)
{
	struct world world = { .size = 3, .threads = ONLY_THREADS };

	put_file("four", "pat", RD_ALL_REDUCE, 4, 0, INT64_MAX);
	cr_expect_eq(world_run(&world, expect_none, NULL, NULL), 0);
}

/* ---- Wrong files ---------------------------------------------------------------------------- */

static const char *wanted; /* in the reason, behind "RONDO_PLAN: " and the folder */

static int expect_no_comm(struct rank_env *env)
{
	char reason[300];

	if (env->create_error != RONDO_SETTING)
		return world_report(env, "%s", rondo_error_name(env->create_error));
	snprintf(reason, sizeof(reason), "RONDO_PLAN: %s%s", folder, wanted);
	return strstr(rondo_last_error(), reason) ? 0 : world_report(env, "%s", rondo_last_error());
}

static void expect_refused(const char *reason)
{
	struct world world = { .size = 2, .quiet = true, .threads = ONLY_THREADS };
	struct rank_outcome outcomes[WORLD_MAX];

	wanted = reason;
	cr_expect_eq(world_run(&world, expect_no_comm, NULL, outcomes), 0, "%s", outcomes[0].text);
}

#define HEAD "{\"format\": \"rondo-plan-file 1\", \"collective\": \"all_reduce\", \"ranks\": 2,\n"

Test(plan_files, that_are_no_plans_end_the_creation)
{
	expect_refused(": the folder has no file *.json");
	put_text("a", "{\n");
	expect_refused("/a.json:2: an object wants a key in quotes here");
	put_text("a", HEAD "\"name\": \"a\", \"plans\": [[[\"send\", 2, 0]], []]}");
	expect_refused("/a.json:2: rank 0, step 0: send wants a rank from 0 to 1");
}

Test(plan_files, whose_plans_do_not_hold_end_the_creation)
{
	put_text("a", HEAD "\"name\": \"a\", \"plans\": [[[\"recv\", 1, 0]], [[\"recv\", 0, 0]]]}");
	expect_refused(
		"/a.json: a, all_reduce, 2 ranks, root 0, target 0: deadlock: rank 0, step 0");
}

Test(plan_files, whose_name_is_taken_end_the_creation)
{
	put_text("a", HEAD "\"name\": \"ring\", \"plans\": [[], []]}");
	expect_refused("/a.json: there is an algorithm called ring already");
}

Test(plan_files, of_one_name_and_problem_end_the_creation)
{
	put_file("a", "ring", RD_ALL_REDUCE, 2, 0, 10);
	put_file("b", "ring", RD_ALL_REDUCE, 2, 11, 20);
	put_file("c", "ring", RD_ALL_REDUCE, 3, 0, 10);
	expect_refused("/b.json: there is an algorithm called carried already, for all_reduce");
}

Test(plan_files, that_are_not_there_end_the_creation)
{
	char path[128];

	name_path(path, "nowhere");
	setenv("RONDO_PLAN", path, 1);
	expect_refused("/nowhere.json: No such file or directory");
}

/* ---- Ranks that differ ---------------------------------------------------------------------- */

/* Rank 1 has another file: both fail, and the reason names it. */
static int meet(int rank, int port, const char *name)
{
	struct rondo_config config = world_config(rank, 2, port);
	rondo_comm *comm;
	char path[128];

	name_path(path, name);
	setenv("RONDO_PLAN", name ? path : "", 1);
	int err = rondo_comm_create(&comm, &config);

	if (err == RONDO_SETTING && strstr(rondo_last_error(), "rank 1") &&
		strstr(rondo_last_error(), "RONDO_PLAN must bring the same to every rank"))
		return 0;
	if (!err)
		return rondo_comm_destroy(comm) ? 1 : 2;
	fprintf(stderr, "rank %d: %s: %s\n", rank, rondo_error_name(err), rondo_last_error());
	return 1;
}

static int statuses_of(const char *first, const char *second)
{
	const char *names[] = { first, second };
	int port = free_port(), sum = 0, status;
	pid_t ranks[2];

	fflush(NULL);
	for (int rank = 0; rank < 2; rank++) {
		ranks[rank] = fork();
		if (ranks[rank] == 0)
			_exit(meet(rank, port, names[rank]));
	}
	for (int rank = 0; rank < 2; rank++) {
		cr_assert_eq(waitpid(ranks[rank], &status, 0), ranks[rank]);
		sum += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
	}
	return sum;
}

Test(plan_files, that_differ_by_rank_are_an_error_that_names_the_rank)
{
	put_file("a", "ring", RD_ALL_REDUCE, 2, 0, INT64_MAX);
	put_file("b", "doubling", RD_ALL_REDUCE, 2, 0, INT64_MAX);
	cr_expect_eq(statuses_of("a", "b"), 0);
	cr_expect_eq(statuses_of("a", NULL), 0);
	/* The same file elsewhere: both comms are made. */
	put_file("c", "ring", RD_ALL_REDUCE, 2, 0, INT64_MAX);
	cr_expect_eq(statuses_of("a", "c"), 4);
}
