/* The collectives of the public header: each is checked, then run now, queued, or added to a group.
 */
#include <stdint.h>

#include "gpu/submit.h"
#include "base/hot_call.h"
#include "base/call_site.h"
#include "base/error.h"
#include "api/group.h"
#include "api/op.h"
#include "api/arguments.h"
#include "comm/buffer_exchange.h"
#include "comm/plan_cache.h"
#include "comm/run.h"
#include "api/stream.h"

/* The name of the function that the caller called. */
static const char *name_of(const struct rd_arguments *arguments)
{
	if (arguments->collective != RD_TRANSFER)
		return rd_collective_name(arguments->collective);
	return arguments->sends ? "send" : "recv";
}

static int check_pointer(
	const struct rd_arguments *arguments, const char *name, const void *buffer, int blocks)
{
	if (buffer || blocks == 0 || arguments->count == 0)
		return 0;
	return rd_fail(RONDO_INVALID, "%s: %s is NULL", name_of(arguments), name);
}

/* Input and output may be one, or one block of the other (alias), or lie apart. */
static int check_overlap(const struct rd_arguments *arguments, int rank, size_t in_size,
	size_t out_size, size_t block_size)
{
	const char *in = arguments->send, *out = arguments->recv;

	if (in_size == 0 || out_size == 0 || in + in_size <= out || out + out_size <= in)
		return 0;

	/* Where the input begins, from the output's start, when the call is in place. */
	size_t ahead = in_size < out_size ? rank * block_size : 0;
	size_t behind = in_size > out_size ? rank * block_size : 0;

	if (in + behind == out + ahead)
		return 0;
	return rd_fail(RONDO_INVALID, "%s: send and recv overlap, and not as an operation in place",
		rd_collective_name(arguments->collective));
}

static int check_type(const struct rd_arguments *arguments, const char *name)
{
	if (rd_type_check(arguments->type, name, ""))
		return RONDO_INVALID;
	if (rondo_op_applies(arguments->op, arguments->type))
		return 0;
	return rd_fail(RONDO_INVALID, "%s: %s is %snot for %s", name, rondo_op_name(arguments->op),
		arguments->op > RONDO_AVG ? "for integers, " : "",
		rondo_type_name(arguments->type));
}

static int check_numbers(const struct rd_arguments *arguments)
{
	const char *name = name_of(arguments);
	int size = arguments->comm->size;
	ptrdiff_t most;

	/* All types before bool take the operations up to avg. */
	if (((unsigned)arguments->type >= RONDO_BOOL || arguments->op > RONDO_AVG) &&
		check_type(arguments, name))
		return RONDO_INVALID;
	if (arguments->root < 0 || arguments->root >= size || arguments->target < 0 ||
		arguments->target >= size)
		return rd_fail(RONDO_INVALID, "%s: rank %d is not in 0..%d", name,
			arguments->root < 0 || arguments->root >= size ? arguments->root
								       : arguments->target,
			size - 1);
	/* By a product: a quotient would take a tenth of a short call. */
	if (__builtin_mul_overflow(arguments->count, (ptrdiff_t)(sizeof(double[2]) * size), &most))
		return rd_fail(RONDO_INVALID, "%s: count %zu is too large", name, arguments->count);
	return 0;
}

static int check(const struct rd_arguments *arguments)
{
	if (!arguments->comm)
		return rd_fail(RONDO_INVALID, "%s: comm is NULL", name_of(arguments));

	if (rd_is_inherited(arguments->comm->forks))
		return rd_refuse_inherited(
			rd_collective_name(arguments->collective), "communicator");

	int err = check_numbers(arguments);

	if (err)
		return err;

	struct rd_problem problem = {
		.collective = arguments->collective,
		.rank = arguments->comm->rank,
		.size = arguments->comm->size,
		.root = arguments->root,
		.target = arguments->target,
	};

	/* The two halves of a transfer to itself are checked where they are joined. */
	if (arguments->collective == RD_TRANSFER) {
		const void *buffer = arguments->send ? arguments->send : arguments->recv;

		return check_pointer(arguments, "the buffer", buffer, 1);
	}
	if (arguments->vcounts)
		return rd_extents_check(arguments, &problem);

	size_t block_size = arguments->count * rondo_type_size(arguments->type);
	int ins = rd_in_blocks(&problem), outs = rd_out_blocks(&problem);

	err = check_pointer(arguments, "send", arguments->send, ins);
	if (!err)
		err = check_pointer(arguments, "recv", arguments->recv, outs);
	if (!err)
		err = check_overlap(
			arguments, problem.rank, ins * block_size, outs * block_size, block_size);
	return err;
}

