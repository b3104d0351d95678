/*
 * The collectives that can be measured, in one table: how a size splits into counts, how to run it,
 * what must come out, and the factor from algorithm to bus bandwidth.
 *
 * Sizes are those of nccl-tests: the larger of what a rank sends and what it receives. The factors
 * are the ones of its PERFORMANCE.md: the bytes that a link carries, over the size.
 */
#ifndef BENCH_COLLECTIVE_H
#define BENCH_COLLECTIVE_H

#include <stdbool.h>

#include "rondo.h"

/* Which of its two buffers holds a block for every rank. */
enum bench_shape {
	BENCH_WHOLE, /* neither: send[count] and recv[count] */
	BENCH_GATHER, /* recv */
	BENCH_SCATTER, /* send */
	BENCH_EXCHANGE, /* both */
	BENCH_EMPTY, /* no data at all */
};

/* One call: everything that one rank hands to the library. */
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
	unsigned seed; /* of the numbers that it sends */
	const struct bench_mirror *mirror; /* NULL: the buffers are what is measured */
};

struct bench_collective {
	const char *name; /* as on the command line */
	enum bench_shape shape;
	bool reduces; /* takes an operation */
	bool rooted; /* takes a root */
	bool in_place; /* can run in place */
	int (*run)(const struct bench_call *call);
	size_t (*wrong)(const struct bench_call
			*call); /* elements on this rank that are not as they must be */
	double (*factor)(int size);
};

/* By its name, in whichever spelling (all_to_all, alltoall); NULL: there is none. */
const struct bench_collective *bench_collective_find(const char *name);
/* The i-th; NULL past the last. */
const struct bench_collective *bench_collective_at(int i);

/* The count that a size in bytes makes: its elements, or where there are blocks, those of one
 * block. */
size_t bench_collective_count(
	const struct bench_collective *collective, size_t size, rondo_type type, int ranks);
/* Elements in the send and receive buffers of a call with this count. */
size_t bench_collective_send_count(
	const struct bench_collective *collective, size_t count, int ranks);
size_t bench_collective_recv_count(
	const struct bench_collective *collective, size_t count, int ranks);

/* Points call->send and call->recv into one buffer, as this collective runs in place. */
void bench_collective_place(struct bench_call *call, void *buffer);

/* Writes what this rank sends. */
void bench_collective_fill(const struct bench_call *call);

#endif
