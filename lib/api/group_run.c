/* Ends a group: checks its calls together, and runs or queues them. */
#include <string.h>

#include "api/group.h"
#include "api/request_queue.h"
#include "api/stream.h"

static bool to_itself(const struct rd_task *task)
{
	return task->call.problem.collective == RD_TRANSFER &&
	       task->call.problem.root == task->call.problem.target;
}

/* The other half of a send to, or receive from, this rank itself has come: both become one copy. */
static int join(struct rd_task *task, const struct rd_task *other)
{
	if (other->call.count != task->call.count || other->call.type != task->call.type)
		return rd_fail(RONDO_MISMATCH, "rank %d sends itself %zu %s and receives %zu %s",
			task->comm->rank, task->call.count, rondo_type_name(task->call.type),
			other->call.count, rondo_type_name(other->call.type));
	if (task->call.out)
		task->call.in = other->call.in;
	else
		task->call.out = other->call.out;
	return 0;
}

/* Halves join in their order. So those of a comm that wait for others go one way. They are in a
   list by rd_task.next. */
static bool has_counterpart(const struct rd_task *tasks, const struct rd_task *half)
{
	int first = half->comm->first_half;

	return first >= 0 && !tasks[first].call.out != !half->call.out;
}

static void await_counterpart(struct rd_task *tasks, int index)
{
	struct rondo_comm *comm = tasks[index].comm;

	tasks[index].next = -1;
	if (comm->first_half < 0)
		comm->first_half = index;
	else
		tasks[comm->last_half].next = index;
	comm->last_half = index;
}

static int find_lonely(const struct rd_group *group)
{
	for (int i = 0; i < group->count; i++) {
		const struct rd_task *task = &group->tasks[i];

		if (to_itself(task) && !(task->call.in && task->call.out))
			return rd_fail(RONDO_INVALID,
				"rank %d %s itself, with no counterpart in the group",
				task->comm->rank, task->call.out ? "receives from" : "sends to");
	}
	return 0;
}

/* A rank's send to itself and the receive of it become one task, where the first of them was. */
static int join_halves(struct rd_group *group)
{
	struct rd_task *tasks = group->tasks;
	int count = group->count, err = 0;

	for (int i = 0; i < count; i++)
		tasks[i].comm->first_half = -1;
	group->count = 0;
	for (int i = 0; i < count; i++) {
		struct rondo_comm *comm = tasks[i].comm;
		bool half = to_itself(&tasks[i]);

		if (half && has_counterpart(tasks, &tasks[i])) {
			struct rd_task *first = &tasks[comm->first_half];

			err = err ? err : join(first, &tasks[i]);
			comm->first_half = first->next;
			continue;
		}
		if (group->count < i)
			tasks[group->count] = tasks[i];
		if (half)
			await_counterpart(tasks, group->count);
		group->count++;
	}
	return err ? err : find_lonely(group);
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

static void exit_comms(const struct rd_group *group)
{
	for (int i = 0; i < group->count; i++)
		rd_comm_exit(group->tasks[i].comm);
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
		err = enter_comms(group);
	if (err || group->count == 0) {
		rd_tasks_finish(group->tasks, group->count);
		return err;
	}
	err = join_halves(group);
	if (err)
		rd_tasks_finish(group->tasks, group->count);
	else
		err = run_tasks(group);
	exit_comms(group);
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

/* ---- Requests ------------------------------------------------------------------------------- */

static int check_request(const struct rd_group *group)
{
	if (group->error)
		return rd_fail(group->error, "%s", group->reason);
	if (group->count == 0)
		return rd_fail(RONDO_INVALID, "rondo_group_prepare: the group has no call");
	if (group->stream)
		return rd_fail(RONDO_INVALID,
			"rondo_group_prepare: the calls of a request are on no stream");
	for (int i = 1; i < group->count; i++)
		if (group->tasks[i].comm != group->tasks[0].comm)
			return rd_fail(RONDO_INVALID,
				"rondo_group_prepare: the calls of a request are on one comm");
	return 0;
}

static int prepare_group(struct rd_group *group, rondo_request **request)
{
	int err = check_request(group);

	if (!err)
		err = enter_comms(group);
	if (!err) {
		err = join_halves(group);
		exit_comms(group);
	}
	if (!err)
		err = rd_request_create(request, group->tasks, group->count);
	if (err)
		rd_tasks_finish(group->tasks, group->count);
	return err;
}

int rondo_group_prepare(rondo_request **request)
{
	struct rd_group *group;
	int err = rd_group_close(&group);

	if (request)
		*request = NULL;
	if (err)
		return err;
	if (!group)
		return rd_group_refuse(rd_fail(
			RONDO_INVALID, "rondo_group_prepare: the group is in another group"));
	if (!request)
		rd_group_refuse(rd_fail(RONDO_INVALID, "rondo_group_prepare: request is NULL"));
	err = prepare_group(group, request);
	rd_group_clear();
	return err;
}
