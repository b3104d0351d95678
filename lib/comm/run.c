#include "comm/run.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "exec/exec_init.h"
#include "base/log.h"
#include "comm/plan_cache.h"
#include "comm/user_op.h"
#include "tuner/thresholds.h"

/* How often a rank that shares its core yields it before it sleeps. It yields at once: to look once
   to eight times first made 8 bytes among 4 or 8 ranks on 2 cores no quicker, 20 times half as slow
   again. */
#define YIELDS 50
/* The least that is spun, in nanoseconds, however often it was in vain. */
#define SPIN_LEAST_NS 1000
/* After so many sleeps the next wait spins in full. */
#define SLEEPS_A_SPIN 16
/* Idle rounds between looks at the clock. */
#define ROUNDS_A_LOOK 32

_Static_assert(sizeof(struct rd_signature) == RD_SIGNATURE_WORDS * sizeof(uint64_t),
	"the control connection carries a signature as words");

/* ---- Issuing ------------------------------------------------------------------------------- */

bool rd_task_sends(const struct rd_task *task)
{
	return task->call.problem.collective == RD_TRANSFER &&
	       task->call.problem.root == task->comm->rank;
}

static bool is_collective(const struct rd_task *task)
{
	return task->call.problem.collective != RD_TRANSFER;
}

/* Two ranks whose digests differ made different calls, whatever their links noticed. */
static void digest_call(struct rondo_comm *comm, const struct rd_call *call)
{
	uint64_t kind = (uint64_t)call->problem.collective << 40 | (uint64_t)call->type << 48 |
			(uint64_t)call->op << 56 | (uint32_t)call->problem.root;

	comm->digest = (comm->digest ^ kind ^ call->count * UINT64_C(0x9e3779b97f4a7c15)) *
		       UINT64_C(0x100000001b3);
}

void rd_run_name(struct rd_task *task)
{
	struct rondo_comm *comm = task->comm;
	struct rd_call *call = &task->call;

	if (!is_collective(task)) {
		call->number = rd_task_sends(task) ? ++comm->sends[call->problem.target]
						   : ++comm->recvs[call->problem.root];
		return;
	}
	call->number = ++comm->calls;
	digest_call(comm, call);
	atomic_store_explicit(
		&comm->activity.collective, call->problem.collective, memory_order_relaxed);
	atomic_store_explicit(&comm->activity.calls, call->number, memory_order_release);
}

/* A transfer waits for an earlier one on the same link and direction, and for a collective: the
   messages of a link must come in the order that the other side expects. */
static bool must_follow(const struct rd_task *task, const struct rd_task *earlier)
{
	const struct rd_problem *a = &task->call.problem, *b = &earlier->call.problem;

	if (!is_collective(task) && !is_collective(earlier))
		return a->root == b->root && a->target == b->target;
	return true;
}

static void order_task(struct rd_task *tasks, int index)
{
	struct rd_task *task = &tasks[index];

	task->ordinal = 0;
	task->after = -1;
	for (int i = index - 1; i >= 0; i--) {
		if (tasks[i].comm != task->comm)
			continue;
		if (task->ordinal == 0)
			task->ordinal = tasks[i].ordinal + 1;
		if (must_follow(task, &tasks[i])) {
			task->after = i;
			return;
		}
	}
}

void rd_run_issue(struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++) {
		tasks[i].turn = tasks[i].comm->issued++;
		rd_run_name(&tasks[i]);
		order_task(tasks, i);
	}
}

int rd_run_refuse_second(const struct rondo_comm *comm, const char *function)
{
	int collective = atomic_load(&comm->activity.collective);

	return rd_fail(RONDO_INVALID,
		"%s: rank %d is in another call on this communicator (its latest collective: %s "
		"#%u): one thread at a time may call, and no operation of the program's",
		function, comm->rank, collective < 0 ? "none," : rd_collective_name(collective),
		atomic_load(&comm->activity.calls));
}

/* ---- Turns --------------------------------------------------------------------------------- */

