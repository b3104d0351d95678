/* The collectives of the public header: each is checked, then run now, queued, or added to a group.
 */
#include <stdint.h>

#include "error.h"
#include "group.h"
#include "run.h"
#include "stream.h"

/* What the user asked for. */
struct request {
	struct rondo_comm *comm;
	enum rd_collective collective;
	const void *send;
	void *recv;
	size_t count;
	rondo_type type;
	rondo_op op;
	int root, target;
	struct rondo_stream *stream;
};

static int check_pointer(
	const struct request *request, const char *name, const void *buffer, int blocks)
{
	if (buffer || blocks == 0 || request->count == 0)
		return 0;
	return rd_fail(
		RONDO_INVALID, "%s: %s is NULL", rd_collective_name(request->collective), name);
}

/* Input and output may be one, or one block of the other (alias), or lie apart. */
static int check_overlap(
	const struct request *request, const struct rd_problem *problem, size_t block_size)
{
	const char *in = request->send, *out = request->recv;
	size_t in_size = rd_in_blocks(problem) * block_size;
	size_t out_size = rd_out_blocks(problem) * block_size;

	if (in_size == 0 || out_size == 0 || in + in_size <= out || out + out_size <= in)
		return 0;

	/* Where the input begins, counted from the output's start, when the call is in place. */
	size_t ahead = in_size < out_size ? problem->rank * block_size : 0;
	size_t behind = in_size > out_size ? problem->rank * block_size : 0;

	if (in + behind == out + ahead)
		return 0;
	return rd_fail(RONDO_INVALID, "%s: send and recv overlap, and not as an operation in place",
		rd_collective_name(request->collective));
}

static int check_numbers(const struct request *request)
{
	const char *name = rd_collective_name(request->collective);
	int size = request->comm->size;

	if ((unsigned)request->type >= RONDO_TYPE_COUNT)
		return rd_fail(RONDO_INVALID, "%s: %d is no type", name, (int)request->type);
	if ((unsigned)request->op >= RONDO_OP_COUNT)
		return rd_fail(RONDO_INVALID, "%s: %d is no operation", name, (int)request->op);
	if (request->op > RONDO_AVG && request->type >= RONDO_F16)
		return rd_fail(RONDO_INVALID, "%s: %s is for integers, not for %s", name,
			rondo_op_name(request->op), rondo_type_name(request->type));
	if (request->root < 0 || request->root >= size || request->target < 0 ||
		request->target >= size)
		return rd_fail(RONDO_INVALID, "%s: rank %d is not in 0..%d", name,
			request->root < 0 || request->root >= size ? request->root
								   : request->target,
			size - 1);
	if (request->count > PTRDIFF_MAX / sizeof(double) / size)
		return rd_fail(RONDO_INVALID, "%s: count %zu is too large", name, request->count);
	return 0;
}

static int check(const struct request *request)
{
	if (!request->comm)
		return rd_fail(
			RONDO_INVALID, "%s: comm is NULL", rd_collective_name(request->collective));

	int err = check_numbers(request);

	if (err)
		return err;

	struct rd_problem problem = {
		.collective = request->collective,
		.rank = request->comm->rank,
		.size = request->comm->size,
		.root = request->root,
		.target = request->target,
	};

	/* The two halves of a transfer to itself are checked where they are joined. */
	if (request->collective == RD_TRANSFER) {
		const void *buffer = request->send ? request->send : request->recv;

		return check_pointer(request, "the buffer", buffer, 1);
	}
	err = check_pointer(request, "send", request->send, rd_in_blocks(&problem));
	if (!err)
		err = check_pointer(request, "recv", request->recv, rd_out_blocks(&problem));
	if (!err)
		err = check_overlap(
			request, &problem, request->count * rondo_type_size(request->type));
	return err;
}

