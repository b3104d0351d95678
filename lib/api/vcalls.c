/* The collectives of the public header whose blocks differ in length. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "base/error.h"
#include "api/group.h"
#include "api/op.h"
#include "api/arguments.h"

/* The user's blocks of send or recv. Counts and displacements are elements. */
struct lengths {
	const size_t *counts;
	const size_t *displs; /* NULL: one after the other */
	bool listed; /* each block lies at its own address, of these */
	const void *const *addresses;
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

/* The lowest address of a block that has elements; NULL: none has any. */
static const void *lowest(struct lengths lengths, int blocks)
{
	uintptr_t lowest = UINTPTR_MAX;
	const void *found = NULL;

	for (int i = 0; i < blocks; i++)
		if (lengths.counts[i] > 0 && (uintptr_t)lengths.addresses[i] < lowest) {
			found = lengths.addresses[i];
			lowest = (uintptr_t)found;
		}
	return found;
}

/* The same for a list: in bytes from the lowest address. The difference of two pointers would be
   undefined, for they may point to different objects. */
static bool lay_list(struct rd_extent *extents, int blocks, struct lengths lengths, size_t element)
{
	uintptr_t base = (uintptr_t)lowest(lengths, blocks);

	for (int i = 0; i < blocks; i++) {
		size_t offset = (uintptr_t)lengths.addresses[i] - base;

		if (lengths.counts[i] == 0)
			continue;
		if (offset > SIZE_MOST || lengths.counts[i] > (SIZE_MOST - offset) / element)
			return false;
		extents[i].offset = offset;
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

static const char *suffix_of(struct lengths in, struct lengths out)
{
	return rd_vcounts_suffix(in.listed || out.listed);
}

static int refuse(int err)
{
	return rd_group_open() ? rd_group_refuse(err) : err;
}

static int check_comm(const struct rd_arguments *arguments, const char *suffix)
{
	const char *name = rd_collective_name(arguments->collective);

	if (!arguments->comm)
		return rd_fail(RONDO_INVALID, "%s%s: comm is NULL", name, suffix);
	if (rd_type_check(arguments->type, name, suffix))
		return RONDO_INVALID;
	if (arguments->root < 0 || arguments->root >= arguments->comm->size)
		return rd_fail(RONDO_INVALID, "%s%s: rank %d is not in 0..%d", name, suffix,
			arguments->root, arguments->comm->size - 1);
	return 0;
}

/* side: "send" or "recv". */
static int check_lengths(const struct rd_arguments *arguments, const char *suffix, const char *side,
	struct lengths lengths, int blocks)
{
	const char *name = rd_collective_name(arguments->collective);

	if (blocks == 0)
		return 0;
	if (!lengths.counts)
		return rd_fail(RONDO_INVALID, "%s%s: counts is NULL", name, suffix);
	if (!lengths.listed)
		return 0;
	if (!lengths.addresses)
		return rd_fail(RONDO_INVALID, "%s%s: %s is NULL", name, suffix, side);
	for (int i = 0; i < blocks; i++)
		if (lengths.counts[i] > 0 && !lengths.addresses[i])
			return rd_fail(
				RONDO_INVALID, "%s%s: %s[%d] is NULL", name, suffix, side, i);
	return 0;
}

static bool lay_either(
	struct rd_extent *extents, int blocks, struct lengths lengths, size_t element)
{
	return lengths.listed ? lay_list(extents, blocks, lengths, element)
			      : lay(extents, blocks, lengths, element);
}

/* Gives the arguments the lengths of this rank's blocks of in and out. */
static int set_vcounts(struct rd_arguments *arguments, struct lengths in, struct lengths out)
{
	const struct rd_problem problem = { .collective = arguments->collective,
		.rank = arguments->comm->rank,
		.size = arguments->comm->size,
		.root = arguments->root };
	const char *name = rd_collective_name(arguments->collective), *suffix = suffix_of(in, out);
	int in_blocks = rd_in_blocks(&problem), out_blocks = rd_out_blocks(&problem);
	size_t element = rondo_type_size(arguments->type);
	int err = check_lengths(arguments, suffix, "send", in, in_blocks);

	if (!err)
		err = check_lengths(arguments, suffix, "recv", out, out_blocks);
	if (err)
		return err;

	struct rd_vcounts *vcounts = rd_vcounts_create(in_blocks, out_blocks);

	if (!vcounts)
		return rd_fail(RONDO_MEMORY, "no memory for %s%s", name, suffix);
	if (!lay_either(vcounts->in, in_blocks, in, element) ||
		!lay_either(vcounts->out, out_blocks, out, element)) {
		rd_vcounts_destroy(vcounts);
		return rd_fail(RONDO_INVALID, "%s%s: the counts are too large", name, suffix);
	}
	vcounts->listed = in.listed || out.listed;
	if (in.listed)
		arguments->send = lowest(in, in_blocks);
	if (out.listed)
		arguments->recv = (void *)lowest(out, out_blocks);
	arguments->vcounts = vcounts;
	return 0;
}

/* Submits a call of which all ranks have all lengths. */
static int submit_with_all_counts(
	struct rd_arguments *arguments, const size_t *counts, struct lengths in, struct lengths out)
{
	const char *suffix = suffix_of(in, out);
	int err = check_comm(arguments, suffix);

	if (!err && !counts)
		err = rd_fail(RONDO_INVALID, "%s%s: counts is NULL",
			rd_collective_name(arguments->collective), suffix);
	if (!err)
		err = set_vcounts(arguments, in, out);
	if (err)
		return refuse(err);
	arguments->vcounts->digest = digest(counts, arguments->comm->size);
	arguments->count = mean(counts, arguments->comm->size);
	return rd_submit(arguments);
}

/* Submits a call of which two ranks have a block's length: the one that has it, and the one that
   wants it. */
static int submit_pairwise(struct rd_arguments *arguments, struct lengths in, struct lengths out)
{
	int err = check_comm(arguments, suffix_of(in, out));

	if (!err)
		err = set_vcounts(arguments, in, out);
	if (err)
		return refuse(err);
	arguments->vcounts->pairwise = true;
	return rd_submit(arguments);
}

static struct rd_arguments arguments_of(rondo_comm *comm, enum rd_collective collective,
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
	struct rd_arguments arguments =
		arguments_of(comm, RD_ALL_GATHER, send, recv, type, stream, called_at);
	struct lengths mine = { .counts = counts && comm ? &counts[comm->rank] : NULL };

	return submit_with_all_counts(
		&arguments, counts, mine, (struct lengths){ .counts = counts, .displs = displs });
}

int rondo_all_gather_v(rondo_comm *comm, const void *send, void *recv, const size_t counts[],
	const size_t displs[], rondo_type type, rondo_stream *stream)
{
	return all_gather_v(comm, send, recv, counts, displs, type, stream, RD_CALLED_AT);
}

int rondo_reduce_scatter_v(rondo_comm *comm, const void *send, void *recv, const size_t counts[],
	rondo_type type, rondo_op op, rondo_stream *stream)
{
	struct rd_arguments arguments =
		arguments_of(comm, RD_REDUCE_SCATTER, send, recv, type, stream, RD_CALLED_AT);
	struct lengths mine = { .counts = counts && comm ? &counts[comm->rank] : NULL };

	arguments.op = op;
	return submit_with_all_counts(
		&arguments, counts, (struct lengths){ .counts = counts }, mine);
}

int rondo_all_to_all_v(rondo_comm *comm, const void *send, const size_t send_counts[],
	const size_t send_displs[], void *recv, const size_t recv_counts[],
	const size_t recv_displs[], rondo_type type, rondo_stream *stream)
{
	struct rd_arguments arguments =
		arguments_of(comm, RD_ALL_TO_ALL, send, recv, type, stream, RD_CALLED_AT);

	return submit_pairwise(&arguments,
		(struct lengths){ .counts = send_counts, .displs = send_displs },
		(struct lengths){ .counts = recv_counts, .displs = recv_displs });
}

static int gather_v(rondo_comm *comm, const void *send, size_t count, void *recv,
	const size_t counts[], const size_t displs[], rondo_type type, int root,
	rondo_stream *stream, uintptr_t called_at)
{
	struct rd_arguments arguments =
		arguments_of(comm, RD_GATHER, send, recv, type, stream, called_at);

	arguments.root = root;
	return submit_pairwise(&arguments, (struct lengths){ .counts = &count },
		(struct lengths){ .counts = counts, .displs = displs });
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
	struct rd_arguments arguments =
		arguments_of(comm, RD_SCATTER, send, recv, type, stream, RD_CALLED_AT);

	arguments.root = root;
	return submit_pairwise(&arguments, (struct lengths){ .counts = counts, .displs = displs },
		(struct lengths){ .counts = &count });
}

/* ---- Lists of blocks ------------------------------------------------------------------------ */

static struct lengths list_of(const void *const addresses[], const size_t counts[])
{
	return (struct lengths){ .counts = counts, .listed = true, .addresses = addresses };
}

int rondo_all_gather_list(rondo_comm *comm, const void *send, void *const recv[],
	const size_t counts[], rondo_type type, rondo_stream *stream)
{
	struct rd_arguments arguments =
		arguments_of(comm, RD_ALL_GATHER, send, NULL, type, stream, RD_CALLED_AT);
	struct lengths mine = { .counts = counts && comm ? &counts[comm->rank] : NULL };

	return submit_with_all_counts(
		&arguments, counts, mine, list_of((const void *const *)recv, counts));
}

int rondo_reduce_scatter_list(rondo_comm *comm, const void *const send[], void *recv,
	const size_t counts[], rondo_type type, rondo_op op, rondo_stream *stream)
{
	struct rd_arguments arguments =
		arguments_of(comm, RD_REDUCE_SCATTER, NULL, recv, type, stream, RD_CALLED_AT);
	struct lengths mine = { .counts = counts && comm ? &counts[comm->rank] : NULL };

	arguments.op = op;
	return submit_with_all_counts(&arguments, counts, list_of(send, counts), mine);
}

int rondo_all_to_all_list(rondo_comm *comm, const void *const send[], const size_t send_counts[],
	void *const recv[], const size_t recv_counts[], rondo_type type, rondo_stream *stream)
{
	struct rd_arguments arguments =
		arguments_of(comm, RD_ALL_TO_ALL, NULL, NULL, type, stream, RD_CALLED_AT);

	return submit_pairwise(&arguments, list_of(send, send_counts),
		list_of((const void *const *)recv, recv_counts));
}

int rondo_gather_list(rondo_comm *comm, const void *send, size_t count, void *const recv[],
	const size_t counts[], rondo_type type, int root, rondo_stream *stream)
{
	struct rd_arguments arguments =
		arguments_of(comm, RD_GATHER, send, NULL, type, stream, RD_CALLED_AT);

	arguments.root = root;
	return submit_pairwise(&arguments, (struct lengths){ .counts = &count },
		list_of((const void *const *)recv, counts));
}

int rondo_scatter_list(rondo_comm *comm, const void *const send[], const size_t counts[],
	void *recv, size_t count, rondo_type type, int root, rondo_stream *stream)
{
	struct rd_arguments arguments =
		arguments_of(comm, RD_SCATTER, NULL, recv, type, stream, RD_CALLED_AT);

	arguments.root = root;
	return submit_pairwise(
		&arguments, list_of(send, counts), (struct lengths){ .counts = &count });
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
	struct rd_arguments arguments =
		arguments_of(comm, collective, size, sizes, RONDO_U64, NULL, called_at);

	_Static_assert(sizeof(size_t) == sizeof(uint64_t), "a size travels as u64");
	arguments.count = 1;
	arguments.root = root;
	return rd_submit(&arguments);
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
