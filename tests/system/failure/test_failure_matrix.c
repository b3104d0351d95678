/*
 * Deaths of real processes, in more than a thousand cases: which rank, at which moment, in which
 * collective, over which transport, of which size, by which signal. In each case every survivor
 * gets one error, the same for all, which names the rank that died, and nothing is left behind.
 *
 * MATRIX_CASE=NUMBER runs one case alone.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "call_collective.h"
#include "comm/comm.h"
#include "control_ranks.h"
#include "world.h"
#include "transports/contract/leaks.h"

#define SIZE 4
#define LIMIT_MS 20000

/* ---- The cases ----------------------------------------------------------------------------- */

enum moment {
	BEFORE_THE_CALL, /* the others are in it */
	AS_IT_BEGINS, /* from another thread, once the call has its number */
	IN_ITS_OPERATION, /* the program's own, in the middle of the call */
	IN_A_GROUP, /* whose calls have not run */
	ON_A_STREAM, /* whose thread has the call */
	AFTER_IT, /* the others may be in it, or in the next call */
	IN_A_SPLIT, /* the others make a comm of this one */
	IN_DESTROY, /* the others leave */
	MOMENTS
};

static const char *const moment_names[MOMENTS] = { "before the call", "as it begins",
	"in its operation", "in a group", "on a stream", "after it", "in a split", "in destroy" };

/* Registered memory: ranks access each other's. "mixed": two hosts, shm within and tcp between. */
static const struct way {
	const char *name, *transport;
	enum world_memory memory;
} ways[] = { { "shm", "shm", MALLOCED }, { "shm, registered memory", "shm", REGISTERED },
	{ "tcp", "tcp", MALLOCED }, { "shm and tcp", "mixed", MALLOCED } };

/* Elements of a block. */
static const size_t counts[] = { 2, 16 << 10, 1 << 20 };

/* The process ends by this signal; or by _exit() with this status, if `exits`. */
static const struct end {
	const char *name;
	int signal;
	bool exits;
	int status;
} ends[] = { { "SIGKILL", SIGKILL, false, 0 }, { "SIGSEGV", SIGSEGV, false, 0 },
	{ "SIGTERM", SIGTERM, false, 0 }, { "exit(1)", 0, true, 1 }, { "exit(0)", 0, true, 0 } };

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define COLLECTIVES RD_COLLECTIVE_COUNT

struct place_in_matrix {
	int number;
	int victim; /* a rank */
	enum moment moment;
	enum rd_collective collective;
	int way, count, end; /* of the tables above */
	bool stops; /* in place of the end: SIGSTOP, which only silence shows */
};

static bool has_operation(enum rd_collective collective)
{
	return collective == RD_ALL_REDUCE || collective == RD_REDUCE ||
	       collective == RD_REDUCE_SCATTER;
}

/* call_collective() has no transfers. */
static bool is_called(int collective)
{
	return collective != RD_TRANSFER;
}

#define ENDED (MOMENTS * COLLECTIVES * LENGTH(ways) * SIZE)
#define STOPPED (COLLECTIVES * SIZE)

/* All of (moment, collective, way, victim). The two others change with each case, so that each of
   their values meets each value of all: pairs_are_covered. False: there is no such case. */
static bool find_ended(int number, struct place_in_matrix *place)
{
	int rest = number / SIZE;

	*place = (struct place_in_matrix){ .number = number, .victim = number % SIZE };
	place->way = rest % LENGTH(ways);
	rest /= LENGTH(ways);
	place->collective = (enum rd_collective)(rest % COLLECTIVES);
	place->moment = (enum moment)(rest / COLLECTIVES);
	place->count = (number + rest) % LENGTH(counts);
	place->end = (number / 2 + rest) % LENGTH(ends);
	return is_called(place->collective) &&
	       (place->moment != IN_ITS_OPERATION || has_operation(place->collective));
}

/* Fewer, for each takes the time of the silence. */
static bool find_stopped(int number, struct place_in_matrix *place)
{
	int rest = (number - ENDED) / SIZE;

	*place = (struct place_in_matrix){ .number = number,
		.victim = (number - ENDED) % SIZE,
		.moment = BEFORE_THE_CALL,
		.stops = true };
	place->way = (number + rest) % LENGTH(ways);
	place->collective = (enum rd_collective)rest;
	place->count = (place->victim + rest) % LENGTH(counts);
	return is_called(place->collective);
}

