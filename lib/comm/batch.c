#include "comm/batch.h"

#include <stdio.h>

#include "base/error.h"

static int fail_others(struct rd_task *tasks, int count, const struct rd_task *failed, int error)
{
	char reason[RD_REASON_SIZE];

	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	for (int i = 0; i < count; i++) {
		struct rondo_comm *comm = tasks[i].comm;

		if (comm == failed->comm || atomic_load(&comm->failed))
			continue;
		rd_fail(RONDO_REVOKED, "rank %d gave up a group of calls: %s", comm->rank, reason);
		rd_comm_fail(comm, RONDO_REVOKED, comm->rank);
	}
	return rd_fail(error, "%s", reason);
}

/* A call that failed half-way leaves its links unusable: the comm is over, on every rank. */
int rd_batch_fail(struct rd_task *tasks, int count, struct rd_task *failed, int error)
{
	int verdict = rd_comm_fail(failed->comm, error, rd_task_waiting_for(failed));

	return fail_others(tasks, count, failed, verdict);
}

int rd_batch_fail_with(struct rd_task *tasks, int count, const struct rd_task *failed)
{
	return fail_others(tasks, count, failed, rd_comm_failure(failed->comm));
}