/* A refused call has sent nothing, so the comm stays usable. */
static int refuse(const struct rd_arguments *arguments, int err)
{
	rd_vcounts_destroy(arguments->vcounts);
	rd_user_op_destroy(arguments->user_op);
	return rd_group_open() ? rd_group_refuse(err) : err;
}

static int check_user_op(const struct rd_arguments *arguments, const struct rd_user_op *op)
{
	const struct rondo_comm *comm = arguments->comm;
	size_t size = arguments->count * rondo_type_size(arguments->type);
	int err = 0;

	if (!arguments->vcounts)
		return rd_op_check(op, arguments->type, size, comm->piece_size);
	for (int i = 0; i < comm->size && !err; i++)
		err = rd_op_check(
			op, arguments->type, arguments->vcounts->in[i].size, comm->piece_size);
	return err;
}

static int submit_new(const struct rd_arguments *arguments);

/* The same call by a user operation, which the call copies. */
static int submit_user_op(const struct rd_arguments *arguments)
{
	const char *name = rd_collective_name(arguments->collective);
	struct rd_arguments own = *arguments;
	const struct rd_user_op *op = own.comm ? rd_op_find(own.comm, own.op) : NULL;

	if (!own.comm)
		return refuse(arguments, rd_fail(RONDO_INVALID, "%s: comm is NULL", name));
	if (!op)
		return refuse(
			arguments, rd_fail(RONDO_INVALID,
					   "%s: %d is no operation: give one of enum rondo_op, 0 "
					   "(%s) to %d (%s), or one that was made on this comm",
					   name, (int)own.op, rondo_op_name(0), RONDO_OP_COUNT - 1,
					   rondo_op_name(RONDO_OP_COUNT - 1)));

	int err = rd_type_check(own.type, name, "");

	if (!err)
		err = check_user_op(arguments, op);
	if (err)
		return refuse(arguments, err);
	own.user_op = rd_user_op_copy(op);
	if (!own.user_op)
		return refuse(arguments, rd_fail(RONDO_MEMORY, "no memory for %s", name));
	own.op = RONDO_SUM;
	return submit_new(&own);
}

/* A call whose comm has been checked. */
static void init_task(struct rd_task *task, const struct rd_arguments *arguments)
{
	task->comm = arguments->comm;
	task->called_at = rd_call_site_here(arguments->called_at);
	task->call = (struct rd_call){
		.problem = { .collective = arguments->collective,
			.rank = arguments->comm->rank,
			.size = arguments->comm->size,
			.root = arguments->root,
			.target = arguments->target,
			.layout = arguments->comm->layouts[0] },
		.type = arguments->type,
		.op = arguments->op,
		.count = arguments->count,
		.in = arguments->send,
		.out = arguments->recv,
		.vcounts = arguments->vcounts,
		.user_op = arguments->user_op,
	};
	task->queued = task->checked = task->only_checks = task->started = false;
	task->feed = NULL;
	task->opens = NULL;
	task->widened = NULL;
	task->exec = NULL;
}

/* Runs a call now, on no stream. */
static int run_task(struct rd_task *task)
{
	int err;

	rd_tasks_issue(task, 1);
	err = rd_run(task, 1);
	if (!rd_call_is_ordinary(&task->call))
		rd_tasks_finish(task, 1);
	return err;
}

/* A refused call touches no comm. Once a group, a stream or the comm has it, its failure is the
   comm's. */
