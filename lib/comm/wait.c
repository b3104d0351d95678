#include "comm/wait.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pause.h"
#include "comm/opening.h"
#include "comm/turn.h"

/* How often a rank that shares its core yields it before it sleeps. It yields at once. Polling once
   to eight times first made 8 bytes among 4 or 8 ranks on 2 cores no quicker. Polling 20 times made
   them half as slow again. */
#define YIELDS 50
/* The least time to spin, however often spins ended in a sleep. */
#define SPIN_LEAST_NS 1000
/* The wait after this many sleeps spins in full. */
#define SLEEPS_A_SPIN 16
/* Rounds between readings of the clock. */
#define ROUNDS_A_READING 32
/* The longest sleep, so that a call that differs is found soon. */
#define SLEEP_MOST_MS 250

_Static_assert(sizeof(struct rd_signature) == RD_SIGNATURE_WORDS * sizeof(uint64_t),
	"the control connection carries a signature as words");

/* A stream's thread leaves the core to the rank's other thread, which may compute meanwhile. Once
   that waits for the stream, the core is the stream's. */
static bool leaves_core(const struct rondo_comm *comm)
{
	return comm->single_cored && rd_turn_runs_beside();
}

/*
 * Adapts the length of a spin. A spin is worth while if the peer runs at the same time. If the peer
 * needs this core, a spin only delays it. A wait that slept halves the next spin. A wait that ended
 * without sleep adds a quarter. After each SLEEPS_A_SPIN sleeps the next spin is full: two ranks
 * that both sleep wait for each other's wake-up each time, which takes longer than a short spin.
 */
void rd_wait_end(struct rondo_comm *comm, struct rd_wait *wait)
{
	int64_t most = comm->settings.spin_us * INT64_C(1000);
	struct rd_wait ended = *wait;

	*wait = (struct rd_wait){ 0 };
	if (ended.published)
		atomic_store_explicit(&ended.published->waiting_seen_ms, 0, memory_order_relaxed);
	if (ended.rounds == 0 || comm->oversubscribed || leaves_core(comm))
		return;
	if (ended.slept)
		comm->spin_ns = ++comm->sleeps % SLEEPS_A_SPIN == 0 ? most : comm->spin_ns / 2;
	else
		comm->spin_ns += comm->spin_ns / 4;
	if (comm->spin_ns < SPIN_LEAST_NS)
		comm->spin_ns = SPIN_LEAST_NS;
	if (comm->spin_ns > most)
		comm->spin_ns = most;
}

/* ---- Sleeping ------------------------------------------------------------------------------- */

static bool advance_links(const struct rd_batch *batch)
{
	bool moved = false;

	RD_BATCH_COMMS (batch, task) {
		moved |= rd_comm_advance(task->comm);
		moved |= rd_open_step(task->comm);
	}
	return moved;
}

void rd_wait_arm(const struct rd_batch *batch)
{
	const struct rd_shared *last = NULL;

	/* One epoll serves all comms of a job. */
	RD_BATCH_COMMS (batch, task) {
		if (task->comm->shared != last)
			rd_comm_borrow(task->comm);
		if (task->comm->borrowed_fd >= 0)
			last = task->comm->shared;
		rd_comm_arm(task->comm);
	}
}

void rd_wait_disarm(const struct rd_batch *batch)
{
	RD_BATCH_COMMS (batch, task) {
		rd_comm_disarm(task->comm);
		rd_comm_give_back(task->comm);
	}
}

static void sleep_on_several(const struct rd_batch *batch, int sleep_ms)
{
	struct pollfd fds[64];
	int watched = 0;

	RD_BATCH_COMMS (batch, task)
		if (watched < 64 && rd_comm_epoll(task->comm) >= 0)
			fds[watched++] = (struct pollfd){ rd_comm_epoll(task->comm), POLLIN, 0 };
	/* With more epolls than fit, or with none, the rest is looked at every millisecond. */
	poll(fds, watched, watched == 0 || watched == 64 ? 1 : sleep_ms);
	RD_BATCH_COMMS (batch, task)
		rd_comm_sleep(task->comm, 0);
}

void rd_wait_sleep(const struct rd_batch *batch, int sleep_ms)
{
	if (advance_links(batch) || rd_batch_check(batch))
		return;
	if (batch->tasks[batch->comms].next_comm < 0)
		rd_comm_sleep(batch->tasks[0].comm, sleep_ms);
	else
		sleep_on_several(batch, sleep_ms);
}

/* ---- Long waits ------------------------------------------------------------------------------ */

static struct rd_task *waiting_task(const struct rd_batch *batch)
{
	RD_BATCH_LIVE (batch, task)
		if (task->started || task->opens)
			return task;
	return &batch->tasks[0];
}