static int submit(const struct request *request)
{
	struct rd_task task;
	int err = check(request);

	if (err)
		return rd_group_open() ? rd_group_refuse(err) : err;
	task.comm = request->comm;
	task.call = (struct rd_call){
		.problem = { .collective = request->collective,
			.rank = request->comm->rank,
			.size = request->comm->size,
			.root = request->root,
			.target = request->target,
			.layout = request->comm->layouts[0] },
		.type = request->type,
		.op = request->op,
		.count = request->count,
		.in = request->send,
		.out = request->recv,
	};
	task.queued = task.started = task.done = false;
	if (rd_group_open())
		return rd_group_add(&task, request->stream);
	if (request->collective == RD_TRANSFER && request->root == request->target)
		return rd_fail(RONDO_INVALID,
			"rank %d sends to itself: put the send and the receive in one group",
			request->comm->rank);
	if (request->stream)
		return rd_stream_run(request->stream, &task, 1);
	rd_run_issue(&task, 1);
	return rd_run(&task, 1);
}

/* What all but transfers are made of; op and root are ignored, and 0, where there is none. */
static int submit_collective(enum rd_collective collective, rondo_comm *comm, const void *send,
	void *recv, size_t count, rondo_type type, rondo_op op, int root, rondo_stream *stream)
{
	struct request request = { comm, collective, send, recv, count, type, op, root, 0, stream };

	return submit(&request);
}

int rondo_all_reduce(rondo_comm *comm, const void *send, void *recv, size_t count, rondo_type type,
	rondo_op op, rondo_stream *stream)
{
	return submit_collective(RD_ALL_REDUCE, comm, send, recv, count, type, op, 0, stream);
}

int rondo_reduce(rondo_comm *comm, const void *send, void *recv, size_t count, rondo_type type,
	rondo_op op, int root, rondo_stream *stream)
{
	return submit_collective(RD_REDUCE, comm, send, recv, count, type, op, root, stream);
}

int rondo_broadcast(rondo_comm *comm, const void *send, void *recv, size_t count, rondo_type type,
	int root, rondo_stream *stream)
{
	return submit_collective(RD_BROADCAST, comm, send, recv, count, type, 0, root, stream);
}

int rondo_reduce_scatter(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_op op, rondo_stream *stream)
{
	return submit_collective(RD_REDUCE_SCATTER, comm, send, recv, count, type, op, 0, stream);
}

int rondo_all_gather(rondo_comm *comm, const void *send, void *recv, size_t count, rondo_type type,
	rondo_stream *stream)
{
	return submit_collective(RD_ALL_GATHER, comm, send, recv, count, type, 0, 0, stream);
}

int rondo_all_to_all(rondo_comm *comm, const void *send, void *recv, size_t count, rondo_type type,
	rondo_stream *stream)
{
	return submit_collective(RD_ALL_TO_ALL, comm, send, recv, count, type, 0, 0, stream);
}

int rondo_gather(rondo_comm *comm, const void *send, void *recv, size_t count, rondo_type type,
	int root, rondo_stream *stream)
{
	return submit_collective(RD_GATHER, comm, send, recv, count, type, 0, root, stream);
}

int rondo_scatter(rondo_comm *comm, const void *send, void *recv, size_t count, rondo_type type,
	int root, rondo_stream *stream)
{
	return submit_collective(RD_SCATTER, comm, send, recv, count, type, 0, root, stream);
}

int rondo_barrier(rondo_comm *comm, rondo_stream *stream)
{
	return submit_collective(RD_BARRIER, comm, NULL, NULL, 0, 0, 0, 0, stream);
}

/* Which of its buffers a transfer has tells its two sides apart, also when nothing is moved. */
static char nothing;

int rondo_send(rondo_comm *comm, const void *send, size_t count, rondo_type type, int peer,
	rondo_stream *stream)
{
	return submit(&(struct request){ .comm = comm,
		.collective = RD_TRANSFER,
		.send = send || count ? send : &nothing,
		.count = count,
		.type = type,
		.root = comm ? comm->rank : 0,
		.target = peer,
		.stream = stream });
}

int rondo_recv(
	rondo_comm *comm, void *recv, size_t count, rondo_type type, int peer, rondo_stream *stream)
{
	return submit(&(struct request){ .comm = comm,
		.collective = RD_TRANSFER,
		.recv = recv || count ? recv : &nothing,
		.count = count,
		.type = type,
		.root = peer,
		.target = comm ? comm->rank : 0,
		.stream = stream });
}
