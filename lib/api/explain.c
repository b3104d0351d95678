/* The functions of the public header that report costs and choices of a comm. */
#include "api/op.h"
#include "base/error.h"
#include "comm/comm.h"

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
