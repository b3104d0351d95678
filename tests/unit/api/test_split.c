/* ctest label: threads */
/* Splits and duplicates of comms, finalized comms, and errors that come while no rank calls. */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

static void run_everywhere(int (*body)(struct rank_env *env))
{
	struct world threads = { .size = 5, .transport = "mixed", .threads = true };

	for (int size = 1; size <= 8; size += size < 4 ? 1 : 4)
		world_try(size, "shm", body);
	world_try(4, "tcp", body);
	world_try(6, "mixed", body);
	cr_assert_eq(world_run(&threads, body, NULL, NULL), 0);
}

/* ---- Parts ---------------------------------------------------------------------------------- */

/* Whether the sum over a comm, of which this rank brings `mine`, is `wanted`. */
static bool sums_to(rondo_comm *comm, int mine, int wanted, rondo_stream *stream)
{
	int sum = mine;

	return !rondo_all_reduce(comm, &sum, &sum, 1, RONDO_I32, RONDO_SUM, stream) &&
	       !(stream && rondo_stream_synchronize(stream)) && sum == wanted;
}

/* Every third rank, numbered backwards; and both comms at once. */
static int part(struct rank_env *env)
{
	int rank = env->rank, size = env->size, color = rank % 3, of_all = 0, of_part = 0;
	int members = 0, after = 0, ranks[8];
	rondo_comm *mine = NULL;

	for (int i = 0; i < size; i++) {
		of_all += 1 << i;
		if (i % 3 != color)
			continue;
		of_part += 1 << i;
		members++;
		after += i > rank;
	}
	TRY(rondo_comm_split(env->comm, color, -rank, &mine));
	if (rondo_comm_size(mine) != members || rondo_comm_rank(mine) != after)
		return world_report(env, "rank %d of %d, not %d of %d", rondo_comm_rank(mine),
			rondo_comm_size(mine), after, members);
	for (int i = 0; i < 20; i++)
		if (!sums_to(mine, 1 << rank, of_part, NULL) ||
			!sums_to(env->comm, 1 << rank, of_all, NULL))
			return world_report(env, "a sum is wrong: %s", rondo_last_error());
	TRY(rondo_all_gather(mine, &rank, ranks, 1, RONDO_I32, NULL));
	for (int i = 0; i < members; i++)
		if (ranks[i] % 3 != color || (i > 0 && ranks[i] >= ranks[i - 1]))
			return world_report(env, "rank %d of the part was %d", i, ranks[i]);
	/* The old comm outlives the new one; in the next test the new one outlives the old. */
	TRY(rondo_comm_destroy(mine));
	if (!sums_to(env->comm, 1 << rank, of_all, NULL))
		return world_report(env, "after it: %s", rondo_last_error());
	return 0;
}

Test(split, ranks_of_a_color_are_a_comm_ordered_by_key, .timeout = 120)
{
	run_everywhere(part);
}

/* Parts measure nothing: no two measurements end with the same numbers. */
static int compare_costs(struct rank_env *env)
{
	char whole[4096], text[4096];
	rondo_comm *mine = NULL;

	TRY(rondo_comm_split(env->comm, env->rank % 2, 0, &mine));
	rondo_costs(env->comm, whole, sizeof(whole));
	rondo_costs(mine, text, sizeof(text));
	TRY(rondo_comm_destroy(mine));
	return strcmp(text, whole) == 0 ? 0 : world_report(env, "%.400s", text);
}

Test(split, parts_have_the_costs_of_the_whole, .timeout = 60)
{
	world_try(4, "shm", compare_costs);
	world_try(4, "mixed", compare_costs);
}

static int duplicate(struct rank_env *env)
{
	int rank = env->rank, all = (1 << env->size) - 1;
	rondo_comm *copy = NULL, *again = NULL;
	rondo_stream *stream = NULL;

	TRY(rondo_stream_create(&stream));
	TRY(rondo_comm_duplicate(env->comm, &copy));
	TRY(rondo_comm_duplicate(copy, &again));
	TRY(world_leave(env));
	if (rondo_comm_rank(again) != rank || rondo_comm_size(again) != env->size)
		return world_report(env, "the copy is another");
	for (int i = 0; i < 20; i++)
		if (!sums_to(copy, 1 << rank, all, NULL) || !sums_to(again, 1 << rank, all, stream))
			return world_report(env, "a sum is wrong: %s", rondo_last_error());
	rondo_stream_destroy(stream);
	TRY(rondo_comm_destroy(copy));
	TRY(rondo_comm_destroy(again));
	return 0;
}

