/*
 * The table of measured collectives: how a size splits into counts, the call, its check, and the
 * factor from algorithm to bus bandwidth.
 *
 * As in nccl-tests, a size is the larger of the bytes that a rank sends and receives. A factor is
 * the bytes on a link divided by the size (PERFORMANCE.md of nccl-tests).
 */
#ifndef BENCH_COLLECTIVE_H
#define BENCH_COLLECTIVE_H

#include <stdbool.h>

#include "between.h"
#include "rondo.h"

/* The buffers that hold a block for every rank. */
enum bench_shape {
	BENCH_WHOLE, /* neither: send[count] and recv[count] */
	BENCH_GATHER, /* recv */
	BENCH_SCATTER, /* send */
	BENCH_EXCHANGE, /* both */
	BENCH_EMPTY, /* no data at all */
};

/* One call, as one rank makes it. */
struct bench_call {
	const struct bench_collective *collective;
	rondo_comm *comm;
	rondo_stream *stream;
	void *send, *recv;
	size_t count; /* as the library's call takes it */
	rondo_type type;
	rondo_op op;
	int root;
	int rank, size;
	unsigned seed; /* of the numbers in send */
	const struct bench_mirror *mirror; /* NULL: send and recv themselves are measured */
	struct bench_start *start; /* NULL: calls follow each other directly */
	struct rd_graph *graph; /* NULL, or captured calls, which are launched instead of a call */
};

struct bench_collective {
	const char *name; /* as on the command line */
	enum bench_shape shape;
	bool reduces; /* takes an operation */
	bool rooted; /* takes a root */
	bool in_place; /* can run in place */
	int passes; /* of the other ranks' data over a link; 0: all data passes once */
	int (*run)(const struct bench_call *call);
};

/* By its name, in any spelling (all_to_all, alltoall); NULL: none. */
const struct bench_collective *bench_collective_find(const char *name);
/* The collective at index i; NULL past the last. */
const struct bench_collective *bench_collective_at(int i);

/* The count for a size in bytes: its elements, or those of one block. */
size_t bench_collective_count(
	const struct bench_collective *collective, size_t size, rondo_type type, int ranks);
/* Elements in the send and receive buffers of a call with this count. */
size_t bench_collective_send_count(
	const struct bench_collective *collective, size_t count, int ranks);
size_t bench_collective_recv_count(
	const struct bench_collective *collective, size_t count, int ranks);

/* The call's input and output on this rank. */
struct bench_touched bench_collective_touched(const struct bench_call *call);

/* Points call->send and call->recv into one buffer, as calls in place of this collective need. */
void bench_collective_place(struct bench_call *call, void *buffer);

/* Fills this rank's send buffer. */
void bench_collective_fill(const struct bench_call *call);
/* Wrong elements in this rank's receive buffer. */
size_t bench_collective_wrong(const struct bench_call *call);

/* The factor from algorithm to bus bandwidth on `size` ranks. */
double bench_collective_factor(const struct bench_collective *collective, int size);

#endif
