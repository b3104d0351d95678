/* The costs of calls, the choices for them, and their links, ahead of them. */
#include "api/communicator.h"
#include "api/group.h"
#include "api/op.h"
#include "base/error.h"
#include "comm/connect.h"
#include "comm/plan_cache.h"

int rondo_costs(const rondo_comm *comm, char *text, size_t size)
{
	if (!comm || (!text && size > 0))
		return rd_fail(RONDO_INVALID, "rondo_costs: %s is NULL", comm ? "text" : "comm");
	return rd_costs_print(&comm->costs, text, size);
}

int rondo_explain(rondo_comm *comm, const char *collective, size_t count, rondo_type type,
	int registered, struct rondo_way *ways, int most)
{
	int number, found;

	if (!comm || !collective || (!ways && most > 0))
		return rd_fail(RONDO_INVALID, "rondo_explain: %s is NULL",
			!comm        ? "comm"
			: collective ? "ways"
				     : "collective");
	if (rd_collective_find(collective, "rondo_explain", &number))
		return RONDO_INVALID;
	if (rd_type_check(type, "rondo_explain", ""))
		return RONDO_INVALID;
	if (comm->size == 1)
		return 0;
	/* The picker keeps what it finds. */
	atomic_store(&comm->changes, true);
	found = rd_picker_list(comm->picker, number, count * rondo_type_size(type),
		rd_type_class_of(type), registered && comm->maps, ways, most);
	atomic_store(&comm->changes, false);
	return found;
}

static int refuse(const rondo_comm *comm, const char *collective, rondo_type type, int *number)
{
	if (!comm || !collective)
		return rd_fail(RONDO_INVALID, "rondo_comm_connect: %s is NULL",
			comm ? "collective" : "comm");
	if (rd_comm_check_process(comm, "rondo_comm_connect") ||
		rd_type_check(type, "rondo_comm_connect", ""))
		return RONDO_INVALID;
	if (rd_group_open())
		return rd_fail(RONDO_INVALID, "rondo_comm_connect: end the group first");
	return rd_collective_find(collective, "rondo_comm_connect", number);
}

static int open_links(rondo_comm *comm, const struct rd_call *call)
{
	struct rd_prepared *prepared;
	bool exchanges;
	int err = rd_buffer_exchange_pays(comm, call, &exchanges);

	if (!err && exchanges)
		err = rd_connect_now(comm, &comm->exchange->peers);
	if (!err)
		err = rd_prepare(comm, call, false, &prepared);
	if (err)
		return err;
	/* An equal call may not have been made. */
	prepared->repeats = RD_STARTS_ANEW;
	return rd_connect_now(comm, &prepared->peers);
}

int rondo_comm_connect(rondo_comm *comm, const char *collective, size_t count, rondo_type type)
{
	int number, err = refuse(comm, collective, type, &number);
	struct rd_call call;

	if (err)
		return err;
	if (comm->size == 1)
		return atomic_load(&comm->failed) ? rd_comm_failure(comm) : 0;
	if (!rd_comm_enter(comm))
		return rd_comm_refuse_second(comm, "rondo_comm_connect");
	rd_comm_wait_for_calls(comm);
	call = (struct rd_call){
		.problem = { .collective = (enum rd_collective)number,
			.rank = comm->rank,
			.size = comm->size,
			.layout = comm->layouts[0] },
		.type = type,
		.op = RONDO_SUM,
		.count = count,
	};
	err = atomic_load(&comm->failed) ? rd_comm_failure(comm) : open_links(comm, &call);
	rd_comm_exit(comm);
	return err;
}