static bool find_place(int number, struct place_in_matrix *place)
{
	return number < ENDED ? find_ended(number, place) : find_stopped(number, place);
}

/* ---- One case ------------------------------------------------------------------------------- */

struct matrix_case {
	struct place_in_matrix place;
	/* Shared by the processes: */
	_Atomic int survivors;
	_Atomic pid_t stopped;
};

static void end_here(struct matrix_case *at)
{
	const struct end *end = &ends[at->place.end];

	if (at->place.stops) {
		atomic_store(&at->stopped, getpid());
		raise(SIGSTOP);
		_exit(99);
	}
	if (end->exits)
		_exit(end->status);
	/* A sanitizer may have handlers. */
	signal(end->signal, SIG_DFL);
	raise(end->signal);
	_exit(98);
}

static struct matrix_case *of_this_rank;
static uint32_t calls_before;

static void die_combining(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	const float *one = a, *other = b;

	(void)type;
	if (argument)
		end_here(argument);
	for (size_t i = 0; i < count; i++)
		((float *)into)[i] = one[i] + other[i];
}

static void *die_once_it_has_begun(void *argument)
{
	const struct rd_activity *activity = &((rondo_comm *)argument)->activity;

	while (atomic_load(&activity->calls) == calls_before)
		;
	end_here(of_this_rank);
	return NULL;
}

struct buffers {
	void *in, *out;
};

/* The root is rank 0. */
static int call(struct rank_env *env, const struct buffers *buffers, rondo_op op, rondo_stream *on)
{
	const struct matrix_case *at = env->argument;

	return call_collective(env->comm, at->place.collective, buffers->in, buffers->out,
		counts[at->place.count], RONDO_F32, op, 0, on);
}

/* In the victim: does not return, but where the operation is called in no call of this rank. */
static void die(struct rank_env *env, const struct buffers *buffers, rondo_op op)
{
	struct matrix_case *at = env->argument;
	rondo_stream *stream;
	pthread_t thread;

	of_this_rank = at;
	calls_before = atomic_load(&env->comm->activity.calls);
	switch (at->place.moment) {
	case AS_IT_BEGINS:
		if (pthread_create(&thread, NULL, die_once_it_has_begun, env->comm) == 0) {
			call(env, buffers, op, NULL);
			pthread_join(thread, NULL);
		}
		break;
	case IN_ITS_OPERATION:
		call(env, buffers, op, NULL);
		break;
	case IN_A_GROUP:
		rondo_group_start();
		call(env, buffers, op, NULL);
		break;
	case ON_A_STREAM:
		if (rondo_stream_create(&stream) == 0)
			call(env, buffers, op, stream);
		break;
	case AFTER_IT:
	case IN_DESTROY:
		call(env, buffers, op, NULL);
		break;
	default:
		break;
	}
	end_here(at);
}

/* On a survivor, which may have had its part in the call before. Returns the error. */
static int live_on(struct rank_env *env, const struct buffers *buffers, rondo_op op)
{
	const struct matrix_case *at = env->argument;
	rondo_comm *part = NULL;
	int err = 0;

	if (at->place.moment == IN_A_SPLIT) {
		err = rondo_comm_duplicate(env->comm, &part);
		rondo_comm_destroy(part);
	} else {
		err = call(env, buffers, op, NULL);
	}
	return err ? err : rondo_barrier(env->comm, NULL);
}

static int check_error(struct rank_env *env, int err)
{
	const struct matrix_case *at = env->argument;
	int failed[2] = { -1, -1 }, count;
	char words[16];

	snprintf(words, sizeof(words), "rank %d", at->place.victim);
	if (world_expect(env, "the call", err, at->place.stops ? RONDO_TIMEOUT : RONDO_DIED, words))
		return 1;
	*env->number = rd_hash(RD_HASH_INIT, rondo_last_error(), strlen(rondo_last_error()));
	count = rondo_comm_failed(env->comm, failed, 2);
	if (count != 1 || failed[0] != at->place.victim)
		return world_report(env, "%d failed ranks, the first is %d", count, failed[0]);
	return 0;
}