/* A comm's failure, and the end of a call that took no lock, wake nobody who waits for a turn: so
   often such a one looks for them. */
#define TURN_LOOK_MS 20

void rd_run_pause_for_turn(struct rondo_comm *comm)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += TURN_LOOK_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&comm->turn_change, &comm->turn_lock, &until);
}

static _Thread_local const struct rd_run_queue *own_queue;

void rd_run_set_queue(const struct rd_run_queue *queue)
{
	own_queue = queue;
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

/* False: the comm failed before the turn came. */
static __attribute__((cold, noinline)) bool wait_for_turn(const struct rd_task *task)
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
		if (ms >= comm->settings.timeout_ms)
			break;
		rd_run_pause_for_turn(comm);
	}
	pthread_mutex_unlock(&comm->turn_lock);
	if (!ours && !atomic_load(&comm->failed))
		fail_without_turn(task, ms);
	return ours;
}

/* False: the comm has failed, and the task must not be run. */
static inline __attribute__((always_inline)) bool take_turn(const struct rd_task *task)
{
	struct rondo_comm *comm = task->comm;

	if (task->ordinal > 0)
		return true;
	if (atomic_load_explicit(&comm->finished, memory_order_acquire) != task->turn &&
		!wait_for_turn(task))
		return false;
	comm->ended = 0;
	return true;
}

/* Nobody can be waiting for the next turn unless it was issued, so the common case takes no lock.
   Turns are counted: those that a failed comm's calls gave up end in any order. */
static void end_turn(const struct rd_task *task, bool alone)
{
	struct rondo_comm *comm = task->comm;

	if (is_collective(task))
		atomic_store_explicit(
			&comm->activity.done, task->call.number, memory_order_relaxed);
	if (alone) {
		atomic_store_explicit(&comm->finished, task->turn + 1, memory_order_release);
		return;
	}
	pthread_mutex_lock(&comm->turn_lock);
	atomic_fetch_add(&comm->finished, 1);
	pthread_cond_broadcast(&comm->turn_change);
	pthread_mutex_unlock(&comm->turn_lock);
}

/* Calls that wait for this task's turn to end no longer count the time. */
static void note_start(const struct rd_task *task)
{
	if (task->ordinal == 0)
		atomic_store(&task->comm->started, task->turn + 1);
}

void rd_run_begin(const struct rd_task *task)
{
	if (take_turn(task))
		note_start(task);
}

void rd_run_end(const struct rd_task *task)
{
	end_turn(task, false);
}

/* ---- Failing ------------------------------------------------------------------------------- */

static int fail_others(struct rd_task *tasks, int count, const struct rd_task *failed, int error)
{
	char reason[RD_REASON_SIZE];

	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	for (int i = 0; i < count; i++) {
		struct rondo_comm *comm = tasks[i].comm;

		if (comm == failed->comm || atomic_load(&comm->failed))
			continue;
		rd_fail(RONDO_ABORTED, "rank %d gave up a group of calls: %s", comm->rank, reason);
		rd_comm_fail(comm, RONDO_ABORTED, comm->rank);
	}
	return rd_fail(error, "%s", reason);
}

/* The peer that it waits for; -1: none. */
static int waiting_for(const struct rd_task *task)
{
	return task->started ? task->exec->waiting_for : -1;
}

/* A call that failed half-way leaves its links unusable: the comm is over, on every rank. */
static int fail_task(struct rd_task *tasks, int count, struct rd_task *task, int error)
{
	int culprit = waiting_for(task);
	int verdict = rd_comm_fail(task->comm, error, culprit);

	return fail_others(tasks, count, task, verdict);
}

static int failed_already(struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++) {
		if (atomic_load_explicit(&tasks[i].comm->failed, memory_order_acquire))
			return fail_others(tasks, count, &tasks[i], rd_comm_failure(tasks[i].comm));
	}
	return 0;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* How long nothing has moved. */