Test(split, copies_outlive_what_they_were_made_from, .timeout = 120)
{
	run_everywhere(duplicate);
}

static int keep_out(struct rank_env *env)
{
	rondo_comm *mine = env->comm;

	TRY(rondo_comm_split(env->comm, env->rank == 1 ? -1 : 5, 0, &mine));
	if (env->rank == 1)
		return mine ? world_report(env, "rank 1 is in a part") : 0;
	if (rondo_comm_size(mine) != env->size - 1 ||
		rondo_comm_rank(mine) != env->rank - (env->rank > 1))
		return world_report(
			env, "rank %d of %d", rondo_comm_rank(mine), rondo_comm_size(mine));
	TRY(rondo_barrier(mine, NULL));
	TRY(rondo_comm_destroy(mine));
	return 0;
}

Test(split, who_has_no_color_is_in_no_part, .timeout = 60)
{
	world_try(2, "shm", keep_out);
	world_try(4, "tcp", keep_out);
}

/* The linker has the library call this one in this program: CMakeLists.txt. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static _Atomic bool memory_is_short;
static _Atomic int calls_to_live; /* calls until this process is killed; 0: never */
static _Atomic int calls_to_fail; /* calls until one fails; 0: none does */

void *__wrap_calloc(size_t count, size_t size)
{
	if (calls_to_live > 0 && --calls_to_live == 0)
		raise(SIGKILL);
	if (calls_to_fail > 0 && --calls_to_fail == 0)
		return NULL;
	return memory_is_short ? NULL : __real_calloc(count, size);
}

/* The last two ranks lack memory, all get the error of the first of these; the comm continues. */
static int lack_memory(struct rank_env *env)
{
	int rank = env->rank, size = env->size;
	rondo_comm *mine = env->comm;

	TRY(rondo_barrier(env->comm, NULL)); /* allocates for later calls */
	TRY(rondo_all_reduce(env->comm, &rank, &rank, 1, RONDO_I32, RONDO_MAX, NULL));
	memory_is_short = env->rank >= size - 2;
	int err = rondo_comm_split(env->comm, 0, 0, &mine);

	memory_is_short = false;
	if (err != RONDO_MEMORY || mine || !strstr(rondo_last_error(), "rank 1 has no memory"))
		return world_report(env, "%d: %s", err, err ? rondo_last_error() : "");
	TRY(rondo_comm_split(env->comm, 0, 0, &mine));
	TRY(rondo_comm_destroy(mine));
	return 0;
}

Test(split, a_rank_without_memory_is_named_to_all, .timeout = 60)
{
	world_try(3, "shm", lack_memory);
}

/* Which call of calloc() fails, on which rank, and how the comm is made. */
struct lack {
	int victim, call;
	bool splits;
};

#define EARLY 8 /* calls before the ranks meet */

enum { MADE, FAILED, SURVIVED };

/* Reports a failure. */
static int make_another(struct rank_env *env, bool splits, rondo_comm **comm)
{
	int err;

	*comm = NULL;
	if (!splits)
		return world_second_comm(env, comm);
	err = rondo_comm_split(env->comm, 0, 0, comm);
	if (err)
		world_report(env, "%s: %s", rondo_error_name(err), rondo_last_error());
	return err;
}

/* A rank may do without some memory. Without other memory all ranks fail, with the reason. */
static int lack_memory_once(struct rank_env *env)
{
	const struct lack *lack = env->argument;
	bool lacks = env->rank == lack->victim;
	rondo_comm *mine;
	int failed;

	/* Writes the plans of the old comm's calls, so that only the creation counts below. */
	if (make_another(env, lack->splits, &mine))
		return 1;
	TRY(rondo_comm_destroy(mine));
	if (lacks)
		calls_to_fail = lack->call;
	failed = make_another(env, lack->splits, &mine);
	*env->number = lacks && calls_to_fail > 0 ? SURVIVED : failed ? FAILED : MADE;
	calls_to_fail = 0;
	if (mine)
		rondo_comm_destroy(mine);
	if (!failed)
		return 0;
	/* Once ranks connect, the reason may be that a connection failed. */
	return lack->call <= EARLY
		       ? !strstr(env->text, "RONDO_MEMORY")
		       : strstr(env->text, "RONDO_DIED") || strstr(env->text, "RONDO_TIMEOUT");
}

