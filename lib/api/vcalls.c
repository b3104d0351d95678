/* The collectives of the public header whose blocks differ in length. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "base/error.h"
#include "api/group.h"
#include "api/op.h"
#include "api/calls.h"

/* The user's counts and displacements of one buffer, in elements. */
struct lengths {
	const size_t *counts;
	const size_t *displs; /* NULL: one after the other */
};

#define SIZE_MOST ((size_t)PTRDIFF_MAX)

/* Into extents; false: more bytes than there can be. */
static bool lay(struct rd_extent *extents, int blocks, struct lengths lengths, size_t element)
{
	size_t most = SIZE_MOST / element, next = 0;

	for (int i = 0; i < blocks; i++) {
		size_t begin = lengths.displs ? lengths.displs[i] : next;

		if (lengths.counts[i] > most || begin > most - lengths.counts[i])
			return false;
		next = begin + lengths.counts[i];
		extents[i].offset = begin * element;
		extents[i].size = lengths.counts[i] * element;
	}
	return true;
}

/* FNV-1a. Collisions harm nothing: no block is taken whose own length differs. */
static uint32_t digest(const size_t *counts, int size)
{
	uint32_t hash = 2166136261u;

	for (int i = 0; i < size; i++)
		for (int shift = 0; shift < 64; shift += 8)
			hash = (hash ^ ((uint64_t)counts[i] >> shift & 0xff)) * 16777619u;
	return hash;
}

/* The mean length of a block, rounded up; the same on every rank. */
static size_t mean(const size_t *counts, int size)
{
	size_t mean = 0;

	for (int i = 0; i < size; i++)
		mean += counts[i] / size + (counts[i] % size != 0);
	return mean;
}

static int refuse(int err)
{
	return rd_group_open() ? rd_group_refuse(err) : err;
}

static int check_comm(const struct rd_arguments *request)
{
	const char *name = rd_collective_name(request->collective);

	if (!request->comm)
		return rd_fail(RONDO_INVALID, "%s_v: comm is NULL", name);
	if (rd_type_check(request->type, name, "_v"))
		return RONDO_INVALID;
	if (request->root < 0 || request->root >= request->comm->size)
		return rd_fail(RONDO_INVALID, "%s_v: rank %d is not in 0..%d", name, request->root,
			request->comm->size - 1);
	return 0;
}

/* Gives the request the lengths of this rank's blocks of in and out. */
static int set_vcounts(struct rd_arguments *request, struct lengths in, struct lengths out)
{
	const struct rd_problem problem = { .collective = request->collective,
		.rank = request->comm->rank,
		.size = request->comm->size,
		.root = request->root };
	const char *name = rd_collective_name(request->collective);
	int in_blocks = rd_in_blocks(&problem), out_blocks = rd_out_blocks(&problem);
	size_t element = rondo_type_size(request->type);

	if ((in_blocks > 0 && !in.counts) || (out_blocks > 0 && !out.counts))
		return rd_fail(RONDO_INVALID, "%s_v: counts is NULL", name);

	struct rd_vcounts *vcounts = rd_vcounts_create(in_blocks, out_blocks);

	if (!vcounts)
		return rd_fail(RONDO_MEMORY, "no memory for %s_v", name);
	if (!lay(vcounts->in, in_blocks, in, element) ||
		!lay(vcounts->out, out_blocks, out, element)) {
		rd_vcounts_destroy(vcounts);
		return rd_fail(RONDO_INVALID, "%s_v: the counts are too large", name);
	}
	request->vcounts = vcounts;
	return 0;
}

/* Submits a call of which all ranks have all lengths. */
static int submit_with_all_counts(
	struct rd_arguments *request, const size_t *counts, struct lengths in, struct lengths out)
{
	int err = check_comm(request);

	if (!err && !counts)
		err = rd_fail(RONDO_INVALID, "%s_v: counts is NULL",
			rd_collective_name(request->collective));
	if (!err)
		err = set_vcounts(request, in, out);
	if (err)
		return refuse(err);
	request->vcounts->digest = digest(counts, request->comm->size);
	request->count = mean(counts, request->comm->size);
	return rd_submit(request);
}