struct idleness {
	int rounds;
	int reported_ms; /* when it was reported as slow; 0: it was not */
	int64_t looked_ns; /* of the time since then: when links were searched for odd messages last
			    */
	int64_t since_ns; /* 0: the clock has not been looked at */
	bool slept;
};

/*
 * Spinning is worth while as long as the peer runs at the same time. Where something else has its
 * core, every round of it only keeps the peer from running: so each sleep halves the next spin, and
 * each wait that ends without one gives back a quarter. Two ranks that both sleep make each other
 * wait for as long as waking takes, which is longer than a short spin: so now and then one is full.
 */
static void learn_to_spin(struct rondo_comm *comm, const struct idleness *idleness)
{
	int64_t most = comm->settings.spin_us * INT64_C(1000);

	if (idleness->rounds == 0 || comm->oversubscribed)
		return;
	if (idleness->slept)
		comm->spin_ns = ++comm->sleeps % SLEEPS_A_SPIN == 0 ? most : comm->spin_ns / 2;
	else
		comm->spin_ns += comm->spin_ns / 4;
	if (comm->spin_ns < SPIN_LEAST_NS)
		comm->spin_ns = SPIN_LEAST_NS;
	if (comm->spin_ns > most)
		comm->spin_ns = most;
}

static void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static bool advance_links(struct rd_task *tasks, int count)
{
	bool moved = false;

	for (int i = 0; i < count; i++)
		if (tasks[i].ordinal == 0)
			moved |= rd_comm_advance(tasks[i].comm);
	return moved;
}

static void sleep_on_several(struct rd_task *tasks, int count, int timeout_ms)
{
	struct pollfd fds[64];
	int watched = 0;

	for (int i = 0; i < count && watched < 64; i++)
		if (tasks[i].ordinal == 0)
			fds[watched++] = (struct pollfd){ tasks[i].comm->epoll_fd, POLLIN, 0 };
	/* With more comms than fit, the rest is looked at every millisecond. */
	poll(fds, watched, watched == 64 ? 1 : timeout_ms);
	for (int i = 0; i < count; i++)
		if (tasks[i].ordinal == 0)
			rd_comm_sleep(tasks[i].comm, 0);
}

static bool one_comm(const struct rd_task *tasks, int count)
{
	for (int i = 1; i < count; i++)
		if (tasks[i].ordinal == 0)
			return false;
	return true;
}

static int step_all(struct rd_task *tasks, int count, int *left);
static bool lacks_part(const struct rd_task *tasks, const struct rd_task *task);

/* Devices wake nobody: who waits for them looks again soon. */
static bool pause_for_part(struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++) {
		if (!lacks_part(tasks, &tasks[i]))
			continue;
		tasks[i].feed->pause(tasks[i].feed);
		return true;
	}
	return false;
}

/* Links are looked at once more after they were armed: what came before that would not wake us. */
static int sleep_until_news(struct rd_task *tasks, int count, int *left, int timeout_ms)
{
	for (int i = 0; i < count; i++)
		if (tasks[i].ordinal == 0)
			rd_comm_arm(tasks[i].comm);

	int moved = step_all(tasks, count, left);

	if (moved == 0 && !advance_links(tasks, count) && !failed_already(tasks, count)) {
		if (one_comm(tasks, count))
			rd_comm_sleep(tasks[0].comm, timeout_ms);
		else
			sleep_on_several(tasks, count, timeout_ms);
	}
	for (int i = 0; i < count; i++)
		if (tasks[i].ordinal == 0)
			rd_comm_disarm(tasks[i].comm);
	return moved;
}

static struct rd_task *stuck_task(struct rd_task *tasks, int count)
{
	struct rd_task *stuck = &tasks[0];

	for (int i = count - 1; i >= 0; i--)
		if (tasks[i].started && !tasks[i].done)
			stuck = &tasks[i];
	return stuck;
}

static int silence(struct rd_task *tasks, int count, int64_t waited_ms)
{
	struct rd_task *task = stuck_task(tasks, count);

	rd_fail(RONDO_TIMEOUT, "rank %d waited %lld ms for rank %d in %s #%u", task->comm->rank,
		(long long)waited_ms, waiting_for(task),
		rd_collective_name(task->call.problem.collective), task->call.number);
	return fail_task(tasks, count, task, RONDO_TIMEOUT);
}

