/*
 * Plans as a program of MSCCL. Each pair of ranks has a thread block on both sides. A step waits
 * for the one before it of its rank, where that is in another block: so the order stays as it is.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "msccl.h"

/* One rank's plan while its steps are placed. */
struct writer {
	const struct rd_plan_file *file;
	struct rd_problem problem;
	struct msccl_slot *now; /* by chunk: where its present value lies; buffer 0: nowhere */
	struct msccl_step *steps; /* in the rank's order */
	int *peers; /* of the steps; the rank itself: copies */
	int count, scratch;
};

/* ---- Placing -------------------------------------------------------------------------------- */

static struct msccl_slot home(struct writer *writer, int chunk)
{
	int parts = writer->file->parts, block = rd_out_block(&writer->problem, chunk / parts);

	if (block >= 0)
		return (struct msccl_slot){ 'o', block * parts + chunk % parts };
	if (writer->now[chunk].buffer == 's')
		return writer->now[chunk];
	return (struct msccl_slot){ 's', writer->scratch++ };
}

static void add(struct writer *writer, enum msccl_type type, int peer, struct msccl_slot from,
	struct msccl_slot into)
{
	writer->steps[writer->count] = (struct msccl_step){ .type = type,
		.from = from,
		.into = into,
		.count = 1,
		.after_block = -1,
		.after_step = -1 };
	writer->peers[writer->count++] = peer;
}

static void add_receive(struct writer *writer, enum msccl_type type, int peer, int chunk)
{
	struct msccl_slot from = writer->now[chunk], into = home(writer, chunk);

	add(writer, type, peer, type == MSCCL_RECV ? into : from, into);
	writer->now[chunk] = into;
}

/* Returns 0, or an error: MSCCL has no such step. */
static int add_call(struct writer *writer, const struct rd_file_step *step)
{
	int rank = writer->problem.rank, size = writer->problem.size;

	switch (step->call) {
	case RD_FILE_send:
		add(writer, MSCCL_SEND, step->numbers[0], writer->now[step->numbers[1]],
			writer->now[step->numbers[1]]);
		return 0;
	case RD_FILE_recv:
		add_receive(writer, MSCCL_RECV, step->numbers[0], step->numbers[1]);
		return 0;
	case RD_FILE_recv_reduce:
	case RD_FILE_recv_reduce_last:
		add_receive(writer, MSCCL_RECV_REDUCE_COPY, step->numbers[0], step->numbers[1]);
		return 0;
	case RD_FILE_recv_merge:
		for (int i = 1; i < size; i++)
			add_receive(writer, MSCCL_RECV_REDUCE_COPY, rd_wrap(rank + i, size),
				step->numbers[0]);
		return 0;
	default:
		return rd_fail(RONDO_UNSUPPORTED,
			"%s needs direct access, which has no form in MSCCL's XML",
			writer->file->name);
	}
}

static void add_copies(struct writer *writer)
{
	int parts = writer->file->parts, outs = rd_out_blocks(&writer->problem) * parts;

	for (int out = 0; out < outs; out++) {
		int chunk = rd_block_of_out(&writer->problem, out / parts) * parts + out % parts;

		if (writer->now[chunk].buffer && writer->now[chunk].buffer != 'o')
			add(writer, MSCCL_COPY, writer->problem.rank, writer->now[chunk],
				(struct msccl_slot){ 'o', out });
	}
}

static int place(struct writer *writer)
{
	const struct rd_plan_file *file = writer->file;
	int rank = writer->problem.rank, parts = file->parts, err = 0;
	int ins = rd_in_blocks(&writer->problem) * parts;

	for (int in = 0; in < ins; in++) {
		int block = rd_block_of_in(&writer->problem, in / parts);

		writer->now[block * parts + in % parts] = (struct msccl_slot){ 'i', in };
	}
	for (int i = file->firsts[rank]; i < file->firsts[rank + 1] && !err; i++)
		err = add_call(writer, &file->steps[i]);
	if (!err)
		add_copies(writer);
	return err;
}

/* ---- Writing -------------------------------------------------------------------------------- */

/* Numbers the blocks, by peer, and the steps in them. */
static void number(const struct writer *writer, int *blocks, int *places)
{
	int count = 0;

	for (int i = 0; i < writer->count; i++)
		places[i] = blocks[writer->peers[i]]++;
	for (int peer = 0; peer < writer->problem.size; peer++)
		blocks[peer] = blocks[peer] ? count++ : -1;
}

static void write_step(
	const struct writer *writer, int i, const int *blocks, const int *places, FILE *out)
{
	static const char *const texts[] = {
#define TEXT(name, text, receives, sends) text,
		MSCCL_TYPES(TEXT)
#undef TEXT
	};
	const struct msccl_step *step = &writer->steps[i];
	bool waits = i > 0 && writer->peers[i - 1] != writer->peers[i];
	bool waited = i + 1 < writer->count && writer->peers[i + 1] != writer->peers[i];

	fprintf(out,
		"      <step s=\"%d\" type=\"%s\" srcbuf=\"%c\" srcoff=\"%d\" dstbuf=\"%c\" "
		"dstoff=\"%d\" cnt=\"1\" depid=\"%d\" deps=\"%d\" hasdep=\"%d\"/>\n",
		places[i], texts[step->type], step->from.buffer, step->from.offset,
		step->into.buffer, step->into.offset, waits ? blocks[writer->peers[i - 1]] : -1,
		waits ? places[i - 1] : -1, waited);
}

