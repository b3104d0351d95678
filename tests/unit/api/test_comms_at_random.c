/* ctest label: threads */
/* Hundreds of comms of few ranks: made from one another, used by several threads, and destroyed by
   others, all in random order. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "many_comms.h"

#define COMMS (ONLY_THREADS ? 40 : 400)
#define FILES (ONLY_THREADS ? 4096 : 8192)
#define CALLS (ONLY_THREADS ? 60 : 2000) /* of a thread */
#define THREADS 3
#define PHASES 2

/* In each phase another thread uses a comm. */
struct user {
	pthread_t thread;
	struct rank_env *env;
	struct many_comms *many;
	uint64_t seed;
	int number, phase, failed;
};

static bool is_mine(const struct user *user, int comm)
{
	struct draw from = draw_from(user->seed, (uint64_t)(comm * PHASES + user->phase));

	return (int)draw(&from, THREADS) == user->number;
}

/* The threads with this number call in the same order on all ranks: none waits in a circle. */
static void *use(void *argument)
{
	struct user *user = argument;
	struct draw from = draw_from(user->seed, (uint64_t)(-1 - user->number));

	for (int call = 0; call < CALLS && !user->failed;) {
		int comm = (int)draw(&from, (uint64_t)user->many->count);
		const struct made_comm *made = &user->many->list[comm];
		uint64_t number;

		if (!is_mine(user, comm))
			continue;
		number = (uint64_t)call++ * 0x9e3779b97f4a7c15 + (uint64_t)comm;
		if (made->comm)
			user->failed = made_comm_use(user->env, made, number, NULL);
	}
	return NULL;
}

/* Each rank in an order of its own. */
static void *destroy(void *argument)
{
	struct user *user = argument;
	struct draw from = draw_from(user->seed, (uint64_t)user->env->rank);
	int count = user->many->count, *order = calloc((size_t)count, sizeof(*order));

	for (int i = 0; order && i < count; i++) {
		int at = (int)draw(&from, (uint64_t)i + 1);

		order[i] = order[at];
		order[at] = i;
	}
	for (int i = 0; order && i < count; i++) {
		struct made_comm *made = &user->many->list[order[i]];

		if (order[i] % THREADS != user->number || !made->comm)
			continue;
		if (rondo_comm_destroy(made->comm))
			user->failed = world_report(
				user->env, "comm %d: %s", order[i], rondo_last_error());
		made->comm = NULL;
	}
	free(order);
	return NULL;
}

static int in_threads(struct rank_env *env, struct many_comms *many, uint64_t seed, int phase,
	void *(*run)(void *user))
{
	struct user users[THREADS];
	int failed = 0, started = 0;

	for (; started < THREADS; started++) {
		users[started] = (struct user){
			.env = env, .many = many, .seed = seed, .number = started, .phase = phase
		};
		if (pthread_create(&users[started].thread, NULL, run, &users[started]))
			break;
	}
	if (started < THREADS)
		failed = world_report(env, "no thread");
	for (int i = 0; i < started; i++) {
		pthread_join(users[i].thread, NULL);
		failed |= users[i].failed;
	}
	return failed;
}

static int live(struct rank_env *env)
{
	uint64_t seed = *(const uint64_t *)env->argument;
	struct many_comms many = { 0 };
	struct draw from = draw_from(seed, 0);
	int failed = many_comms_make(env, &many, COMMS, &from);

	for (int phase = 0; phase < PHASES && !failed; phase++)
		failed = in_threads(env, &many, seed, phase, use);
	if (!failed)
		failed = in_threads(env, &many, seed, 0, destroy);
	many_comms_free(&many);
	return failed;
}

static void try_seed(uint64_t seed, const char *transport, bool threads)
{
	struct world world = { .size = 4, .transport = transport, .threads = threads };
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = FILES;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		cr_skip_test("no %d descriptors", FILES);
	cr_assert_eq(
		world_run(&world, live, &seed, NULL), 0, "seed %d over %s", (int)seed, transport);
}

Test(comms_at_random, are_used_by_threads_and_destroyed_by_others_over_shm, .timeout = 120)
{
	try_seed(1, "shm", ONLY_THREADS);
}

Test(comms_at_random, are_used_by_threads_and_destroyed_by_others_over_tcp, .timeout = 120)
{
	try_seed(2, "tcp", ONLY_THREADS);
}

Test(comms_at_random, are_used_by_threads_and_destroyed_by_others_on_two_hosts, .timeout = 120)
{
	try_seed(3, "mixed", ONLY_THREADS);
}