/* After a call of all ranks. This one may have left before the other dies: that is no error. */
static int leave(struct rank_env *env, int err)
{
	int last = rondo_comm_destroy(env->comm);

	env->comm = NULL;
	*env->number = 0;
	if ((err == 0 || err == RONDO_DIED) && (last == 0 || last == RONDO_DIED))
		return 0;
	return world_report(env, "in destroy: %s", rondo_last_error());
}

/* The last survivor frees the one that is stopped, which its parent awaits. */
static void end_stopped(struct matrix_case *at)
{
	if (at->place.stops && atomic_fetch_add(&at->survivors, 1) == SIZE - 2)
		kill(atomic_load(&at->stopped), SIGKILL);
}

static int open_buffers(struct rank_env *env, struct buffers *buffers, rondo_op *op)
{
	struct matrix_case *at = env->argument;
	size_t size = SIZE * counts[at->place.count] * sizeof(float);

	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	buffers->in = world_get_memory(env, size);
	buffers->out = world_get_memory(env, size);
	if (!buffers->in || !buffers->out)
		return world_report(env, "no memory");
	memset(buffers->in, 0, size);
	*op = RONDO_SUM;
	if (at->place.moment == IN_ITS_OPERATION)
		TRY(rondo_op_create(env->comm, op, die_combining, 0,
			env->rank == at->place.victim ? at : NULL));
	return 0;
}

static int run_rank(struct rank_env *env)
{
	struct matrix_case *at = env->argument;
	struct buffers buffers = { NULL, NULL };
	rondo_op op;
	int wrong = open_buffers(env, &buffers, &op);

	if (wrong)
		return wrong;
	if (env->rank == at->place.victim)
		die(env, &buffers, op);
	if (at->place.moment == IN_DESTROY)
		wrong = leave(env, call(env, &buffers, op, NULL));
	else
		wrong = check_error(env, live_on(env, &buffers, op));
	world_put_memory(env, buffers.in);
	world_put_memory(env, buffers.out);
	end_stopped(at);
	return wrong;
}

/* ---- All of them ---------------------------------------------------------------------------- */

static int wanted_status(const struct place_in_matrix *place)
{
	const struct end *end = &ends[place->end];

	if (place->stops)
		return 128 + SIGKILL;
	return end->exits ? end->status : 128 + end->signal;
}

static void describe(const struct place_in_matrix *place, char text[256])
{
	snprintf(text, 256, "MATRIX_CASE=%d: rank %d, %s, %s, %s, %zu elements, %s", place->number,
		place->victim, moment_names[place->moment], rd_collective_name(place->collective),
		ways[place->way].name, counts[place->count],
		place->stops ? "SIGSTOP" : ends[place->end].name);
}

static void check_outcomes(
	const struct place_in_matrix *place, const struct rank_outcome outcomes[WORLD_MAX])
{
	uint64_t reason = 0;
	char text[256];

	describe(place, text);
	for (int rank = 0; rank < SIZE; rank++) {
		const struct rank_outcome *outcome = &outcomes[rank];
		bool is_victim = rank == place->victim;

		cr_expect_eq(outcome->status, is_victim ? wanted_status(place) : 0,
			"%s: rank %d: status %d: %s", text, rank, outcome->status, outcome->text);
		if (is_victim || outcome->status)
			continue;
		cr_expect(!reason || outcome->number == reason, "%s: survivors differ", text);
		reason = outcome->number;
	}
	cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "%s: a process is left", text);
}

static void run_case(const struct place_in_matrix *place)
{
	struct matrix_case *at =
		mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct world world = { .size = SIZE,
		.transport = ways[place->way].transport,
		.memory = ways[place->way].memory,
		.limit_ms = LIMIT_MS };
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert_neq(at, MAP_FAILED);
	at->place = *place;
	world_run(&world, run_rank, at, outcomes);
	check_outcomes(place, outcomes);
	munmap(at, sizeof(*at));
}

/* Every fifth case is a sample of all values. It suffices where a sanitizer's process takes many
   times longer; and with clang, for a death goes the same way through the code of both. */
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
#define STRIDE 5
#else
#define STRIDE 1
#endif