/* False: the creation takes fewer calls. */
static bool lack_at(struct lack *lack, const char *transport)
{
	/* Both timeouts are 30 s. */
	struct world world = { .size = 3, .transport = transport, .limit_ms = 20000 };
	struct rank_outcome outcomes[WORLD_MAX];
	int failed = world_run(&world, lack_memory_once, lack, outcomes);

	cr_assert_eq(failed, 0, "call %d of rank %d", lack->call, lack->victim);
	if (outcomes[lack->victim].number == SURVIVED)
		return false;
	/* Once all are connected a rank may return before another fails. */
	for (int i = 0; i < 3 && (lack->splits || lack->call <= EARLY); i++)
		cr_assert_eq(outcomes[i].number, outcomes[0].number, "call %d of rank %d: %s",
			lack->call, lack->victim, outcomes[i].text);
	return true;
}

static void lack_at_every_call(int victim, bool splits, const char *transport)
{
	struct lack lack = { .victim = victim, .call = 1, .splits = splits };

	while (lack_at(&lack, transport))
		lack.call += lack.call < 32 && !ONLY_THREADS ? 1 : 1 + lack.call / 4;
	cr_assert_gt(lack.call, 20, "a comm takes more calls than that");
}

Test(split, memory_that_one_rank_lacks_once_is_the_error_of_all, .timeout = 300)
{
	lack_at_every_call(0, true, "shm");
	lack_at_every_call(1, true, "tcp");
	lack_at_every_call(0, false, "tcp");
	lack_at_every_call(1, false, "shm");
}

/* A new comm's links are of its own: two threads use the two at the same time. */
static int use_both(struct rank_env *env)
{
	enum { COUNT = 100000 };
	rondo_comm *copy = NULL;
	rondo_stream *stream = NULL;
	int *a = calloc(COUNT, sizeof(*a)), *b = calloc(COUNT, sizeof(*b));

	TRY(rondo_comm_duplicate(env->comm, &copy));
	TRY(rondo_stream_create(&stream));
	for (int i = 0; i < COUNT; i++)
		a[i] = b[i] = 1;
	for (int i = 0; i < 5; i++) {
		TRY(rondo_all_reduce(copy, a, a, COUNT, RONDO_I32, RONDO_SUM, stream));
		TRY(rondo_all_reduce(env->comm, b, b, COUNT, RONDO_I32, RONDO_SUM, NULL));
	}
	TRY(rondo_stream_synchronize(stream));
	rondo_stream_destroy(stream);
	TRY(rondo_comm_destroy(copy));
	for (int i = 0; i < COUNT; i++)
		if (a[i] != 243 || b[i] != 243)
			return world_report(env, "element %d: %d and %d", i, a[i], b[i]);
	free(a);
	free(b);
	return 0;
}

Test(split, both_comms_work_at_the_same_time, .timeout = 60)
{
	world_try(3, "shm", use_both);
	world_try(3, "tcp", use_both);
}

/* ---- Failure -------------------------------------------------------------------------------- */

/* Rank 2 dies on its way into its part; ranks 0 and 1 make one of their own. */
static int die_within(struct rank_env *env)
{
	rondo_comm *mine = env->comm;

	if (env->rank == 2)
		raise(SIGKILL);

	int err = rondo_comm_split(env->comm, env->rank / 2, 0, &mine);

	world_report(env, "%s", rondo_last_error());
	return err == RONDO_DIED && !mine ? 0 : 1;
}

Test(split, a_death_ends_it_on_every_rank, .timeout = 60)
{
	struct world world = { .size = 4, .timeout_ms = 20000 };
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert_eq(world_run(&world, die_within, NULL, outcomes), 1);
	cr_assert_eq(outcomes[2].status, 128 + SIGKILL);
	for (int i = 0; i < 4; i++)
		cr_assert(i == 2 || strstr(outcomes[i].text, "rank 2"), "%s", outcomes[i].text);
}

/* The rank that dies, at which of its calls of calloc(), and whether all are in one part. */
struct death {
	int victim, call;
	bool together;
};

