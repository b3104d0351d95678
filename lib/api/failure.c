/* The functions by which a program learns of a failure, ends a comm, and bounds its calls. */
#include "api/communicator.h"
#include "base/error.h"

int rondo_comm_rank(const rondo_comm *comm)
{
	return comm ? comm->rank : rd_fail(RONDO_INVALID, "rondo_comm_rank: comm is NULL");
}

int rondo_comm_size(const rondo_comm *comm)
{
	return comm ? comm->size : rd_fail(RONDO_INVALID, "rondo_comm_size: comm is NULL");
}

int rondo_comm_error(rondo_comm *comm)
{
	if (!comm)
		return rd_fail(RONDO_INVALID, "rondo_comm_error: comm is NULL");

	int err = rd_comm_check_process(comm, "rondo_comm_error");

	if (err)
		return err;
	return !comm->finalized && atomic_load(&comm->failed) ? rd_comm_failure(comm) : 0;
}

int rondo_comm_revoke(rondo_comm *comm, const char *reason)
{
	if (!comm)
		return rd_fail(RONDO_INVALID, "rondo_comm_revoke: comm is NULL");

	int err = rd_comm_check_process(comm, "rondo_comm_revoke");

	if (err)
		return err;
	rd_fail(RONDO_REVOKED, "rank %d revoked the communicator%s%s", comm->rank,
		reason ? ": " : "", reason ? reason : "");
	if (!comm->control)
		atomic_store(&comm->failed, RONDO_REVOKED);
	else
		rd_comm_fail(comm, RONDO_REVOKED, comm->rank);
	return 0;
}

static bool is_late(enum rd_presence presence)
{
	return presence == RD_LATE;
}

static int list_ranks(rondo_comm *comm, const char *function, bool (*is_listed)(enum rd_presence),
	int ranks[], int most)
{
	int err, count = 0;

	if (!comm || most < 0 || (!ranks && most > 0))
		return rd_fail(RONDO_INVALID, "%s: comm is NULL, or ranks has no room for %d",
			function, most);
	err = rd_comm_check_process(comm, function);
	if (err)
		return err;
	for (int rank = 0; rank < comm->size && comm->control; rank++) {
		if (!is_listed(rd_control_presence(comm->control, rank)))
			continue;
		if (count < most)
			ranks[count] = rank;
		count++;
	}
	return count;
}

int rondo_comm_failed(rondo_comm *comm, int ranks[], int most)
{
	return list_ranks(comm, "rondo_comm_failed", rd_has_failed, ranks, most);
}

int rondo_comm_late(rondo_comm *comm, int ranks[], int most)
{
	return list_ranks(comm, "rondo_comm_late", is_late, ranks, most);
}

int rondo_comm_set_timeout(rondo_comm *comm, int timeout_ms)
{
	int err;

	if (!comm || timeout_ms < 0 || (timeout_ms > 0 && timeout_ms < RD_TIMEOUT_LEAST_MS) ||
		timeout_ms > RD_TIMEOUT_MOST_MS)
		return rd_fail(RONDO_INVALID,
			"rondo_comm_set_timeout: comm is NULL, or %d ms is neither 0 nor %d to %d",
			timeout_ms, RD_TIMEOUT_LEAST_MS, RD_TIMEOUT_MOST_MS);
	err = rd_comm_check_process(comm, "rondo_comm_set_timeout");
	if (err)
		return err;
	atomic_store(&comm->timeout_ms, timeout_ms ? timeout_ms : comm->settings.timeout_ms);
	return 0;
}