static void write_blocks(
	const struct writer *writer, const int *blocks, const int *places, FILE *out)
{
	int rank = writer->problem.rank;

	for (int peer = 0; peer < writer->problem.size; peer++) {
		int other = peer == rank ? -1 : peer;

		if (blocks[peer] < 0)
			continue;
		fprintf(out, "    <tb id=\"%d\" send=\"%d\" recv=\"%d\" chan=\"0\">\n",
			blocks[peer], other, other);
		for (int i = 0; i < writer->count; i++)
			if (writer->peers[i] == peer)
				write_step(writer, i, blocks, places, out);
		fprintf(out, "    </tb>\n");
	}
}

static int write_gpu(struct writer *writer, FILE *out)
{
	int *blocks = calloc((size_t)writer->problem.size, sizeof(*blocks));
	int *places = calloc((size_t)writer->count + 1, sizeof(*places));
	int parts = writer->file->parts, err = 0;

	if (blocks && places) {
		number(writer, blocks, places);
		fprintf(out, "  <gpu id=\"%d\" i_chunks=\"%d\" o_chunks=\"%d\" s_chunks=\"%d\">\n",
			writer->problem.rank, rd_in_blocks(&writer->problem) * parts,
			rd_out_blocks(&writer->problem) * parts, writer->scratch);
		write_blocks(writer, blocks, places, out);
		fprintf(out, "  </gpu>\n");
	} else {
		err = rd_fail(RONDO_MEMORY, "no memory for a program of MSCCL");
	}
	free(blocks);
	free(places);
	return err;
}

static int write_rank(const struct rd_plan_file *file, int rank, FILE *out)
{
	struct writer writer = { .file = file, .problem = file->problem };
	size_t chunks = (size_t)(rd_blocks(&file->problem) * file->parts);
	size_t calls = (size_t)(file->firsts[rank + 1] - file->firsts[rank]), most = chunks;
	int err;

	for (size_t i = 0; i < calls; i++)
		most += file->steps[(size_t)file->firsts[rank] + i].call == RD_FILE_recv_merge
				? (size_t)file->problem.size
				: 1;
	writer.problem.rank = rank;
	writer.now = calloc(chunks, sizeof(*writer.now));
	writer.steps = calloc(most + 1, sizeof(*writer.steps));
	writer.peers = calloc(most + 1, sizeof(*writer.peers));
	err = writer.now && writer.steps && writer.peers
		      ? place(&writer)
		      : rd_fail(RONDO_MEMORY, "no memory for a program of MSCCL");
	if (!err)
		err = write_gpu(&writer, out);
	free(writer.now);
	free(writer.steps);
	free(writer.peers);
	return err;
}

/* No buffer is as large as the most that a program may name. */
static int64_t bytes_of_all(int64_t block_bytes, int blocks)
{
	return block_bytes < INT64_MAX / 2 / blocks ? block_bytes * blocks : INT64_MAX / 2;
}

/* In place, a chunk lies where it lay. An all-to-all's does not. */
static void write_algo(const struct rd_plan_file *file, FILE *out)
{
	bool in_place = file->problem.collective != RD_ALL_TO_ALL;
	int blocks = msccl_range_blocks(&file->problem);

	fprintf(out,
		"<algo name=\"%s\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"%d\" "
		"ngpus=\"%d\" coll=\"",
		file->name, msccl_loop_blocks(&file->problem) * file->parts, file->problem.size);
	for (const char *at = rd_collective_name(file->problem.collective); *at; at++)
		if (*at != '_')
			fputc(*at, out);
	fprintf(out,
		"\" inplace=\"%d\" outofplace=\"1\" minBytes=\"%" PRId64 "\" maxBytes=\"%" PRId64
		"\"",
		in_place, bytes_of_all(file->least_bytes, blocks),
		file->most_bytes == INT64_MAX ? 0 : bytes_of_all(file->most_bytes, blocks));
	if (rd_collective_has_root(file->problem.collective))
		fprintf(out, " root=\"%d\"", file->problem.root);
	fprintf(out, ">\n");
}

int msccl_write(const struct rd_plan_file *file, FILE *out)
{
	int err = 0;

	if (file->problem.collective == RD_TRANSFER || file->problem.collective == RD_BARRIER)
		return rd_fail(RONDO_UNSUPPORTED, "MSCCL has no %s",
			rd_collective_name(file->problem.collective));
	write_algo(file, out);
	for (int rank = 0; rank < file->problem.size && !err; rank++)
		err = write_rank(file, rank, out);
	fprintf(out, "</algo>\n");
	return err;
}
