#include "comm/task.h"

uint64_t rd_task_digest(const struct rd_call *call)
{
	uint64_t kind = (uint64_t)call->problem.collective << 40 | (uint64_t)call->type << 48 |
			(uint64_t)call->op << 56 | (uint32_t)call->problem.root;

	return kind ^ call->count * UINT64_C(0x9e3779b97f4a7c15);
}

void rd_task_number(struct rd_task *task)
{
	struct rondo_comm *comm = task->comm;
	struct rd_call *call = &task->call;

	if (!rd_task_is_collective(task)) {
		call->number = rd_task_sends(task) ? ++comm->peer_calls[call->problem.target].sends
						   : ++comm->peer_calls[call->problem.root].recvs;
		return;
	}
	call->number = rd_task_number_collective(
		comm, call->problem.collective, rd_task_digest(call), task->called_at);
}

/* Where the comm keeps the index of the latest transfer of this link and direction. */
static int *last_transfer(const struct rd_task *task)
{
	const struct rd_problem *problem = &task->call.problem;
	struct rd_peer_calls *calls = task->comm->peer_calls;

	return rd_task_sends(task) ? &calls[problem->target].last_send
				   : &calls[problem->root].last_recv;
}

/* Whether an index that the comm keeps is of this batch. An earlier batch may have left it. If the
   comm has such a task there in this batch, that task has overwritten it. */
static bool is_before(const struct rd_task *tasks, int kept, int index)
{
	return kept < index && tasks[kept].comm == tasks[index].comm;
}

/* A transfer waits for an earlier one on the same link and direction, and for a collective: the
   messages of a link must come in the order that the other side expects. */
static int order_transfer(const struct rd_task *tasks, int index)
{
	const struct rondo_comm *comm = tasks[index].comm;
	int *last = last_transfer(&tasks[index]), after = -1;

	if (is_before(tasks, *last, index) && !rd_task_is_collective(&tasks[*last]) &&
		last_transfer(&tasks[*last]) == last)
		after = *last;
	if (is_before(tasks, comm->last_collective, index) && comm->last_collective > after &&
		rd_task_is_collective(&tasks[comm->last_collective]))
		after = comm->last_collective;
	*last = index;
	return after;
}

/* In a time that does not depend on the number of tasks. */
static void order_task(struct rd_task *tasks, int index)
{
	struct rd_task *task = &tasks[index];
	struct rondo_comm *comm = task->comm;
	int last = is_before(tasks, comm->last_task, index) ? comm->last_task : -1;

	task->ordinal = last < 0 ? 0 : tasks[last].ordinal + 1;
	comm->last_task = index;
	if (rd_task_is_collective(task)) {
		task->after = last;
		comm->last_collective = index;
	} else {
		task->after = order_transfer(tasks, index);
	}
}

void rd_tasks_issue(struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++) {
		tasks[i].turn = tasks[i].comm->issued++;
		tasks[i].timeout_ms = rd_comm_timeout_ms(tasks[i].comm);
		rd_task_number(&tasks[i]);
		tasks[i].ordinal = 0;
		tasks[i].after = -1;
		if (count > 1)
			order_task(tasks, i);
	}
}

void rd_tasks_finish(struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++)
		rd_call_finish(&tasks[i].call);
}