static int run_cases(int from, int to)
{
	const char *only = getenv("MATRIX_CASE");
	int files = contract_open_files(), cases = 0;
	struct place_in_matrix place;

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	setenv("RONDO_REPRODUCIBLE", "1", 1); /* no time is spent on measuring links */
	for (int number = from; number < to; number++) {
		if (only ? atoi(only) != number : number % STRIDE != 0)
			continue;
		if (!find_place(number, &place))
			continue;
		run_case(&place);
		cases++;
	}
	cr_expect_eq(contract_open_files(), files, "%d descriptors are left",
		contract_open_files() - files);
	return cases;
}

#define MOMENT(number) (number) * (ENDED / MOMENTS), ((number) + 1) * (ENDED / MOMENTS)

TestSuite(failure_matrix, .timeout = 280);

Test(failure_matrix, before_the_call)
{
	run_cases(MOMENT(BEFORE_THE_CALL));
}

Test(failure_matrix, as_the_call_begins)
{
	run_cases(MOMENT(AS_IT_BEGINS));
}

Test(failure_matrix, in_the_operation_of_the_call)
{
	run_cases(MOMENT(IN_ITS_OPERATION));
}

Test(failure_matrix, in_a_group)
{
	run_cases(MOMENT(IN_A_GROUP));
}

Test(failure_matrix, on_a_stream)
{
	run_cases(MOMENT(ON_A_STREAM));
}

Test(failure_matrix, after_the_call)
{
	run_cases(MOMENT(AFTER_IT));
}

Test(failure_matrix, in_a_split)
{
	run_cases(MOMENT(IN_A_SPLIT));
}

Test(failure_matrix, in_destroy)
{
	run_cases(MOMENT(IN_DESTROY));
}

/* Silence alone shows it. */
Test(failure_matrix, stopped)
{
	setenv("RONDO_HEARTBEAT_TIMEOUT_MS", "1000", 1);
	run_cases(ENDED, ENDED + STOPPED);
}

/* ---- The choice of cases --------------------------------------------------------------------- */

enum { DIMENSIONS = 6, VALUES = 16 };

static void values_of(const struct place_in_matrix *place, int values[DIMENSIONS])
{
	values[0] = place->victim;
	values[1] = place->moment;
	values[2] = place->collective;
	values[3] = place->way;
	values[4] = place->count;
	values[5] = place->stops ? LENGTH(ends) : place->end;
}

static bool exists(int a, int value, int b, int other)
{
	enum moment moment = a == 1 ? (enum moment)value : BEFORE_THE_CALL;

	if ((a == 2 && !is_called(value)) || (b == 2 && !is_called(other)))
		return false;
	if (a == 1 && b == 2 && moment == IN_ITS_OPERATION)
		return has_operation((enum rd_collective)other);
	/* A process that is stopped is so at one moment. */
	return !(a == 1 && b == 5 && other == LENGTH(ends) && moment != BEFORE_THE_CALL);
}

/* Each value of each dimension meets each value of each other one, in a thousand cases or more. */
Test(failure_matrix, pairs_are_covered)
{
	static const int lengths[DIMENSIONS] = { SIZE, MOMENTS, COLLECTIVES, LENGTH(ways),
		LENGTH(counts), LENGTH(ends) + 1 };
	static bool met[DIMENSIONS][VALUES][DIMENSIONS][VALUES];
	struct place_in_matrix place;
	int values[DIMENSIONS], cases = 0;

	for (int number = 0; number < ENDED + STOPPED; number++) {
		if (!find_place(number, &place))
			continue;
		cases++;
		values_of(&place, values);
		for (int a = 0; a < DIMENSIONS; a++)
			for (int b = a + 1; b < DIMENSIONS; b++)
				met[a][values[a]][b][values[b]] = true;
	}
	cr_expect_geq(cases, 1000, "%d cases", cases);
	for (int a = 0; a < DIMENSIONS; a++)
		for (int b = a + 1; b < DIMENSIONS; b++)
			for (int i = 0; i < lengths[a]; i++)
				for (int k = 0; k < lengths[b]; k++)
					cr_expect(met[a][i][b][k] || !exists(a, i, b, k),
						"no case of %d in %d and %d in %d", i, a, k, b);
}