static __attribute__((noinline)) int submit_new(const struct rd_arguments *arguments)
{
	struct rd_task task;
	bool on_device, in_group;
	int err;

	if ((unsigned)arguments->op >= RONDO_OP_COUNT)
		return submit_user_op(arguments);
	err = check(arguments);
	if (err)
		return refuse(arguments, err);

	in_group = rd_group_open();
	if ((arguments->stream || in_group) && arguments->comm->finalized)
		return refuse(arguments, rd_comm_failure(arguments->comm));

	const struct rd_call_stream stream = {
		.device_stream = rd_stream_device_stream(arguments->stream),
		.is_host = arguments->stream && !rd_stream_device_stream(arguments->stream),
		.in_group = in_group,
	};

	init_task(&task, arguments);
	err = rd_gpu_takes(task.comm, &task.call, &stream, &on_device);
	if (err)
		return refuse(arguments, err);
	if (in_group)
		return rd_group_add(&task, arguments->stream);
	if (arguments->collective == RD_TRANSFER && arguments->root == arguments->target)
		return rd_fail(RONDO_INVALID,
			"rank %d sends to itself: put the send and the receive in one group",
			arguments->comm->rank);
	if (!rd_comm_enter(task.comm))
		return refuse(arguments, rd_comm_refuse_second(task.comm,
						 rd_collective_name(arguments->collective)));
	if (arguments->stream)
		err = rd_stream_run(arguments->stream, &task, 1);
	else if (on_device)
		err = rd_gpu_run(&task);
	else
		err = run_task(&task);
	rd_comm_exit(task.comm);
	return err;
}

/* A buffer exchange pays for such a call: whether it may start at once, as its last one did. */
static __attribute__((noinline)) bool may_start(
	const struct rondo_comm *comm, const struct rd_prepared *last)
{
	if (last->repeats == RD_STARTS_UNTIL_EXCHANGE)
		return !rd_buffer_exchange_is_due(comm, &last->exec.call, comm->calls + 1);
	return last->repeats == RD_STARTS_BY_EXCHANGE && rd_buffer_exchange_repeats(comm, last);
}

/* Whether a call of this thread would run now, if its arguments are right and it has no open
   group. */
static inline bool runs_now(const struct rondo_comm *comm, const struct rondo_stream *stream)
{
	return comm && !stream && !rd_is_inherited(comm->forks) && rd_turn_is_free(comm);
}

/* Whether the call equals the collective's last one, buffers and all, and may start at once: its
   arguments have been checked. */
static bool repeats_last(const struct rd_arguments *arguments)
{
	const struct rd_prepared *last = arguments->comm->prepared[arguments->collective];

	if (!last || arguments->vcounts ||
		(last->repeats != RD_STARTS_AT_ONCE && !may_start(arguments->comm, last)))
		return false;

	const struct rd_call *call = &last->exec.call;

	return call->count == arguments->count && call->in == arguments->send &&
	       call->out == arguments->recv && call->type == arguments->type &&
	       call->op == arguments->op && call->problem.root == arguments->root;
}

/* Enters the comm for a call that runs now. False: another thread is in it, or a request's end has
   issued a call meanwhile. */
static inline bool enter_again(struct rondo_comm *comm)
{
	if (!rd_comm_enter(comm))
		return false;
	if (rd_turn_has_come(comm))
		return true;
	rd_comm_exit(comm);
	return false;
}

int rd_submit(const struct rd_arguments *arguments)
{
	struct rondo_comm *comm = arguments->comm;

	if (runs_now(comm, arguments->stream) && !rd_group_open() && repeats_last(arguments) &&
		enter_again(comm))
		return rd_run_again(
			comm, &comm->shorts[arguments->collective], arguments->called_at);
	return submit_new(arguments);
}

static __attribute__((noinline)) int submit_unusual(enum rd_collective collective, rondo_comm *comm,
	const void *send, void *recv, size_t count, rondo_type type, rondo_op op, int root,
	rondo_stream *stream, uintptr_t called_at)
{
	return rd_submit(&(struct rd_arguments){ .comm = comm,
		.collective = collective,
		.send = send,
		.recv = recv,
		.count = count,
		.type = type,
		.op = op,
		.root = root,
		.stream = stream,
		.called_at = called_at });
}

