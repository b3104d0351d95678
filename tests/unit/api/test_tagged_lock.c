/* ctest label: threads */
/* The lock of a comm's tagged messages: who moves data gives it up to threads that wait for it. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "api/tagged_driver.h"
#include "tagged.h"

#define LARGE (8 << 20)

static struct rd_mailbox *mailbox_of(const struct rank_env *env)
{
	return atomic_load(&env->comm->mailbox);
}

/* Under the lock, once a thread is to come to it. False: it waits, and does not count. */
static bool is_awaited_soon(struct rd_mailbox *mailbox)
{
	int64_t until_ms = world_now_ms() + WAIT_MS / 4;

	while (!rd_mailbox_is_awaited(mailbox) && world_now_ms() < until_ms)
		sched_yield();
	return rd_mailbox_is_awaited(mailbox);
}

/* ---- Data ----------------------------------------------------------------------------------- */

/* Moves a message by hand, as if a thread waited all the time: no step moves two pieces. */
static int move(struct rank_env *env, struct rd_mailbox *mailbox, struct rd_tagged *message)
{
	int64_t until_ms = world_now_ms() + WAIT_MS;
	int wrong = 0;

	rd_mailbox_enter(mailbox);
	TRY(rd_messages_post(mailbox, message));
	atomic_fetch_add(&mailbox->entering, 1);
	while (message->moved < LARGE && !wrong && world_now_ms() < until_ms) {
		size_t before = message->moved;

		rd_messages_step(mailbox);
		if (message->moved - before > mailbox->settings.piece_size)
			wrong = world_report(
				env, "a step moved %zu bytes", message->moved - before);
	}
	atomic_fetch_sub(&mailbox->entering, 1);
	while (!rd_messages_take(mailbox) && !wrong && world_now_ms() < until_ms)
		rd_messages_step(mailbox);
	rd_mailbox_exit(mailbox);
	return wrong || message->moved == LARGE ? wrong : world_report(env, "it never ended");
}

static int step_by_step(struct rank_env *env)
{
	struct rd_tagged message = { .receives = env->rank == 1,
		.peer = 1 - env->rank,
		.tag = 1,
		.data = calloc(LARGE, 1),
		.size = LARGE };
	rondo_request *request;
	int wrong;

	TRY(rondo_recv_tagged(env->comm, NULL, 0, 1 - env->rank, 2, &request));
	wrong = move(env, mailbox_of(env), &message);
	free(message.data);
	rondo_request_destroy(request);
	TRY(rondo_barrier(env->comm, NULL));
	return wrong;
}

Test(tagged_lock, is_given_up_after_each_piece, .timeout = 60)
{
	on_all_ways(2, step_by_step);
}

/* ---- The worker ----------------------------------------------------------------------------- */

/* It would wait for the lock, for which the thread that moves data would stop. */
static int look_meanwhile(struct rank_env *env)
{
	struct rd_background *work;
	rondo_request *request;
	bool waited;

	TRY(rondo_recv_tagged(env->comm, NULL, 0, 1 - env->rank, 2, &request));
	work = &mailbox_of(env)->driver->work;
	rd_mailbox_enter(mailbox_of(env));
	waited = work->look(work) != RD_BACKGROUND_LATER;
	rd_mailbox_exit(mailbox_of(env));
	rondo_request_destroy(request);
	return waited ? world_report(env, "the worker had the lock") : 0;
}

Test(tagged_lock, is_not_awaited_by_the_worker, .timeout = 30)
{
	world_try(2, "shm", look_meanwhile);
}

/* ---- Threads -------------------------------------------------------------------------------- */

static void *wait_for(void *request)
{
	return (void *)(intptr_t)rondo_request_wait(request, WAIT_MS);
}

/* A receive of which no worker and no control thread learns. */
static int begin_alone(struct rank_env *env, rondo_request **request)
{
	TRY(rondo_recv_tagged(env->comm, NULL, 0, RONDO_ANY_SOURCE, 1, request));
	mailbox_of(env)->driver->posted = true;
	TRY(rondo_request_start(*request, NULL, NULL));
	return 0;
}

/* A thread that waits while another drives, once its message has ended. */
static int wakes(struct rank_env *env)
{
	struct rd_tagged_driver *driver;
	struct rd_mailbox *mailbox;
	rondo_request *request;
	pthread_t thread;
	void *end_of_wait;
	bool awaited;

	if (begin_alone(env, &request))
		return 1;
	mailbox = mailbox_of(env);
	driver = mailbox->driver;
	rd_mailbox_enter(mailbox);
	driver->drives = true;
	pthread_create(&thread, NULL, wait_for, request);
	while (driver->asleep == 0) {
		rd_mailbox_exit(mailbox);
		sched_yield();
		rd_mailbox_enter(mailbox);
	}
	rd_messages_cancel(mailbox, request->tagged);
	rd_tagged_settle(driver);
	awaited = is_awaited_soon(mailbox);
	driver->drives = false;
	rd_mailbox_exit(mailbox);
	pthread_join(thread, &end_of_wait);
	rondo_request_destroy(request);
	TRY(rondo_barrier(env->comm, NULL));
	if ((intptr_t)end_of_wait != RONDO_REVOKED || !awaited)
		return world_report(env, "%s: %d", awaited ? "the end" : "it does not count",
			(int)(intptr_t)end_of_wait);
	return 0;
}

Test(tagged_lock, is_awaited_by_a_thread_that_was_woken, .timeout = 60)
{
	on_all_ways(2, wakes);
}

static void *serve(void *comm)
{
	int fd;

	rd_mailbox_serve(comm, &fd);
	return NULL;
}

static int serves(struct rank_env *env)
{
	rondo_request *request;
	pthread_t thread;
	bool awaited;

	TRY(rondo_recv_tagged(env->comm, NULL, 0, 1 - env->rank, 1, &request));
	rd_mailbox_enter(mailbox_of(env));
	pthread_create(&thread, NULL, serve, env->comm);
	awaited = is_awaited_soon(mailbox_of(env));
	rd_mailbox_exit(mailbox_of(env));
	pthread_join(thread, NULL);
	rondo_request_destroy(request);
	TRY(rondo_barrier(env->comm, NULL));
	return awaited ? 0 : world_report(env, "the control thread does not count");
}

Test(tagged_lock, is_awaited_by_the_control_thread, .timeout = 60)
{
	on_all_ways(2, serves);
}
