#include "comm/batch.h"

#include <stdio.h>

#include "base/error.h"

static int fail_others(const struct rd_batch *batch, const struct rd_task *failed, int error)
{
	char reason[RD_REASON_SIZE];

	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	RD_BATCH_COMMS (batch, task) {
		struct rondo_comm *comm = task->comm;

		if (comm == failed->comm || atomic_load(&comm->failed))
			continue;
		rd_fail(RONDO_REVOKED, "rank %d gave up a group of calls: %s", comm->rank, reason);
		rd_comm_fail(comm, RONDO_REVOKED, comm->rank);
	}
	return rd_fail(error, "%s", reason);
}

/* A call that failed half-way leaves its links unusable: the comm is over, on every rank. */
int rd_batch_fail(const struct rd_batch *batch, const struct rd_task *failed, int error)
{
	int verdict = rd_comm_fail(failed->comm, error, rd_task_waiting_for(failed));

	return fail_others(batch, failed, verdict);
}

int rd_batch_fail_with(const struct rd_batch *batch, const struct rd_task *failed)
{
	return fail_others(batch, failed, rd_comm_failure(failed->comm));
}
