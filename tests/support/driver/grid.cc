/*
 * A launch's threads are coroutines: each runs until it waits for its block or polls for a peer,
 * then it is the next one's turn. A real thread for each took most of a test's time to make and to
 * wake. Ranks, and the streams of one, stay threads.
 *
 * Turns go from the first to the last in one round, and back in the next; and the other way round
 * in the next launch. So a barrier that is missing shows, whichever of two threads should be waited
 * for. ThreadSanitizer takes each for a thread, which launches and barriers alone order (fiber.h).
 */
#include "grid.h"

#include <memory>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#include "fiber.h"

#define STACK_SIZE (64 * 1024)
/* Rounds of polls that yield; later ones sleep: a peer's thread may need this one's core. */
#define YIELDS 20
#define REST_NS 50000

namespace
{

struct meeting_point {
	unsigned arrived, meetings; /* now; meetings that are over */
	char order;
};

/* A thread keeps them for the next wave. */
struct stack {
	char memory[STACK_SIZE];
	struct fiber fiber;
};

struct coroutine {
	ucontext_t context;
	unsigned thread, block;
	unsigned meetings; /* the number of meetings that it waits for */
	bool over;
};

/* The blocks that run at a time. */
struct wave {
	const struct grid &grid;
	unsigned first;
	std::vector<struct coroutine> coroutines;
	std::vector<struct meeting_point> blocks;
	ucontext_t turns;
	void *turns_fiber;
	struct coroutine *running;
	bool polls; /* one has, in this round */
	unsigned polled; /* rounds, up to now */
	char order;
};

} // namespace

thread_local struct place threadIdx, blockIdx, blockDim, gridDim;
thread_local void *block_memory;

static thread_local struct wave *now;
static thread_local unsigned waves;
static thread_local std::vector<std::unique_ptr<struct stack>> stacks;

static void live()
{
	fiber_acquire(&now->order);
	now->grid.kernel(now->grid.parameter);
	fiber_release(&now->order);
	now->running->over = true;
	fiber_switch(now->turns_fiber);
}

static void prepare(size_t i)
{
	struct coroutine &coroutine = now->coroutines[i];

	if (stacks.size() == i)
		stacks.emplace_back(new struct stack);
	coroutine.thread = (unsigned)i % now->grid.threads;
	coroutine.block = (unsigned)i / now->grid.threads;
	getcontext(&coroutine.context);
	coroutine.context.uc_stack.ss_sp = stacks[i]->memory;
	coroutine.context.uc_stack.ss_size = STACK_SIZE;
	coroutine.context.uc_link = &now->turns;
	makecontext(&coroutine.context, live, 0);
}

/* False: it waits for its block, or is over. */
static bool take_turn(struct coroutine &coroutine)
{
	if (coroutine.over || coroutine.meetings > now->blocks[coroutine.block].meetings)
		return false;
	threadIdx.x = coroutine.thread;
	blockIdx.x = now->first + coroutine.block;
	block_memory = now->grid.memory + blockIdx.x * now->grid.memory_size;
	now->running = &coroutine;
	fiber_switch(stacks[(size_t)(&coroutine - now->coroutines.data())]->fiber.at);
	swapcontext(&now->turns, &coroutine.context);
	return true;
}

static void rest()
{
	const struct timespec moment = { 0, REST_NS };

	now->polled = now->polls ? now->polled + 1 : 0;
	if (now->polled > YIELDS)
		nanosleep(&moment, NULL);
	else if (now->polls)
		sched_yield();
}

/* How many have gone on. */
static size_t go_round(bool backward)
{
	size_t count = now->coroutines.size(), went = 0;

	now->polls = false;
	for (size_t i = 0; i < count; i++)
		went += take_turn(now->coroutines[backward ? count - 1 - i : i]);
	rest();
	return went;
}

void grid_run(const struct grid &grid, unsigned first, unsigned count)
{
	struct wave here = { grid, first, std::vector<struct coroutine>(count * grid.threads),
		std::vector<struct meeting_point>(count), {}, fiber_now(), NULL, false, 0, 0 };
	bool backward = waves++ % 2;

	now = &here;
	blockDim.x = grid.threads;
	gridDim.x = grid.blocks;
	for (size_t i = 0; i < here.coroutines.size(); i++)
		prepare(i);
	fiber_release(&here.order);
	while (go_round(backward))
		backward = !backward;
	fiber_acquire(&here.order);
	for (const struct coroutine &coroutine : here.coroutines)
		if (!coroutine.over) {
			fputs("a kernel's thread waits for one that has left\n", stderr);
			abort();
		}
	now = NULL;
}

static void pass()
{
	fiber_switch(now->turns_fiber);
	swapcontext(&now->running->context, &now->turns);
}

void grid_meet()
{
	struct meeting_point &point = now->blocks[now->running->block];

	fiber_release(&point.order);
	now->running->meetings = point.meetings + 1;
	if (++point.arrived == now->grid.threads) {
		point.arrived = 0;
		point.meetings++;
	}
	pass();
	fiber_acquire(&point.order);
}

void grid_yield()
{
	now->polls = true;
	pass();
}
