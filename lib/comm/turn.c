#include "comm/turn.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

/* A comm's failure, and the end of a call that took no lock, wake no thread that waits for a turn.
   It looks for them this often. */
#define TURN_LOOK_MS 20

void rd_turn_pause(struct rondo_comm *comm)
{
	rd_condition_wait_ms(&comm->turn_change, &comm->turn_lock, TURN_LOOK_MS);
}

static _Thread_local const struct rd_turn_queue *own_queue;

void rd_turn_set_queue(const struct rd_turn_queue *queue)
{
	own_queue = queue;
}

bool rd_turn_runs_beside(void)
{
	return own_queue && atomic_load_explicit(&own_queue->waiters, memory_order_relaxed) == 0;
}

/* An earlier call that comes only after the caller, a function that a stream calls, would wait for
   the caller. This call has its number already, so the comm is over. */
static bool waits_for_itself(const struct rd_task *task)
{
	struct rondo_comm *comm = task->comm;
	const char *name = rd_collective_name(task->call.problem.collective), *behind;
	uint32_t number;

	if (!own_queue || !own_queue->find(own_queue, task, &behind, &number))
		return false;
	rd_fail(RONDO_INVALID,
		"rank %d: %s #%u, made by a function that a stream calls, would wait for %s #%u, "
		"which was issued earlier and is queued behind that function",
		comm->rank, name, task->call.number, behind, number);
	rd_comm_fail(comm, RONDO_INVALID, comm->rank);
	return true;
}

/* Counts only while no turn ends and the call whose turn it is has not been run: a call that runs
   has its own timeout. */
struct turn_wait {
	uint64_t finished;
	int64_t since_ns;
};

/* For how long no call has been run. */
static int64_t waited_ms(const struct rondo_comm *comm, struct turn_wait *wait)
{
	uint64_t finished = atomic_load(&comm->finished);
	int64_t now_ns = rd_clock_ns();

	if (wait->since_ns == 0 || finished != wait->finished ||
		atomic_load(&comm->started) > finished) {
		wait->finished = finished;
		wait->since_ns = now_ns;
	}
	return (now_ns - wait->since_ns) / 1000000;
}

static void fail_without_turn(const struct rd_task *task, int64_t ms)
{
	struct rondo_comm *comm = task->comm;
	uint64_t ahead = task->turn - atomic_load(&comm->finished);

	rd_fail(RONDO_TIMEOUT,
		"rank %d waited %lld ms for the turn of %s #%u: the %llu call%s issued before it "
		"(after collective #%u) %s not been run; a function on the stream may hold %s up",
		comm->rank, (long long)ms, rd_collective_name(task->call.problem.collective),
		task->call.number, (unsigned long long)ahead, ahead == 1 ? "" : "s",
		atomic_load(&comm->activity.done), ahead == 1 ? "has" : "have",
		ahead == 1 ? "it" : "them");
	rd_comm_fail(comm, RONDO_TIMEOUT, comm->rank);
}

__attribute__((cold)) bool rd_turn_wait(const struct rd_task *task)
{
	struct rondo_comm *comm = task->comm;
	struct turn_wait wait = { 0 };
	int64_t ms = 0;
	bool ours;

	if (waits_for_itself(task))
		return false;
	pthread_mutex_lock(&comm->turn_lock);
	for (;;) {
		ours = atomic_load(&comm->finished) == task->turn;
		if (ours || atomic_load(&comm->failed))
			break;
		ms = waited_ms(comm, &wait);
		if (ms >= task->timeout_ms)
			break;
		rd_turn_pause(comm);
	}
	pthread_mutex_unlock(&comm->turn_lock);
	if (!ours && !atomic_load(&comm->failed))
		fail_without_turn(task, ms);
	return ours;
}

void rd_turn_pass(struct rondo_comm *comm)
{
	pthread_mutex_lock(&comm->turn_lock);
	atomic_fetch_add(&comm->finished, 1);
	pthread_cond_broadcast(&comm->turn_change);
	pthread_mutex_unlock(&comm->turn_lock);
}
