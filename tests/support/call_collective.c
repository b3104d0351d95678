#include "call_collective.h"

int call_collective(rondo_comm *comm, enum rd_collective collective, const void *in, void *out,
	size_t count, rondo_type type, rondo_op op, int root, rondo_stream *stream)
{
	switch (collective) {
	case RD_ALL_REDUCE:
		return rondo_all_reduce(comm, in, out, count, type, op, stream);
	case RD_REDUCE:
		return rondo_reduce(comm, in, out, count, type, op, root, stream);
	case RD_BROADCAST:
		return rondo_broadcast(comm, in, out, count, type, root, stream);
	case RD_REDUCE_SCATTER:
		return rondo_reduce_scatter(comm, in, out, count, type, op, stream);
	case RD_ALL_GATHER:
		return rondo_all_gather(comm, in, out, count, type, stream);
	case RD_GATHER:
		return rondo_gather(comm, in, out, count, type, root, stream);
	case RD_SCATTER:
		return rondo_scatter(comm, in, out, count, type, root, stream);
	case RD_ALL_TO_ALL:
		return rondo_all_to_all(comm, in, out, count, type, stream);
	default:
		return rondo_barrier(comm, stream);
	}
}
