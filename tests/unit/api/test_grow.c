/* A comm grows by newcomers, which get the unique id by the program's own means. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "secret_file.h"
#include "secure/secret.h"
#include "world.h"

#define OLD 3

/* The ranks of a world from OLD on are newcomers to a comm of the first OLD. */
struct meeting {
	sem_t posted[WORLD_MAX]; /* by rank */
	struct rondo_unique_id first, second;
};

static struct meeting *meeting_create(void)
{
	struct meeting *meeting = mmap(
		NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < WORLD_MAX; i++)
		sem_init(&meeting->posted[i], 1, 0);
	return meeting;
}

static int create(rondo_comm **comm, int rank, int size, const struct rondo_unique_id *id)
{
	struct rondo_config config = RONDO_CONFIG_INIT;

	config.rank = rank;
	config.size = size;
	config.unique_id = id;
	return rondo_comm_create(comm, &config);
}

static int sum(struct rank_env *env, rondo_comm *comm, int size)
{
	float value = 1;

	TRY(rondo_all_reduce(comm, &value, &value, 1, RONDO_F32, RONDO_SUM, NULL));
	return value == (float)size && rondo_comm_size(comm) == size &&
			       rondo_comm_rank(comm) == env->rank
		       ? 0
		       : world_report(env, "rank %d of %d sums to %g", rondo_comm_rank(comm),
				 rondo_comm_size(comm), (double)value);
}

/* The comm of the first OLD ranks. */
static int make_old(struct rank_env *env, rondo_comm **old)
{
	struct meeting *meeting = env->argument;

	*old = NULL;
	TRY(env->create_error);
	if (env->rank == 0) {
		TRY(rondo_get_unique_id(&meeting->first));
		TRY(rondo_get_unique_id(&meeting->second));
		for (int rank = 1; rank < env->size; rank++)
			sem_post(&meeting->posted[rank]);
	} else if (!world_wait(&meeting->posted[env->rank])) {
		return world_report(env, "there is no id");
	}
	if (env->rank < OLD)
		TRY(create(old, env->rank, OLD, &meeting->first));
	return 0;
}

static int grow(struct rank_env *env)
{
	struct meeting *meeting = env->argument;
	const struct rondo_unique_id *id = env->rank ? NULL : &meeting->second;
	rondo_comm *old, *grown, *copy;

	if (make_old(env, &old))
		return 1;
	if (old)
		TRY(rondo_comm_grow(old, env->size, id, &grown));
	else
		TRY(create(&grown, env->rank, env->size, &meeting->second));
	if (sum(env, grown, env->size) || (old && sum(env, old, OLD)))
		return 1;
	/* Its own secret counts, also where ranks that were in the old one meet. */
	TRY(rondo_comm_duplicate(grown, &copy));
	if (sum(env, copy, env->size))
		return 1;
	TRY(rondo_comm_destroy(copy));
	/* Either may go first. */
	TRY(rondo_comm_destroy(old));
	if (sum(env, grown, env->size))
		return 1;
	return rondo_comm_destroy(grown);
}

Test(grow, takes_in_newcomers_and_leaves_the_old_comm_as_it_is, .timeout = 60)
{
	static const char *const transports[] = { "shm", "tcp" };

	for (int i = 0; i < 2; i++) {
		struct meeting *meeting = meeting_create();
		struct world world = { .size = 5, .transport = transports[i], .limit_ms = 20000 };

		setenv("RONDO_TRANSPORT", transports[i], 1);
		cr_expect_eq(world_run(&world, grow, meeting, NULL), 0, "%s", transports[i]);
		munmap(meeting, sizeof(*meeting));
	}
}

/* The newcomers have the name and the secret of a job of their own. */
static int grow_by_another_job(struct rank_env *env)
{
	char number[16];
	int fd;

	setenv("TORCHELASTIC_RUN_ID", env->rank < OLD ? "a job of old" : "another", 1);
	if (env->rank >= OLD) {
		TRY(rd_secret_make(&fd));
		snprintf(number, sizeof(number), "%d", fd);
		setenv("RONDO_SECRET_FD", number, 1);
	}
	return grow(env);
}

Test(grow, takes_in_ranks_that_another_launcher_has_started, .timeout = 60)
{
	for (int has_file = 0; has_file < 2; has_file++) {
		struct meeting *meeting = meeting_create();
		struct world world = { .size = 5, .limit_ms = 20000 };

		if (has_file)
			secret_file_use();
		cr_expect_eq(world_run(&world, grow_by_another_job, meeting, NULL), 0, "file %d",
			has_file);
		munmap(meeting, sizeof(*meeting));
	}
	secret_file_remove();
}

/* Faults that all ranks find, and that harm nothing. */
static int misuse(struct rank_env *env)
{
	struct meeting *meeting = env->argument;
	const struct rondo_unique_id *id = env->rank ? NULL : &meeting->second;
	rondo_comm *old, *grown;

	if (make_old(env, &old))
		return 1;
	EXPECT_ERROR(rondo_comm_grow(old, OLD, id, &grown), RONDO_INVALID, "not to 3");
	EXPECT_ERROR(rondo_comm_grow(old, 5 + env->rank, id, &grown), RONDO_MISMATCH,
		"rank 0 wants 5 ranks, rank 1 6");
	EXPECT_ERROR(rondo_comm_grow(old, 5, NULL, &grown), RONDO_INVALID, "rank 0");
	EXPECT_ERROR(rondo_comm_grow(old, 5, &meeting->second, &grown), RONDO_INVALID, "rank 1");
	EXPECT_ERROR(rondo_comm_grow(NULL, 5, id, &grown), RONDO_INVALID, "comm is NULL");
	EXPECT_ERROR(rondo_comm_grow(old, 5, id, NULL), RONDO_INVALID, "NULL");
	if (sum(env, old, OLD))
		return 1;
	return rondo_comm_destroy(old);
}

Test(grow, is_refused_on_all_ranks_where_one_is_wrong, .timeout = 60)
{
	struct meeting *meeting = meeting_create();
	struct world world = { .size = OLD, .limit_ms = 20000 };

	cr_expect_eq(world_run(&world, misuse, meeting, NULL), 0);
	munmap(meeting, sizeof(*meeting));
}

/* Newcomers 3 and 4 do not come: the old comm continues. */
static int wait_in_vain(struct rank_env *env)
{
	struct meeting *meeting = env->argument;
	const struct rondo_unique_id *id = env->rank ? NULL : &meeting->second;
	rondo_comm *old, *grown;

	if (make_old(env, &old))
		return 1;
	EXPECT_ERROR(rondo_comm_grow(old, 5, id, &grown), RONDO_TIMEOUT,
		"ranks 3 and 4 of 5 have not come");
	if (sum(env, old, OLD))
		return 1;
	return rondo_comm_destroy(old);
}

Test(grow, names_newcomers_that_do_not_come, .timeout = 60)
{
	struct meeting *meeting = meeting_create();
	struct world world = { .size = OLD, .limit_ms = 20000 };

	setenv("RONDO_INIT_TIMEOUT_MS", "1000", 1);
	cr_expect_eq(world_run(&world, wait_in_vain, meeting, NULL), 0);
	munmap(meeting, sizeof(*meeting));
}
