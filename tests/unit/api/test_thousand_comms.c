/* A program may have a thousand comms that live, and are in use, within its descriptors. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "world.h"

#define FILES 100 /* the job's */

static int comm_count;

static int use(struct rank_env *env, rondo_comm *const *comms, int64_t round)
{
	int64_t in, out, ranks = (int64_t)env->size * (env->size - 1) / 2;

	for (int i = 0; i < comm_count; i++) {
		in = round * comm_count + i + env->rank;
		TRY(rondo_all_reduce(comms[i], &in, &out, 1, RONDO_I64, RONDO_SUM, NULL));
		if (out != (round * comm_count + i) * env->size + ranks)
			return world_report(env, "comm %d: %lld", i, (long long)out);
	}
	return 0;
}

/* A third of them are duplicates, a third parts of splits, a third groups. */
static int make(struct rank_env *env, rondo_comm **comms)
{
	const int ranks[] = { 1, 0 };

	comms[0] = env->comm;
	env->comm = NULL;
	for (int i = 1; i < comm_count; i++) {
		rondo_comm *parent = comms[i / 2];

		if (i % 3 == 0)
			TRY(rondo_comm_duplicate(parent, &comms[i]));
		else if (i % 3 == 1)
			TRY(rondo_comm_split(parent, 0, -env->rank, &comms[i]));
		else
			TRY(rondo_comm_create_group(parent, ranks, 2, i, &comms[i]));
	}
	return 0;
}

static int live(struct rank_env *env)
{
	rondo_comm **comms = calloc((size_t)comm_count, sizeof(*comms));
	int failed = 0;

	if (env->create_error || !comms)
		failed = world_report(env, "no comm: %s", rondo_last_error());
	if (!failed)
		failed = make(env, comms);
	for (int round = 0; round < 3 && !failed; round++)
		failed = use(env, comms, round);
	for (int i = 0; comms && i < comm_count; i++)
		if (rondo_comm_destroy(comms[i]) && !failed)
			failed = world_report(env, "comm %d: %s", i, rondo_last_error());
	free(comms);
	return failed;
}

/* Each rank may have this number of descriptors a comm. */
static void try_many(int count, const char *transport, int files)
{
	struct world world = { .size = 2, .transport = transport, .limit_ms = 100000 };
	rlim_t most = (rlim_t)(count * files + FILES);
	struct rlimit limit = { most, most };

	if (ONLY_THREADS)
		cr_skip_test("ranks are processes");
	if (setrlimit(RLIMIT_NOFILE, &limit))
		cr_skip_test("a process gets less than %d descriptors", (int)most);
	comm_count = count;
	cr_assert_eq(world_run(&world, live, NULL, NULL), 0);
}

/* Where ranks of the host could use tcp, too. */
Test(thousand_comms, live_at_once, .timeout = 120)
{
	try_many(1000, NULL, 0);
}

/* More than may have epolls that watch one epoll. */
Test(thousand_comms, live_at_once_over_tcp, .timeout = 120)
{
	setenv("RONDO_CHANNELS", "1", 1);
	try_many(200, "tcp", 2);
}