/* Sleeps are no longer than this, so that a call that differs is found soon. */
#define LOOK_MS 250

/* A message that waits where nobody looks may say why nothing moves. */
static int look_for_mismatches(
	struct rd_task *tasks, int count, struct idleness *idleness, int64_t idle_ns)
{
	if (idle_ns - idleness->looked_ns < LOOK_MS * INT64_C(1000000))
		return 0;
	idleness->looked_ns = idle_ns;
	for (int i = 0; i < count; i++) {
		int err = 0;

		if (tasks[i].started && !tasks[i].done && is_collective(&tasks[i]))
			err = rd_exec_find_mismatch(tasks[i].exec);
		if (err)
			return fail_task(tasks, count, &tasks[i], err);
	}
	return 0;
}

/* The call that this rank waits in, for the coordinator's question. */
static void note_call(const struct rd_task *stuck)
{
	struct rd_activity *activity = &stuck->comm->activity;
	struct rd_signature signature = rd_signature_of(&stuck->call);
	uint64_t words[RD_SIGNATURE_WORDS];

	if (!is_collective(stuck) || atomic_load(&activity->slept_in) == stuck->call.number)
		return;
	memcpy(words, &signature, sizeof(words));
	atomic_store(&activity->slept_in, 0);
	for (int i = 0; i < RD_SIGNATURE_WORDS; i++)
		atomic_store(&activity->slept_call[i], words[i]);
	atomic_store(&activity->slept_in, stuck->call.number);
}

/* For the coordinator's question, and its answer where nobody asked: this rank waits, and for whom.
 */
static void note_wait(struct rd_task *tasks, int count, struct idleness *idleness, int64_t now_ns)
{
	struct rd_task *stuck = stuck_task(tasks, count);
	struct rd_activity *activity = &stuck->comm->activity;
	int64_t since_ms = idleness->since_ns / 1000000, waited_ms = now_ns / 1000000 - since_ms;
	char what[64];

	atomic_store_explicit(&activity->waiting_for, waiting_for(stuck), memory_order_relaxed);
	atomic_store_explicit(&activity->waiting_since_ms, since_ms, memory_order_relaxed);
	atomic_store_explicit(&activity->waiting_seen_ms, now_ns / 1000000, memory_order_relaxed);
	note_call(stuck);
	if (waited_ms < LOOK_MS)
		return;
	snprintf(what, sizeof(what), "in %s #%u",
		rd_collective_name(stuck->call.problem.collective), stuck->call.number);
	rd_comm_slow(stuck->comm, &idleness->reported_ms, waited_ms, waiting_for(stuck), what);
}