/* Ranks 0 and 2, and 1 and 3, make a part each; or all one. */
static int die_at(struct rank_env *env)
{
	const struct death *death = env->argument;
	bool dies = env->rank == death->victim;
	rondo_comm *mine = env->comm;
	char name[32];
	int err;

	/* Writes the plans of the old comm's calls, so that only the creation counts below. */
	TRY(rondo_comm_split(env->comm, env->rank % 2, 0, &mine));
	TRY(rondo_comm_destroy(mine));
	mine = NULL;
	/* Else the victim could die while another rank still makes or destroys that part. */
	err = rondo_barrier(env->comm, NULL);
	if (dies)
		calls_to_live = death->call;
	if (!err)
		err = rondo_comm_split(env->comm, death->together ? 0 : env->rank % 2, 0, &mine);
	if (dies && !err && calls_to_live > 0) {
		*env->number = 1;
		calls_to_live = 0;
		return rondo_comm_destroy(mine);
	}
	if (dies)
		raise(SIGKILL);
	snprintf(name, sizeof(name), "rank %d (host", death->victim);
	/* It may have done its part before it died. Then the old comm fails next. */
	if (!err && mine)
		rondo_comm_destroy(mine);
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	else if (mine)
		return world_report(env, "a comm that was not made is not NULL");
	if (err != RONDO_DIED || !strstr(rondo_last_error(), name))
		return world_report(env, "%d: %s", err, err ? rondo_last_error() : "no error");
	return 0;
}

/* False: the victim survived, for a split takes fewer calls. */
static bool kill_at(struct death *death, const char *transport)
{
	/* Both timeouts are 30 s. */
	struct world world = { .size = 4, .transport = transport, .limit_ms = 20000 };
	struct rank_outcome outcomes[WORLD_MAX];

	world_run(&world, die_at, death, outcomes);
	if (outcomes[death->victim].number)
		return false;
	cr_assert_eq(outcomes[death->victim].status, 128 + SIGKILL, "call %d: %s", death->call,
		outcomes[death->victim].text);
	for (int i = 0; i < 4; i++)
		cr_assert(i == death->victim || outcomes[i].status == 0, "call %d, rank %d: %d: %s",
			death->call, i, outcomes[i].status, outcomes[i].text);
	return true;
}

static void kill_at_every_call(int victim, bool together, const char *transport)
{
	struct death death = { .victim = victim, .call = 1, .together = together };

	setenv("RONDO_REPRODUCIBLE", "1", 1); /* no time is spent on measuring links */
	while (kill_at(&death, transport))
		death.call += ONLY_THREADS ? 1 + death.call / 4 : 1;
	cr_assert_gt(death.call, 12, "a split makes more calls than that");
}

Test(split, a_death_at_any_moment_ends_it_at_once_on_every_rank, .timeout = 300)
{
	kill_at_every_call(0, true, "shm");
	kill_at_every_call(1, true, "tcp");
	kill_at_every_call(1, false, "shm");
	kill_at_every_call(2, false, "tcp");
}

