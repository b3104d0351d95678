/* Ends a group: checks its calls together, and runs or queues them. */
#include <string.h>

#include "api/group.h"
#include "api/stream.h"

static bool to_itself(const struct rd_task *task)
{
	return task->call.problem.collective == RD_TRANSFER &&
	       task->call.problem.root == task->call.problem.target;
}

static void remove_task(struct rd_group *group, int index)
{
	memmove(&group->tasks[index], &group->tasks[index + 1],
		(group->count - index - 1) * sizeof(*group->tasks));
	group->count--;
}

/* The other half of a send to, or receive from, this rank itself: the first that fits. */
static int find_half(const struct rd_group *group, int index)
{
	const struct rd_task *task = &group->tasks[index];

	for (int i = index + 1; i < group->count; i++) {
		const struct rd_task *other = &group->tasks[i];

		if (to_itself(other) && other->comm == task->comm &&
			!other->call.out != !task->call.out)
			return i;
	}
	return -1;
}

/* A rank's send to itself and the receive of it become one copy. */
static int join_halves(struct rd_group *group)
{
	for (int i = 0; i < group->count; i++) {
		struct rd_task *task = &group->tasks[i];

		if (!to_itself(task))
			continue;

		int half = find_half(group, i);

		if (half < 0)
			return rd_fail(RONDO_INVALID,
				"rank %d %s itself, with no counterpart in the group",
				task->comm->rank, task->call.out ? "receives from" : "sends to");

		const struct rd_call *other = &group->tasks[half].call;

		if (other->count != task->call.count || other->type != task->call.type)
			return rd_fail(RONDO_MISMATCH,
				"rank %d sends itself %zu %s and receives %zu %s", task->comm->rank,
				task->call.count, rondo_type_name(task->call.type), other->count,
				rondo_type_name(other->type));
		if (task->call.out)
			task->call.in = other->in;
		else
			task->call.out = other->out;
		remove_task(group, half);
	}
	return 0;
}

/* Enters all comms of the group, or none. */
static int enter_comms(const struct rd_group *group)
{
	for (int i = 0; i < group->count; i++)
		if (atomic_load_explicit(&group->tasks[i].comm->used, memory_order_relaxed))
			return rd_comm_refuse_second(group->tasks[i].comm, "rondo_group_end");
	for (int i = 0; i < group->count; i++)
		rd_comm_enter(group->tasks[i].comm);
	return 0;
}

static int run_tasks(const struct rd_group *group)
{
	int err;

	if (group->stream)
		return rd_stream_run(group->stream, group->tasks, group->count);
	rd_tasks_issue(group->tasks, group->count);
	err = rd_run(group->tasks, group->count);
	rd_tasks_finish(group->tasks, group->count);
	return err;
}

static int run_group(struct rd_group *group)
{
	int err = 0;

	if (group->error)
		err = rd_fail(group->error, "%s", group->reason);
	if (!err)
		err = join_halves(group);
	if (!err)
		err = enter_comms(group);
	if (err || group->count == 0) {
		rd_tasks_finish(group->tasks, group->count);
		return err;
	}
	err = run_tasks(group);
	for (int i = 0; i < group->count; i++)
		rd_comm_exit(group->tasks[i].comm);
	return err;
}

int rondo_group_end(void)
{
	struct rd_group *group;
	int err = rd_group_close(&group);

	if (err || !group)
		return err;
	err = run_group(group);
	rd_group_clear();
	return err;
}
