#include "api/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "api/stream.h"

struct group {
	int depth;
	unsigned forks; /* rd_forks where it was started */
	int count, capacity;
	struct rd_task *tasks;
	struct rondo_stream *stream;
	int error;
	char reason[RD_REASON_SIZE];
};

static _Thread_local struct group group;

/* One that was open at a fork is the parent's: this child has none. */
bool rd_group_open(void)
{
	return group.depth > 0 && !rd_is_inherited(group.forks);
}

void rd_group_lose_stream(const struct rondo_stream *stream)
{
	if (rd_group_open() && group.count > 0 && group.stream == stream)
		rd_group_refuse(rd_fail(RONDO_INVALID,
			"rondo_stream_destroy: calls of the open group are on this stream: end the "
			"group first"));
}

int rd_group_refuse(int error)
{
	if (!group.error) {
		group.error = error;
		snprintf(group.reason, sizeof(group.reason), "%s", rondo_last_error());
	}
	return error;
}

static int grow(void)
{
	int capacity = group.capacity ? 2 * group.capacity : 16;
	struct rd_task *tasks;

	if (group.count < group.capacity)
		return 0;
	if (group.count == RONDO_GROUP_MAX)
		return rd_fail(RONDO_INVALID, "a group holds at most %d calls", RONDO_GROUP_MAX);
	tasks = realloc(group.tasks, capacity * sizeof(*tasks));
	if (!tasks)
		return rd_fail(RONDO_MEMORY, "no memory for a group of %d calls", capacity);
	group.tasks = tasks;
	group.capacity = capacity;
	return 0;
}

int rd_group_add(const struct rd_task *task, struct rondo_stream *stream)
{
	int err = grow();

	if (!err && group.count > 0 && stream != group.stream)
		err = rd_fail(RONDO_INVALID,
			"all calls of a group must be on one stream, or all on none");
	if (err) {
		rd_terms_destroy(task->call.terms);
		return rd_group_refuse(err);
	}
	group.stream = stream;
	group.tasks[group.count++] = *task;
	return 0;
}

/* Its calls are the parent's, who still has them. */
static void forget_inherited(void)
{
	rd_run_forget(group.tasks, group.count);
	free(group.tasks);
	memset(&group, 0, sizeof(group));
}

int rondo_group_start(void)
{
	if (group.depth > 0 && !rd_group_open())
		forget_inherited();
	group.forks = rd_forks;
	group.depth++;
	return 0;
}

static bool to_itself(const struct rd_task *task)
{
	return task->call.problem.collective == RD_TRANSFER &&
	       task->call.problem.root == task->call.problem.target;
}

static void remove_task(int index)
{
	memmove(&group.tasks[index], &group.tasks[index + 1],
		(group.count - index - 1) * sizeof(*group.tasks));
	group.count--;
}

/* The other half of a send to, or receive from, this rank itself: the first that fits. */
static int find_half(int index)
{
	const struct rd_task *task = &group.tasks[index];

	for (int i = index + 1; i < group.count; i++) {
		const struct rd_task *other = &group.tasks[i];

		if (to_itself(other) && other->comm == task->comm &&
			!other->call.out != !task->call.out)
			return i;
	}
	return -1;
}

/* A rank's send to itself and the receive of it become one copy. */
static int join_halves(void)
{
	for (int i = 0; i < group.count; i++) {
		struct rd_task *task = &group.tasks[i];

		if (!to_itself(task))
			continue;

		int half = find_half(i);

		if (half < 0)
			return rd_fail(RONDO_INVALID,
				"rank %d %s itself, with no counterpart in the group",
				task->comm->rank, task->call.out ? "receives from" : "sends to");

		const struct rd_call *other = &group.tasks[half].call;

		if (other->count != task->call.count || other->type != task->call.type)
			return rd_fail(RONDO_MISMATCH,
				"rank %d sends itself %zu %s and receives %zu %s", task->comm->rank,
				task->call.count, rondo_type_name(task->call.type), other->count,
				rondo_type_name(other->type));
		if (task->call.out)
			task->call.in = other->in;
		else
			task->call.out = other->out;
		remove_task(half);
	}
	return 0;
}

/* All of them, or none. */
static int enter_comms(void)
{
	for (int i = 0; i < group.count; i++)
		if (atomic_load_explicit(&group.tasks[i].comm->used, memory_order_relaxed))
			return rd_run_refuse_second(group.tasks[i].comm, "rondo_group_end");
	for (int i = 0; i < group.count; i++)
		rd_run_enter(group.tasks[i].comm);
	return 0;
}

static int run_tasks(void)
{
	int err;

	if (group.stream)
		return rd_stream_run(group.stream, group.tasks, group.count);
	rd_run_issue(group.tasks, group.count);
	err = rd_run(group.tasks, group.count);
	rd_run_forget(group.tasks, group.count);
	return err;
}

static int run_group(void)
{
	int err = 0;

	if (group.error)
		err = rd_fail(group.error, "%s", group.reason);
	if (!err)
		err = join_halves();
	if (!err)
		err = enter_comms();
	if (err || group.count == 0) {
		rd_run_forget(group.tasks, group.count);
		return err;
	}
	err = run_tasks();
	for (int i = 0; i < group.count; i++)
		rd_run_exit(group.tasks[i].comm);
	return err;
}

int rondo_group_end(void)
{
	if (group.depth == 0)
		return rd_fail(RONDO_INVALID, "rondo_group_end without rondo_group_start");
	if (!rd_group_open()) {
		forget_inherited();
		return rd_refuse_inherited("rondo_group_end", "group");
	}
	if (--group.depth > 0)
		return 0;

	int err = run_group();

	free(group.tasks);
	memset(&group, 0, sizeof(group));
	return err;
}