/* Submits a call of which two ranks have a block's length: the one that has it, and the one that
   wants it. */
static int submit_pairwise(struct rd_arguments *request, struct lengths in, struct lengths out)
{
	int err = check_comm(request);

	if (!err)
		err = set_vcounts(request, in, out);
	if (err)
		return refuse(err);
	request->vcounts->pairwise = true;
	return rd_submit(request);
}

static struct rd_arguments request_of(rondo_comm *comm, enum rd_collective collective,
	const void *send, void *recv, rondo_type type, rondo_stream *stream, uintptr_t called_at)
{
	return (struct rd_arguments){ .comm = comm,
		.collective = collective,
		.send = send,
		.recv = recv,
		.type = type,
		.stream = stream,
		.called_at = called_at };
}

static int all_gather_v(rondo_comm *comm, const void *send, void *recv, const size_t counts[],
	const size_t displs[], rondo_type type, rondo_stream *stream, uintptr_t called_at)
{
	struct rd_arguments request =
		request_of(comm, RD_ALL_GATHER, send, recv, type, stream, called_at);
	struct lengths mine = { counts && comm ? &counts[comm->rank] : NULL, NULL };

	return submit_with_all_counts(&request, counts, mine, (struct lengths){ counts, displs });
}

int rondo_all_gather_v(rondo_comm *comm, const void *send, void *recv, const size_t counts[],
	const size_t displs[], rondo_type type, rondo_stream *stream)
{
	return all_gather_v(comm, send, recv, counts, displs, type, stream, RD_CALLED_AT);
}

int rondo_reduce_scatter_v(rondo_comm *comm, const void *send, void *recv, const size_t counts[],
	rondo_type type, rondo_op op, rondo_stream *stream)
{
	struct rd_arguments request =
		request_of(comm, RD_REDUCE_SCATTER, send, recv, type, stream, RD_CALLED_AT);
	struct lengths mine = { counts && comm ? &counts[comm->rank] : NULL, NULL };

	request.op = op;
	return submit_with_all_counts(&request, counts, (struct lengths){ counts, NULL }, mine);
}

int rondo_all_to_all_v(rondo_comm *comm, const void *send, const size_t send_counts[],
	const size_t send_displs[], void *recv, const size_t recv_counts[],
	const size_t recv_displs[], rondo_type type, rondo_stream *stream)
{
	struct rd_arguments request =
		request_of(comm, RD_ALL_TO_ALL, send, recv, type, stream, RD_CALLED_AT);

	return submit_pairwise(&request, (struct lengths){ send_counts, send_displs },
		(struct lengths){ recv_counts, recv_displs });
}

static int gather_v(rondo_comm *comm, const void *send, size_t count, void *recv,
	const size_t counts[], const size_t displs[], rondo_type type, int root,
	rondo_stream *stream, uintptr_t called_at)
{
	struct rd_arguments request =
		request_of(comm, RD_GATHER, send, recv, type, stream, called_at);

	request.root = root;
	return submit_pairwise(
		&request, (struct lengths){ &count, NULL }, (struct lengths){ counts, displs });
}

int rondo_gather_v(rondo_comm *comm, const void *send, size_t count, void *recv,
	const size_t counts[], const size_t displs[], rondo_type type, int root,
	rondo_stream *stream)
{
	return gather_v(comm, send, count, recv, counts, displs, type, root, stream, RD_CALLED_AT);
}

int rondo_scatter_v(rondo_comm *comm, const void *send, const size_t counts[],
	const size_t displs[], void *recv, size_t count, rondo_type type, int root,
	rondo_stream *stream)
{
	struct rd_arguments request =
		request_of(comm, RD_SCATTER, send, recv, type, stream, RD_CALLED_AT);

	request.root = root;
	return submit_pairwise(
		&request, (struct lengths){ counts, displs }, (struct lengths){ &count, NULL });
}

/* ---- Bytes of lengths that the receivers do not have ---------------------------------------- */

