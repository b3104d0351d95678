#include "fibers.h"

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "base/cancellation.h"
#include "world.h"

#define STACK_SIZE (256 << 10)
#define PAUSE_ONE_IN 20 /* locks */
#define PAUSE_NS (5 * MS) /* at most */

static struct fiber {
	bool ended, polls;
	int rank;
	int epoll_fd;
	int locks; /* that it has: a pause with one would stop the threads that want it */
	const void *object; /* for which it waits; NULL: none */
	bool woken;
	uint64_t due_ns;
	void *(*run)(void *);
	void *argument;
	/* A thread has these to itself: */
	struct rd_cancellation *cancellation;
	char reason[RD_REASON_SIZE];
	ucontext_t context;
} fibers[FIBERS_MAX];
static char stacks[FIBERS_MAX][STACK_SIZE] __attribute__((aligned(64)));
static int count, current = -1;
static ucontext_t scheduler;

void fibers_begin(void)
{
	count = 0;
}

int fibers_rank(void)
{
	return current < 0 ? -1 : fibers[current].rank;
}

int fibers_rank_of(int fiber)
{
	return fibers[fiber].rank;
}

/* ---- Switches ------------------------------------------------------------------------------- */

static void leave(void)
{
	struct fiber *fiber = &fibers[current];

	memccpy(fiber->reason, rondo_last_error(), '\0', sizeof(fiber->reason));
	swapcontext(&fiber->context, &scheduler);
	if (fiber->reason[0])
		rd_fail(0, "%s", fiber->reason);
}

static void enter(void)
{
	struct fiber *fiber = &fibers[current];

	fiber->run(fiber->argument);
	fiber->ended = true;
	fibers_wake(fiber);
	leave();
}

void fibers_run(int number)
{
	current = number;
	fibers[number].due_ns = NEVER;
	rd_cancellation_begin(fibers[number].cancellation);
	memory_enter(fibers[number].rank);
	swapcontext(&scheduler, &fibers[number].context);
	memory_enter(-1);
	rd_cancellation_begin(NULL);
	current = -1;
}

int fibers_start(int rank, void *(*run)(void *), void *argument)
{
	struct fiber *fiber = &fibers[count];

	if (count == FIBERS_MAX)
		abort();
	*fiber = (struct fiber){ .rank = rank,
		.run = run,
		.argument = argument,
		.due_ns = sim.now_ns + sim_delay(job.wake_ns) };
	getcontext(&fiber->context);
	fiber->context.uc_stack.ss_sp = stacks[count];
	fiber->context.uc_stack.ss_size = STACK_SIZE;
	makecontext(&fiber->context, enter, 0);
	return count++;
}

void fibers_end_all(int rank)
{
	for (int i = 0; i < count; i++)
		if (fibers[i].rank == rank)
			fibers[i].ended = true;
}

bool fibers_has(int rank)
{
	for (int i = 0; i < count; i++)
		if (fibers[i].rank == rank && !fibers[i].ended)
			return true;
	return false;
}

/* From a random one on. */
int fibers_next(uint64_t *at_ns)
{
	int first = (int)draw(&sim.run, (uint64_t)count), next = -1;

	*at_ns = NEVER;
	for (int i = 0; i < count; i++) {
		int at = (first + i) % count;

		if (fibers[at].ended || fibers[at].due_ns >= *at_ns || !job_acts(fibers[at].rank))
			continue;
		next = at;
		*at_ns = fibers[at].due_ns;
	}
	return next;
}

/* ---- Waits ---------------------------------------------------------------------------------- */

static void advance(struct fiber *fiber)
{
	uint64_t at_ns = sim.now_ns + sim_delay(job.wake_ns);

	if (at_ns < fiber->due_ns)
		fiber->due_ns = at_ns;
}

void fibers_check(void)
{
	if (current >= 0 && job.ranks[fibers[current].rank].dead)
		leave();
}

void fibers_sleep(uint64_t ns)
{
	fibers[current].due_ns = sim.now_ns + ns;
	leave();
}

void fibers_lock(void)
{
	if (fibers[current].locks == 0 && draw_one_in(&sim.run, PAUSE_ONE_IN))
		fibers_sleep(sim_delay(PAUSE_NS));
	fibers[current].locks++;
}

void fibers_unlock(void)
{
	fibers[current].locks--;
}

void fibers_poll(int epoll_fd, uint64_t until_ns)
{
	struct fiber *fiber = &fibers[current];

	fiber->polls = true;
	fiber->epoll_fd = epoll_fd;
	fiber->due_ns = until_ns;
	leave();
	fiber->polls = false;
}

void fibers_stir(int rank)
{
	for (int i = 0; i < count; i++)
		if (fibers[i].rank == rank && fibers[i].polls && !fibers[i].ended &&
			kernel_is_ready(fibers[i].epoll_fd))
			advance(&fibers[i]);
}

bool fibers_await(const void *object, uint64_t until_ns)
{
	struct fiber *fiber = &fibers[current];

	fiber->object = object;
	fiber->woken = false;
	fiber->due_ns = until_ns;
	leave();
	fiber->object = NULL;
	return fiber->woken;
}

void fibers_wake(const void *object)
{
	for (int i = 0; i < count; i++)
		if (fibers[i].object == object && !fibers[i].ended) {
			fibers[i].woken = true;
			advance(&fibers[i]);
		}
}

void fibers_join(int number)
{
	while (!fibers[number].ended)
		fibers_await(&fibers[number], NEVER);
}

void fibers_set_cancellation(struct rd_cancellation *cancellation)
{
	fibers[current].cancellation = cancellation;
	rd_cancellation_begin(cancellation);
}