/* All but transfers; op and root are ignored, and 0, where the collective has none. Inline, so that
   a short call that equals the last one makes no other test than this one. */
static inline __attribute__((always_inline)) int submit_collective(enum rd_collective collective,
	rondo_comm *comm, const void *send, void *recv, size_t count, rondo_type type, rondo_op op,
	int root, rondo_stream *stream, uintptr_t called_at)
{
	if (runs_now(comm, stream) && !rd_group_some_open() && comm->shorts[collective].repeats &&
		rd_short_equals(&comm->shorts[collective], send, recv, count, type, op, root) &&
		enter_again(comm))
		return rd_run_again(comm, &comm->shorts[collective], called_at);
	return submit_unusual(
		collective, comm, send, recv, count, type, op, root, stream, called_at);
}

RD_HOT_CALL int rondo_all_reduce(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_op op, rondo_stream *stream)
{
	return submit_collective(
		RD_ALL_REDUCE, comm, send, recv, count, type, op, 0, stream, RD_CALLED_AT);
}

RD_HOT_CALL int rondo_reduce(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_op op, int root, rondo_stream *stream)
{
	return submit_collective(
		RD_REDUCE, comm, send, recv, count, type, op, root, stream, RD_CALLED_AT);
}

RD_HOT_CALL int rondo_broadcast(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, int root, rondo_stream *stream)
{
	return submit_collective(
		RD_BROADCAST, comm, send, recv, count, type, 0, root, stream, RD_CALLED_AT);
}

RD_HOT_CALL int rondo_reduce_scatter(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_op op, rondo_stream *stream)
{
	return submit_collective(
		RD_REDUCE_SCATTER, comm, send, recv, count, type, op, 0, stream, RD_CALLED_AT);
}

RD_HOT_CALL int rondo_all_gather(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_stream *stream)
{
	return submit_collective(
		RD_ALL_GATHER, comm, send, recv, count, type, 0, 0, stream, RD_CALLED_AT);
}

RD_HOT_CALL int rondo_all_to_all(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_stream *stream)
{
	return submit_collective(
		RD_ALL_TO_ALL, comm, send, recv, count, type, 0, 0, stream, RD_CALLED_AT);
}

RD_HOT_CALL int rondo_gather(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, int root, rondo_stream *stream)
{
	return submit_collective(
		RD_GATHER, comm, send, recv, count, type, 0, root, stream, RD_CALLED_AT);
}

RD_HOT_CALL int rondo_scatter(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, int root, rondo_stream *stream)
{
	return submit_collective(
		RD_SCATTER, comm, send, recv, count, type, 0, root, stream, RD_CALLED_AT);
}

RD_HOT_CALL int rondo_barrier(rondo_comm *comm, rondo_stream *stream)
{
	return submit_collective(RD_BARRIER, comm, NULL, NULL, 0, 0, 0, 0, stream, RD_CALLED_AT);
}

/* A send has no output, and a receive no input. An empty transfer without a buffer gets this. */
static char nothing;

int rondo_send(rondo_comm *comm, const void *send, size_t count, rondo_type type, int peer,
	rondo_stream *stream)
{
	return rd_submit(&(struct rd_arguments){ .comm = comm,
		.collective = RD_TRANSFER,
		.sends = true,
		.send = send || count ? send : &nothing,
		.count = count,
		.type = type,
		.root = comm ? comm->rank : 0,
		.target = peer,
		.stream = stream,
		.called_at = RD_CALLED_AT });
}

int rondo_recv(
	rondo_comm *comm, void *recv, size_t count, rondo_type type, int peer, rondo_stream *stream)
{
	return rd_submit(&(struct rd_arguments){ .comm = comm,
		.collective = RD_TRANSFER,
		.recv = recv || count ? recv : &nothing,
		.count = count,
		.type = type,
		.root = peer,
		.target = comm ? comm->rank : 0,
		.stream = stream,
		.called_at = RD_CALLED_AT });
}