static int check_bytes(const char *name, const rondo_comm *comm, const void *send, size_t size)
{
	if (!comm)
		return rd_fail(RONDO_INVALID, "%s: comm is NULL", name);
	if (rd_group_open())
		return rd_group_refuse(rd_fail(
			RONDO_INVALID, "%s: it takes two steps, and fits in no group", name));
	if (size > 0 && !send)
		return rd_fail(RONDO_INVALID, "%s: send is NULL", name);
	return 0;
}

static int check_gather_bytes(
	const rondo_comm *comm, const void *send, size_t size, void **recv, size_t *sizes, int root)
{
	int err = check_bytes("gather_bytes", comm, send, size);

	if (err)
		return err;
	if (root < 0 || root >= comm->size)
		return rd_fail(RONDO_INVALID, "gather_bytes: rank %d is not in 0..%d", root,
			comm->size - 1);
	if (comm->rank == root && (!recv || !sizes))
		return rd_fail(RONDO_INVALID, "gather_bytes: %s is NULL on the root",
			recv ? "sizes" : "recv");
	return 0;
}

/*
 * *room = memory for all bytes, and one more that ends a text. The other ranks begin the second
 * step, and would wait for a rank without memory. So that rank aborts the comm.
 */
static int make_room(const char *name, rondo_comm *comm, const size_t *sizes, void **room)
{
	size_t total = 0;
	char *bytes = NULL;
	int block = 0;

	while (block < comm->size && sizes[block] < SIZE_MOST - total)
		total += sizes[block++];
	if (block == comm->size)
		bytes = malloc(total + 1);
	if (!bytes) {
		rondo_comm_revoke(comm, "no memory for the bytes that it gathers");
		return rd_fail(RONDO_MEMORY, "%s: no memory for the bytes of all ranks", name);
	}
	bytes[total] = '\0';
	*room = bytes;
	return 0;
}

/* The first step: each rank's size, to the root or to all. */
static int gather_sizes(rondo_comm *comm, enum rd_collective collective, const size_t *size,
	size_t *sizes, int root, uintptr_t called_at)
{
	struct rd_arguments request =
		request_of(comm, collective, size, sizes, RONDO_U64, NULL, called_at);

	_Static_assert(sizeof(size_t) == sizeof(uint64_t), "a size travels as u64");
	request.count = 1;
	request.root = root;
	return rd_submit(&request);
}

int rondo_gather_bytes(
	rondo_comm *comm, const void *send, size_t size, void **recv, size_t sizes[], int root)
{
	int err = check_gather_bytes(comm, send, size, recv, sizes, root);
	bool is_root = !err && comm->rank == root;
	void *room = NULL;

	if (recv)
		*recv = NULL;
	if (!err)
		err = gather_sizes(comm, RD_GATHER, &size, sizes, root, RD_CALLED_AT);
	if (!err && is_root)
		err = make_room("gather_bytes", comm, sizes, &room);
	if (!err)
		err = gather_v(
			comm, send, size, room, sizes, NULL, RONDO_U8, root, NULL, RD_CALLED_AT);
	if (err)
		free(room);
	else if (is_root)
		*recv = room;
	return err;
}

int rondo_all_gather_bytes(
	rondo_comm *comm, const void *send, size_t size, void **recv, size_t sizes[])
{
	int err = check_bytes("all_gather_bytes", comm, send, size);
	void *room = NULL;

	if (recv)
		*recv = NULL;
	if (!err && (!recv || !sizes))
		err = rd_fail(
			RONDO_INVALID, "all_gather_bytes: %s is NULL", recv ? "sizes" : "recv");
	if (!err)
		err = gather_sizes(comm, RD_ALL_GATHER, &size, sizes, 0, RD_CALLED_AT);
	if (!err)
		err = make_room("all_gather_bytes", comm, sizes, &room);
	if (!err)
		err = all_gather_v(comm, send, room, sizes, NULL, RONDO_U8, NULL, RD_CALLED_AT);
	if (err)
		free(room);
	else
		*recv = room;
	return err;
}
