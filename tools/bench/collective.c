#include "collective.h"

#include "base/nearest.h"
#include "values.h"

static struct bench_values values_of(const struct bench_call *call)
{
	return (struct bench_values){ call->type, call->collective->reduces ? call->op : RONDO_MAX,
		call->size, call->seed };
}

static unsigned char *block(void *buffer, const struct bench_call *call, int k)
{
	return (unsigned char *)buffer + (size_t)k * call->count * rondo_type_size(call->type);
}

size_t bench_collective_wrong(const struct bench_call *call)
{
	const struct bench_collective *collective = call->collective;
	bool gathers = collective->shape == BENCH_GATHER;
	bool exchanges = collective->shape == BENCH_EXCHANGE;
	bool scatters = collective->shape == BENCH_SCATTER;
	struct bench_values values = values_of(call);
	size_t first = scatters || exchanges ? (size_t)call->rank * call->count : 0, wrong = 0;
	int source;

	if (collective->shape == BENCH_EMPTY)
		return 0;
	if (collective->rooted && (collective->reduces || gathers) && call->rank != call->root)
		return 0; /* the root alone receives */
	if (gathers || exchanges) {
		for (int k = 0; k < call->size; k++)
			wrong += bench_values_wrong(
				&values, block(call->recv, call, k), call->count, k, first);
		return wrong;
	}
	if (collective->reduces)
		source = BENCH_REDUCED;
	else if (collective->rooted)
		source = call->root;
	else
		source = (call->rank + call->size - 1) % call->size;
	return bench_values_wrong(&values, call->recv, call->count, source, first);
}

double bench_collective_factor(const struct bench_collective *collective, int size)
{
	return collective->passes ? collective->passes * (size - 1.0) / size : 1;
}

static int run_all_reduce(const struct bench_call *c)
{
	return rondo_all_reduce(c->comm, c->send, c->recv, c->count, c->type, c->op, c->stream);
}

static int run_reduce(const struct bench_call *c)
{
	return rondo_reduce(
		c->comm, c->send, c->recv, c->count, c->type, c->op, c->root, c->stream);
}

static int run_broadcast(const struct bench_call *c)
{
	return rondo_broadcast(c->comm, c->send, c->recv, c->count, c->type, c->root, c->stream);
}

static int run_reduce_scatter(const struct bench_call *c)
{
	return rondo_reduce_scatter(c->comm, c->send, c->recv, c->count, c->type, c->op, c->stream);
}

static int run_all_gather(const struct bench_call *c)
{
	return rondo_all_gather(c->comm, c->send, c->recv, c->count, c->type, c->stream);
}

static int run_all_to_all(const struct bench_call *c)
{
	return rondo_all_to_all(c->comm, c->send, c->recv, c->count, c->type, c->stream);
}

static int run_gather(const struct bench_call *c)
{
	return rondo_gather(c->comm, c->send, c->recv, c->count, c->type, c->root, c->stream);
}

static int run_scatter(const struct bench_call *c)
{
	return rondo_scatter(c->comm, c->send, c->recv, c->count, c->type, c->root, c->stream);
}

/* Each rank sends to the next and receives from the one before. */
static int run_send_recv(const struct bench_call *c)
{
	int next = (c->rank + 1) % c->size, previous = (c->rank + c->size - 1) % c->size;
	int err = rondo_group_start();

	if (err)
		return err;
	/* rondo_group_end() returns the error of a refused call again. */
	rondo_send(c->comm, c->send, c->count, c->type, next, c->stream);
	rondo_recv(c->comm, c->recv, c->count, c->type, previous, c->stream);
	return rondo_group_end();
}

static int run_barrier(const struct bench_call *c)
{
	return rondo_barrier(c->comm, c->stream);
}

/* name, shape, reduces, rooted, in place, passes, run */
static const struct bench_collective collectives[] = {
	{ "all_reduce", BENCH_WHOLE, true, false, true, 2, run_all_reduce },
	{ "reduce_scatter", BENCH_SCATTER, true, false, true, 1, run_reduce_scatter },
	{ "all_gather", BENCH_GATHER, false, false, true, 1, run_all_gather },
	{ "broadcast", BENCH_WHOLE, false, true, true, 0, run_broadcast },
	{ "reduce", BENCH_WHOLE, true, true, true, 0, run_reduce },
	{ "alltoall", BENCH_EXCHANGE, false, false, true, 1, run_all_to_all },
	{ "gather", BENCH_GATHER, false, true, true, 1, run_gather },
	{ "scatter", BENCH_SCATTER, false, true, true, 1, run_scatter },
	{ "sendrecv", BENCH_WHOLE, false, false, false, 0, run_send_recv },
	{ "barrier", BENCH_EMPTY, false, false, false, 0, run_barrier },
};

const struct bench_collective *bench_collective_at(int i)
{
	return i >= 0 && i < (int)(sizeof(collectives) / sizeof(*collectives)) ? &collectives[i]
									       : NULL;
}

const struct bench_collective *bench_collective_find(const char *name)
{
	const struct bench_collective *collective;

	for (int i = 0; (collective = bench_collective_at(i)); i++) {
		if (rd_same_name(collective->name, name))
			return collective;
	}
	return NULL;
}

size_t bench_collective_count(
	const struct bench_collective *collective, size_t size, rondo_type type, int ranks)
{
	size_t elements = size / rondo_type_size(type);

	if (collective->shape == BENCH_EMPTY)
		return 0;
	return collective->shape == BENCH_WHOLE ? elements : elements / (size_t)ranks;
}

size_t bench_collective_send_count(
	const struct bench_collective *collective, size_t count, int ranks)
{
	bool blocks = collective->shape == BENCH_SCATTER || collective->shape == BENCH_EXCHANGE;
	return blocks ? count * (size_t)ranks : count;
}

size_t bench_collective_recv_count(
	const struct bench_collective *collective, size_t count, int ranks)
{
	bool blocks = collective->shape == BENCH_GATHER || collective->shape == BENCH_EXCHANGE;
	return blocks ? count * (size_t)ranks : count;
}

struct bench_touched bench_collective_touched(const struct bench_call *call)
{
	const struct bench_collective *collective = call->collective;
	bool to_root = collective->reduces || collective->shape == BENCH_GATHER;
	bool other = collective->rooted && call->rank != call->root;
	size_t width = rondo_type_size(call->type);
	size_t sent = bench_collective_send_count(collective, call->count, call->size);
	size_t received = bench_collective_recv_count(collective, call->count, call->size);

	return (struct bench_touched){
		.input = call->send,
		.output = call->recv,
		.input_size = other && !to_root ? 0 : sent * width,
		.output_size = other && to_root ? 0 : received * width,
	};
}

void bench_collective_place(struct bench_call *call, void *buffer)
{
	call->send = call->recv = buffer;
	if (call->collective->shape == BENCH_GATHER)
		call->send = block(buffer, call, call->rank);
	else if (call->collective->shape == BENCH_SCATTER)
		call->recv = block(buffer, call, call->rank);
}

void bench_collective_fill(const struct bench_call *call)
{
	struct bench_values values = values_of(call);
	size_t count = bench_collective_send_count(call->collective, call->count, call->size);

	bench_values_fill(&values, call->send, count, call->rank, 0);
}
