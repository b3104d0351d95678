/* The order of a group's calls, and the work of its rounds. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "comm/batch.h"
#include "draw.h"

#define SIZE 3
#define CALLS 4096
#define ROUNDS 3 /* in which a call moves, the last time to its end */

static struct rondo_comm comms[2];
static struct rd_peer_calls peer_calls[2][SIZE];
static struct rd_task tasks[CALLS];
static int moves[CALLS]; /* of each task so far */
static int visits;

/* Half of the calls are transfers. All begin as if another batch had left its indices. */
static void draw_tasks(struct draw *seed, int count, int comm_count)
{
	for (int i = 0; i < count; i++) {
		struct rd_task *task = &tasks[i];
		int peer = (int)draw(seed, SIZE), c = (int)draw(seed, (uint64_t)comm_count);
		bool sends = draw(seed, 2);

		comms[c].size = SIZE;
		comms[c].peer_calls = peer_calls[c];
		*task = (struct rd_task){ .comm = &comms[c] };
		if (draw(seed, 2))
			task->call.problem = (struct rd_problem){ .collective = RD_TRANSFER,
				.root = sends ? 0 : peer,
				.target = sends ? peer : 0 };
	}
}

static bool must_follow(const struct rd_task *task, const struct rd_task *earlier)
{
	const struct rd_problem *a = &task->call.problem, *b = &earlier->call.problem;

	if (rd_task_is_collective(task) || rd_task_is_collective(earlier))
		return true;
	return a->root == b->root && a->target == b->target;
}

/* By definition: the nearest one before it on its comm that it must follow. */
static void expect_order(int index)
{
	int after = -1, ordinal = 0;

	for (int i = 0; i < index; i++) {
		if (tasks[i].comm != tasks[index].comm)
			continue;
		ordinal++;
		if (must_follow(&tasks[index], &tasks[i]))
			after = i;
	}
	cr_expect_eq(tasks[index].ordinal, ordinal, "task %d: %d, not %d", index,
		tasks[index].ordinal, ordinal);
	cr_expect_eq(tasks[index].after, after, "task %d: after %d, not %d", index,
		tasks[index].after, after);
}

Test(batches, calls_follow_those_whose_messages_they_could_overtake)
{
	struct draw seed = draw_from(1, 0);

	for (int round = 0; round < 100; round++) {
		int count = 1 + (int)draw(&seed, 60);

		draw_tasks(&seed, count, 2);
		rd_tasks_issue(tasks, count);
		for (int i = 0; i < count; i++)
			expect_order(i);
	}
}

/* A call that may start moves ROUNDS times. */
static int move(struct rd_task *task)
{
	int index = (int)(task - tasks);

	visits++;
	if (!rd_task_may_start(task))
		return RD_IDLE;
	cr_assert(task->after < 0 || moves[task->after] == ROUNDS);
	if (++moves[index] < ROUNDS)
		return RD_MOVED;
	task->comm->ended++;
	return RD_DONE;
}

static void run(int count)
{
	struct rd_batch batch;

	for (int c = 0; c < 2; c++)
		comms[c].ended = 0;
	memset(moves, 0, sizeof(moves));
	visits = 0;
	rd_tasks_issue(tasks, count);
	rd_batch_init(&batch, tasks, count);
	while (batch.live >= 0)
		cr_assert_eq(rd_batch_step(&batch, move), RD_MOVED);
	for (int i = 0; i < count; i++)
		cr_assert_eq(moves[i], ROUNDS, "task %d of %d", i, count);
}

Test(batches, calls_that_wait_for_others_cost_no_steps)
{
	for (int count = 1; count <= CALLS; count *= 4) {
		memset(tasks, 0, sizeof(tasks));
		for (int i = 0; i < count; i++)
			tasks[i].comm = &comms[0];
		run(count);
		cr_expect_eq(visits, ROUNDS * count, "%d visits of %d calls", visits, count);
	}
}

Test(batches, of_all_kinds_of_calls_end_in_order)
{
	struct draw seed = draw_from(2, 0);

	for (int count = 1; count <= CALLS; count *= 4) {
		draw_tasks(&seed, count, 2);
		run(count);
		/* In a round where a collective waits for transfers, one of these moves. */
		cr_expect_leq(visits, 2 * ROUNDS * count, "%d visits of %d calls", visits, count);
	}
}