/* One round in which nothing moved: spins, yields or sleeps. Returns what moved, or an error. */
static int idle(struct rd_task *tasks, int count, int *left, struct idleness *idleness)
{
	const struct rondo_comm *comm = tasks[0].comm;
	int err = failed_already(tasks, count);

	if (err)
		return err;
	if (advance_links(tasks, count))
		return RD_MOVED;
	if (pause_for_part(tasks, count))
		return 0;
	idleness->rounds++;
	if (comm->oversubscribed && idleness->rounds < YIELDS) {
		sched_yield();
		return 0;
	}
	if (!comm->oversubscribed && idleness->rounds % ROUNDS_A_LOOK != 0) {
		pause_core();
		return 0;
	}

	int64_t now_ns = rd_clock_ns();

	if (idleness->since_ns == 0)
		idleness->since_ns = now_ns;

	int64_t idle_ns = now_ns - idleness->since_ns;
	int64_t left_ms = comm->settings.timeout_ms - idle_ns / 1000000;

	if (left_ms <= 0)
		return silence(tasks, count, idle_ns / 1000000);
	if (!comm->oversubscribed && idle_ns < comm->spin_ns)
		return 0;
	idleness->slept = true;
	err = look_for_mismatches(tasks, count, idleness, idle_ns);
	if (err)
		return err;
	note_wait(tasks, count, idleness, now_ns);
	return sleep_until_news(tasks, count, left, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
}

/* ---- Running ------------------------------------------------------------------------------- */

static uint64_t block_size(const struct rd_task *task)
{
	return task->call.count * task->exec->element;
}

static void set_single_copy(struct rd_task *task)
{
	const struct rondo_comm *comm = task->comm;

	task->exec->single_copy = comm->single_copy == RD_SINGLE_COPY_ALWAYS;
	if (comm->single_copy != RD_SINGLE_COPY_LEARNED || !task->choice ||
		block_size(task) < RD_SINGLE_COPY_LEAST)
		return;
	task->exec->single_copy =
		rd_single_copy_next(&task->choice->learned, block_size(task), &task->tried);
	if (task->tried)
		task->tried_ns = rd_clock_ns();
}

/* False: there was no call before, or another one. */
static bool start_again(struct rd_task *task)
{
	const struct rd_call *call = &task->call;
	struct rd_prepared *prepared = rd_prepared_again(task->comm, call);

	if (!prepared)
		return false;
	task->choice = prepared->choice;
	task->exec = &prepared->exec;
	set_single_copy(task);
	rd_exec_again(task->exec, call->in, call->out, call->number);
	return true;
}

static int start_plan(struct rd_task *task, bool peers_mapped)
{
	struct rondo_comm *comm = task->comm;
	struct rd_prepared *prepared;
	int err = rd_prepare(comm, &task->call, peers_mapped, &prepared);

	if (err)
		return err;
	/* Direct access needs no pieces, but for what is put aside: what is worked on at a time is
	   not as long as a message. */
	bool direct_access = prepared->plans[0]->direct_access;
	bool whole = direct_access && prepared->plans[0]->scratch_chunks == 0;

	task->choice = prepared->choice;
	task->exec = &prepared->exec;
	rd_exec_init(task->exec, prepared->plans, &task->call, comm->links, prepared->channels,
		whole ? SIZE_MAX : prepared->piece_size, prepared->scratch, prepared->send_marks);
	task->exec->stride = comm->channels;
	if (direct_access)
		task->exec->peer_buffers = comm->exchange.peer_buffers;
	else
		set_single_copy(task);
	prepared->repeats =
		is_collective(task) && rd_call_is_ordinary(&task->call) && !task->may_exchange;
	return 0;
}

static void log_call(const struct rd_task *task)
{
	const struct rd_call *call = &task->call;

	rd_log(RD_TRACE, RD_COLL, "%s #%u : count %zu type %s op %s root %d in %p out %p",
		rd_collective_name(call->problem.collective), call->number, call->count,
		rondo_type_name(call->type), rondo_op_name(call->op), call->problem.root, call->in,
		call->out);
}

static int start_task(struct rd_task *task)
{
	int err = 0;

	if (rd_log_on(RD_TRACE, RD_COLL))
		log_call(task);
	task->tried = false;
	if (task->comm->times_calls)
		task->began_ns = rd_clock_ns();
	if (start_again(task)) {
		task->exchanging = false;
		task->started = true;
		return 0;
	}
	if (task->call.user_op && !task->call.user_op->combine)
		err = rd_op_scale(&task->call);
	if (!err)
		err = rd_may_exchange_buffers(task->comm, &task->call, &task->may_exchange);
	if (err)
		return err;
	task->exchanging = task->may_exchange && rd_buffer_exchange_is_due(task->comm);
	if (task->exchanging)
		task->exec = rd_exchange_buffers(task->comm, &task->call);
	else
		err = start_plan(task, false);
	task->started = !err;
	return err;
}

static void note_time(const struct rd_task *task)
{
	int64_t now_ns = rd_clock_ns();

	if (task->tried)
		rd_single_copy_record(&task->choice->learned, task->exec->copied_once,
			block_size(task), now_ns - task->tried_ns);
	if (!task->comm->times_calls || !task->choice)
		return;
	task->choice->calls++;
	task->choice->measured_ns += now_ns - task->began_ns;
}

/* The cards are exchanged. */
static int go_on(struct rd_task *task)
{
	bool peers_mapped;
	int err = rd_buffers_exchanged(task->comm, &task->call, &peers_mapped);

	task->exchanging = false;
	return err ? err : start_plan(task, peers_mapped);
}

/* A collective runs alone on its comm; transfers run side by side with other transfers. */
static bool may_start(const struct rd_task *tasks, const struct rd_task *task)
{
	if (is_collective(task))
		return task->comm->ended == task->ordinal;
	return task->after < 0 || tasks[task->after].done;
}

/* Whether all that keeps a task from starting is that its next part has not come. */
static bool lacks_part(const struct rd_task *tasks, const struct rd_task *task)
{
	return task->feed && !task->started && !task->done && may_start(tasks, task);
}

/* The task has started, unless this returns an error, or there is nothing to start with yet. */
static int try_to_start(struct rd_task *tasks, struct rd_task *task)
{
	int fed = RD_MOVED;

	if (!may_start(tasks, task))
		return RD_IDLE;
	if (task->feed)
		fed = task->feed->next(task->feed, &task->call);
	return fed == RD_MOVED ? start_task(task) : fed;
}

static int step_started(struct rd_task *task)
{
	int moved = rd_exec_step(task->exec);

	if (moved == RD_DONE && task->exchanging) {
		int err = go_on(task);

		moved = err ? err : rd_exec_step(task->exec);
		if (moved == RD_IDLE)
			moved = RD_MOVED;
	}
	if (moved == RD_DONE && (task->tried || task->comm->times_calls))
		note_time(task);
	if (moved == RD_DONE && task->feed) {
		moved = task->feed->take(task->feed);
		task->started = false;
	}
	return moved;
}

static int step_task(struct rd_task *tasks, struct rd_task *task, int *left)
{
	int moved = task->started ? 0 : try_to_start(tasks, task);

	if (task->started)
		moved = step_started(task);
	if (moved == RD_DONE) {
		task->done = true;
		task->comm->ended++;
		--*left;
	}
	return moved;
}

/* RD_MOVED if any task moved, 0 if none could, or the first error (what all ranks agree it was). */
static int step_all(struct rd_task *tasks, int count, int *left)
{
	int any = 0;

	for (int i = 0; i < count; i++) {
		if (tasks[i].done)
			continue;

		int moved = step_task(tasks, &tasks[i], left);

		if (moved < 0)
			return fail_task(tasks, count, &tasks[i], moved);
		if (moved > 0)
			any = RD_MOVED;
	}
	return any;
}

static int run_all(struct rd_task *tasks, int count)
{
	struct idleness idleness = { 0 };
	int left = count;

	while (left > 0) {
		int moved = step_all(tasks, count, &left);

		if (moved == 0)
			moved = idle(tasks, count, &left, &idleness);
		if (moved < 0)
			return moved;
		if (moved > 0) {
			learn_to_spin(tasks[0].comm, &idleness);
			idleness = (struct idleness){ 0 };
		}
	}
	return 0;
}

void rd_tasks_finish(struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++)
		rd_call_finish(&tasks[i].call);
}

/* Of tasks that others may be waiting for. */
static __attribute__((noinline)) void take_turns(const struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++)
		if (take_turn(&tasks[i]))
			note_start(&tasks[i]);
}

int rd_run(struct rd_task *tasks, int count)
{
	bool alone = count == 1 && !tasks->queued;

	/* What was issued meanwhile may be waiting, on a stream's thread. */
	if (alone)
		alone = take_turn(tasks);
	else
		take_turns(tasks, count);

	int err = failed_already(tasks, count);

	if (!err)
		err = run_all(tasks, count);
	for (int i = 0; i < count; i++)
		end_turn(&tasks[i], alone);
	return err;
}
