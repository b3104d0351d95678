#include "comm/task.h"

/* Two ranks whose digests differ made different calls, whatever their links noticed. */
static void digest_call(struct rondo_comm *comm, const struct rd_call *call)
{
	uint64_t kind = (uint64_t)call->problem.collective << 40 | (uint64_t)call->type << 48 |
			(uint64_t)call->op << 56 | (uint32_t)call->problem.root;

	comm->digest = (comm->digest ^ kind ^ call->count * UINT64_C(0x9e3779b97f4a7c15)) *
		       UINT64_C(0x100000001b3);
}

void rd_task_number(struct rd_task *task)
{
	struct rondo_comm *comm = task->comm;
	struct rd_call *call = &task->call;

	if (!rd_task_is_collective(task)) {
		call->number = rd_task_sends(task) ? ++comm->sends[call->problem.target]
						   : ++comm->recvs[call->problem.root];
		return;
	}
	call->number = ++comm->calls;
	digest_call(comm, call);
	atomic_store_explicit(
		&comm->activity.collective, call->problem.collective, memory_order_relaxed);
	atomic_store_explicit(&comm->activity.called_at, task->called_at, memory_order_relaxed);
	atomic_store_explicit(&comm->activity.calls, call->number, memory_order_release);
}

/* A transfer waits for an earlier one on the same link and direction, and for a collective: the
   messages of a link must come in the order that the other side expects. */
static bool must_follow(const struct rd_task *task, const struct rd_task *earlier)
{
	const struct rd_problem *a = &task->call.problem, *b = &earlier->call.problem;

	if (!rd_task_is_collective(task) && !rd_task_is_collective(earlier))
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

void rd_tasks_issue(struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++) {
		tasks[i].turn = tasks[i].comm->issued++;
		tasks[i].timeout_ms = rd_comm_timeout_ms(tasks[i].comm);
		rd_task_number(&tasks[i]);
		order_task(tasks, i);
	}
}

void rd_tasks_finish(struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++)
		rd_call_finish(&tasks[i].call);
}