static int split_wrongly(struct rank_env *env)
{
	rondo_comm *mine = env->comm;

	EXPECT_ERROR(rondo_comm_split(NULL, 0, 0, &mine), RONDO_INVALID, "comm is NULL");
	EXPECT_ERROR(rondo_comm_split(env->comm, 0, 0, NULL), RONDO_INVALID, "is NULL");
	EXPECT_ERROR(rondo_comm_duplicate(NULL, &mine), RONDO_INVALID, "duplicate: comm is NULL");
	if (mine)
		return world_report(env, "a comm that was not made is not NULL");
	TRY(rondo_group_start());
	EXPECT_ERROR(rondo_comm_duplicate(env->comm, &mine), RONDO_INVALID, "end the group first");
	TRY(rondo_group_end());
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

Test(split, wrong_arguments_are_refused, .timeout = 60)
{
	world_try(2, NULL, split_wrongly);
}

/* No rank makes a call; the living ones poll the error. */
static int poll_error(struct rank_env *env)
{
	int64_t limit = world_now_ms() + 20000;
	int err;

	/* Rank 1 may have finished and left before the others. */
	rondo_barrier(env->comm, NULL);
	if (env->rank == 1 && *(bool *)env->argument)
		raise(SIGKILL);
	if (env->rank == 1)
		TRY(rondo_comm_revoke(env->comm, "enough"));
	do {
		err = rondo_comm_error(env->comm);
		poll(NULL, 0, 1);
	} while (!err && world_now_ms() < limit);
	world_report(env, "%s", rondo_last_error());
	return err == (*(bool *)env->argument ? RONDO_DIED : RONDO_REVOKED) ? 0 : 1;
}

Test(error, of_a_death_is_there_to_be_asked_for_with_no_call_under_way, .timeout = 60)
{
	struct world world = { .size = 3 };
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert_eq(world_run(&world, poll_error, &(bool){ true }, outcomes), 1);
	cr_assert(strstr(outcomes[0].text, "rank 1"), "%s", outcomes[0].text);
	cr_assert_str_eq(outcomes[0].text, outcomes[2].text);
}

Test(error, of_an_abort_is_there_to_be_asked_for_with_no_call_under_way, .timeout = 60)
{
	struct world world = { .size = 3, .transport = "tcp" };
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert_eq(world_run(&world, poll_error, &(bool){ false }, outcomes), 0);
	cr_assert(strstr(outcomes[2].text, "enough"), "%s", outcomes[2].text);
}

/* ---- Finalizing ----------------------------------------------------------------------------- */

static int finalize(struct rank_env *env)
{
	int sum = 1, more = 1, pipe_word = 0;
	const int *pipe_fds = env->argument;
	rondo_comm *part = env->comm;
	rondo_stream *stream = NULL;
	struct pollfd fd = { .fd = pipe_fds[0], .events = POLLIN };

	TRY(rondo_stream_create(&stream));
	TRY(rondo_all_reduce(env->comm, &sum, &sum, 1, RONDO_I32, RONDO_SUM, stream));
	TRY(rondo_comm_finalize(env->comm));
	if (sum != env->size)
		return world_report(env, "finalized before the stream was done");
	TRY(rondo_comm_error(env->comm));
	EXPECT_ERROR(rondo_all_reduce(env->comm, &more, &more, 1, RONDO_I32, RONDO_SUM, NULL),
		RONDO_INVALID, "was finalized");
	EXPECT_ERROR(rondo_all_reduce(env->comm, &more, &more, 1, RONDO_I32, RONDO_SUM, stream),
		RONDO_INVALID, "was finalized");
	EXPECT_ERROR(rondo_comm_split(env->comm, 0, 0, &part), RONDO_INVALID, "was finalized");
	EXPECT_ERROR(rondo_comm_finalize(env->comm), RONDO_INVALID, "was finalized");
	TRY(rondo_stream_synchronize(stream));
	rondo_stream_destroy(stream);
	/* Local: rank 0 has destroyed it, and the others wait for that. */
	if (env->rank > 0 && poll(&fd, 1, 20000) != 1)
		return world_report(env, "rank 0 waits");
	TRY(world_leave(env));
	return env->rank == 0 && write(pipe_fds[1], &pipe_word, 4) != 4;
}

static void run_finalize(int size, const char *transport)
{
	struct world world = { .size = size, .transport = transport };
	int pipe_fds[2];

	cr_assert_eq(pipe(pipe_fds), 0);
	cr_assert_eq(world_run(&world, finalize, pipe_fds, NULL), 0);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

Test(finalize, ends_what_is_under_way_and_makes_destroying_local, .timeout = 60)
{
	run_finalize(1, NULL);
	run_finalize(3, "shm");
	run_finalize(4, "tcp");
	run_finalize(4, "mixed");
}

/* Two ranks made as many calls, but different ones: leaving fails. */
static int finalize_unlike(struct rank_env *env)
{
	char byte = 0;

	/* A broadcast from itself: both only send. */
	TRY(rondo_broadcast(env->comm, &byte, &byte, 1, RONDO_U8, env->rank, NULL));

	int err = rondo_comm_finalize(env->comm);

	world_report(env, "%s", rondo_last_error());
	*env->number = err == RONDO_MISMATCH;
	TRY(world_leave(env));
	return 0;
}

Test(finalize, returns_the_errors_that_destroy_returns, .timeout = 60)
{
	struct world world = { .size = 2 };
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert_eq(world_run(&world, finalize_unlike, NULL, outcomes), 0);
	cr_assert(outcomes[0].number || outcomes[1].number, "%s", outcomes[0].text);
}
