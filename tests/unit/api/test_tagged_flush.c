/* Bytes of tagged messages that a rank's socket has not taken when it leaves: they arrive. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "api/tagged_driver.h"
#include "filter.h"
#include "tagged.h"

/* ---- A socket that is full until its rank leaves --------------------------------------------- */

/* How often the socket refuses bytes once the rank leaves. */
#define REFUSALS 5

static _Atomic int learner; /* a thread that sends now; 0: none */
static _Atomic int full_fd = -1, learnt_fd = -1;
static struct rd_tagged_driver *_Atomic driver;
static _Atomic int refused;

static bool is_full(int fd)
{
	struct rd_tagged_driver *of = atomic_load(&driver);

	if (fd != atomic_load(&full_fd))
		return false;
	return !of->stops || atomic_fetch_add(&refused, 1) < REFUSALS;
}

/* Small messages of tcp go out by it. */
static int send_bytes(const struct watched_call *call)
{
	int fd = (int)call->arguments[0];

	if (call->thread == atomic_load(&learner))
		atomic_store(&learnt_fd, fd);
	return is_full(fd) ? EAGAIN : 0;
}

/* ---- Leaving --------------------------------------------------------------------------------- */

static int send_and_leave(struct rank_env *env)
{
	int64_t out[3] = { 5, 6, 7 };
	bool fills =
		watch_calls_in_all_threads(SYS_sendto, send_bytes); /* else the socket takes all */

	for (int i = 0; i < 3; i++) {
		atomic_store(&learner, i == 1 ? gettid() : 0);
		TRY(send_one(env->comm, &out[i], 8, 1, 4));
		atomic_store(&learner, 0);
		if (i != 1)
			continue;
		atomic_store(&driver, atomic_load(&env->comm->mailbox)->driver);
		atomic_store(&full_fd, atomic_load(&learnt_fd));
	}
	TRY(world_leave(env));
	if (fills && atomic_load(&refused) <= REFUSALS)
		return world_report(env, "the socket refused %d times", atomic_load(&refused));
	return 0;
}

static int flushes(struct rank_env *env)
{
	int64_t in[3] = { 0 };
	rondo_comm *other;

	if (world_second_comm(env, &other))
		return 1;
	if (env->rank == 0 && send_and_leave(env))
		return 1;
	TRY(rondo_barrier(other, NULL));
	for (int i = 0; i < 3 && env->rank == 1; i++)
		TRY(receive_one(env->comm, &in[i], 8, 0, 4));
	if (env->rank == 1 && (in[0] != 5 || in[1] != 6 || in[2] != 7))
		return world_report(env, "%lld, %lld, %lld", (long long)in[0], (long long)in[1],
			(long long)in[2]);
	TRY(rondo_barrier(other, NULL));
	TRY(rondo_comm_destroy(other));
	world_leave(env);
	return 0;
}

Test(tagged_flush, brings_what_was_sent_before_the_rank_left, .timeout = 60)
{
	world_try(2, "tcp", flushes);
}