static int fail_by_timeout(const struct rd_batch *batch, const struct rd_wait *wait, int64_t now_ns)
{
	struct rd_task *task = waiting_task(batch);
	int64_t waited_ms = (now_ns - wait->since_ns) / 1000000;

	if (wait->published)
		atomic_store(&wait->published->waiting_seen_ms, now_ns / 1000000);
	rd_fail(RONDO_TIMEOUT, "rank %d waited %lld ms for %srank %d in %s #%u", task->comm->rank,
		(long long)waited_ms, task->opens ? "its link to " : "", rd_task_waiting_for(task),
		rd_collective_name(task->call.problem.collective), task->call.number);
	return rd_batch_fail(batch, task, RONDO_TIMEOUT);
}

/* A message on a link that no step reads may show why nothing moves. */
static int find_mismatch(const struct rd_batch *batch)
{
	RD_BATCH_LIVE (batch, task) {
		int err = 0;

		if (task->started && rd_task_is_collective(task))
			err = rd_exec_find_mismatch(task->exec);
		if (err)
			return rd_batch_fail(batch, task, err);
	}
	return 0;
}

/* Publishes the call in which this rank waits, the peer and the time. The control thread sends them
   as an ANSWER to a QUERY of the coordinator. Also reports a long wait to the coordinator. */
static void publish_wait(const struct rd_batch *batch, struct rd_wait *wait, int64_t now_ns)
{
	const struct rd_task *task = waiting_task(batch);
	struct rd_activity *activity = &task->comm->activity;
	int64_t since_ms = wait->since_ns / 1000000, waited_ms = now_ns / 1000000 - since_ms;
	int peer = rd_task_waiting_for(task);
	char what[64];

	atomic_store_explicit(&activity->waiting_for, peer, memory_order_relaxed);
	atomic_store_explicit(&activity->waits_at, task->called_at, memory_order_relaxed);
	atomic_store_explicit(&activity->waiting_since_ms, since_ms, memory_order_relaxed);
	atomic_store_explicit(&activity->waiting_seen_ms, now_ns / 1000000, memory_order_release);
	wait->published = activity;
	if (rd_task_is_collective(task) && atomic_load(&activity->slept_in) != task->call.number) {
		struct rd_signature signature = rd_signature_of(&task->call);
		uint64_t words[RD_SIGNATURE_WORDS];

		memcpy(words, &signature, sizeof(words));
		atomic_store(&activity->slept_in, 0);
		for (int i = 0; i < RD_SIGNATURE_WORDS; i++)
			atomic_store(&activity->slept_call[i], words[i]);
		atomic_store(&activity->slept_in, task->call.number);
	}
	if (waited_ms < SLEEP_MOST_MS)
		return;
	snprintf(what, sizeof(what), "in %s #%u", rd_collective_name(task->call.problem.collective),
		task->call.number);
	rd_comm_slow(task->comm, &wait->reported_ms, waited_ms, peer, what);
}

/* ---- A round --------------------------------------------------------------------------------- */

/* A device wakes no thread, so a task whose next part has not come from one looks again soon. */
static bool pause_for_part(const struct rd_batch *batch)
{
	RD_BATCH_LIVE (batch, task) {
		if (!task->feed || task->started || task->opens || !rd_task_may_start(task))
			continue;
		task->feed->pause(task->feed);
		return true;
	}
	return false;
}

int rd_wait_round(const struct rd_batch *batch, struct rd_wait *wait, int *sleep_ms)
{
	const struct rondo_comm *comm = batch->tasks[0].comm;
	int err = rd_batch_check(batch);

	*sleep_ms = 0;
	if (err)
		return err;
	if (advance_links(batch))
		return RD_MOVED;
	if (pause_for_part(batch))
		return RD_IDLE;

	/* Most rounds end here, without a reading of the clock. */
	bool leaves = leaves_core(comm);

	wait->rounds++;
	if (comm->oversubscribed && !leaves && wait->rounds < YIELDS) {
		sched_yield();
		return RD_IDLE;
	}
	if (!comm->oversubscribed && !leaves && comm->spin_ns > 0 &&
		wait->rounds % ROUNDS_A_READING != 0) {
		rd_pause();
		return RD_IDLE;
	}

	int64_t now_ns = rd_clock_ns();

	if (wait->since_ns == 0)
		wait->since_ns = now_ns;

	int64_t waited_ns = now_ns - wait->since_ns;
	int64_t left_ms = waiting_task(batch)->timeout_ms - waited_ns / 1000000;

	if (left_ms <= 0)
		return fail_by_timeout(batch, wait, now_ns);
	if (!comm->oversubscribed && !leaves && waited_ns < comm->spin_ns)
		return RD_IDLE;
	wait->slept = true;
	if (waited_ns - wait->searched_ns >= SLEEP_MOST_MS * INT64_C(1000000)) {
		wait->searched_ns = waited_ns;
		err = find_mismatch(batch);
		if (err)
			return err;
	}
	publish_wait(batch, wait, now_ns);
	*sleep_ms = left_ms < SLEEP_MOST_MS ? (int)left_ms : SLEEP_MOST_MS;
	return RD_IDLE;
}
