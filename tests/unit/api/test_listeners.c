/* The sockets on which a rank listens: one a network interface, for all comms of its job. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "world.h"

#define FDS 1024
#define RANKS 4
#define MOST 8

/* The inodes of this process's listening sockets. */
struct sockets {
	uint64_t at[MOST];
};

static bool is_open_here(uint64_t inode)
{
	struct stat about;

	for (int fd = 0; fd < FDS; fd++)
		if (fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) && about.st_ino == inode)
			return true;
	return false;
}

static bool listens_on_tcp(int fd)
{
	int listens = 0, domain = 0;
	socklen_t size = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_INET;
}

static struct sockets find_sockets(void)
{
	struct sockets found = { { 0 } };
	struct stat about;
	int count = 0;

	for (int fd = 0; fd < FDS && count < MOST; fd++)
		if (listens_on_tcp(fd) && fstat(fd, &about) == 0)
			found.at[count++] = about.st_ino;
	return found;
}

static bool has(const struct sockets *sockets, uint64_t inode)
{
	for (int i = 0; i < MOST; i++)
		if (sockets->at[i] == inode)
			return true;
	return false;
}

/* Not counting the test's own socket for rank 0, of which all other ranks hold a copy. */
static int find_one(struct rank_env *env, rondo_comm *comm, const char *when, uint64_t *one)
{
	int size = rondo_comm_size(comm), rank = rondo_comm_rank(comm), count = 0;
	struct sockets mine = find_sockets(), all[RANKS];

	TRY(rondo_all_gather(comm, &mine, all, sizeof(mine), RONDO_U8, NULL));
	for (int i = 0; i < MOST && mine.at[i]; i++) {
		int holders = 0;

		for (int other = 0; other < size; other++)
			holders += has(&all[other], mine.at[i]);
		count += holders == 1;
		*one = holders == 1 ? mine.at[i] : *one;
	}
	return count == 1
		       ? 0
		       : world_report(env, "%s rank %d listens on %d sockets", when, rank, count);
}

static int expect_one(struct rank_env *env, rondo_comm *comm, const char *when)
{
	uint64_t one;

	return find_one(env, comm, when, &one);
}

/* Alone, a rank has no thread that would serve it. */
static int split_into_single_ranks(struct rank_env *env)
{
	int64_t until_ms = world_now_ms() + 20000;
	rondo_comm *alone;
	uint64_t one = 0;

	TRY(env->create_error);
	if (world_sum_one(env) || find_one(env, env->comm, "at first", &one))
		return 1;
	TRY(rondo_comm_split(env->comm, env->rank, 0, &alone));
	TRY(rondo_comm_destroy(env->comm));
	env->comm = alone;
	/* Its control thread may still say goodbye. */
	while (is_open_here(one))
		if (world_now_ms() > until_ms)
			return world_report(env, "rank %d listens, alone", env->rank);
	return 0;
}

static int split_and_duplicate(struct rank_env *env)
{
	rondo_comm *part, *copy;

	TRY(env->create_error);
	if (world_sum_one(env) || expect_one(env, env->comm, "at first"))
		return 1;
	TRY(rondo_comm_split(env->comm, env->rank == 0, 0, &part));
	TRY(rondo_comm_duplicate(env->comm, &copy));
	if (expect_one(env, copy, "with three comms"))
		return 1;
	TRY(rondo_comm_destroy(part));
	TRY(rondo_comm_destroy(copy));
	return 0;
}

static int shrink(struct rank_env *env)
{
	rondo_comm *shrunk, *copy;

	TRY(env->create_error);
	world_meet(env, RANKS);
	if (env->rank == RANKS - 1)
		_exit(0);
	while (!rondo_barrier(env->comm, NULL))
		;
	TRY(rondo_comm_shrink(env->comm, &shrunk));
	if (expect_one(env, shrunk, "after a shrink"))
		return 1;
	/* Trunks of the new job come to the socket of the old one. */
	TRY(rondo_comm_duplicate(shrunk, &copy));
	if (expect_one(env, copy, "with a group of the shrunk comm"))
		return 1;
	TRY(rondo_comm_destroy(copy));
	rondo_comm_destroy(env->comm);
	env->comm = shrunk;
	return 0;
}

static void run(int (*body)(struct rank_env *env))
{
	static const char *const transports[] = { "shm", "tcp", NULL };

	for (int i = 0; i < 6; i++) {
		struct world world = {
			.size = RANKS, .transport = transports[i / 2], .has_no_secret = i % 2
		};

		cr_expect_eq(world_run(&world, body, NULL, NULL), 0, "%s, secret %d",
			transports[i / 2] ? transports[i / 2] : "any", !(i % 2));
	}
}

TestSuite(listeners, .timeout = 120);

Test(listeners, are_one_for_all_comms)
{
	run(split_and_duplicate);
}

Test(listeners, are_none_where_each_rank_is_alone)
{
	run(split_into_single_ranks);
}

Test(listeners, are_one_after_a_shrink)
{
	run(shrink);
}
