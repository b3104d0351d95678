#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A finished plan has steps that no call made: copies, flushes. Others were two calls. */
struct writer {
	struct rd_plan_file *file;
	const struct rd_plan *plan;
	enum rd_memory *now; /* by chunk: where its present value lies, as rd_plan has it */
	int err;
};

static void add(struct writer *writer, enum rd_file_call call, int first, int second, int third)
{
	struct rd_file_step step = { call, { first, second, third } };

	if (!writer->err)
		writer->err = rd_plan_file_add(writer->file, step);
}

/* Adds the calls of a step that receives, and perhaps sends on. */
static void add_receive(struct writer *writer, const struct rd_step *step)
{
	enum rd_file_call call = !rd_step_reduces(step) ? RD_FILE_recv
				 : step->last           ? RD_FILE_recv_reduce_last
							: RD_FILE_recv_reduce;

	add(writer, call, step->peer, step->chunk, 0);
	if (rd_step_sends(step))
		add(writer, RD_FILE_send, step->to, step->chunk, 0);
}

static void add_combine(struct writer *writer, const struct rd_step *step)
{
	if (step->into.memory == RD_SCRATCH)
		add(writer, RD_FILE_combine_aside, step->chunk, 0, 0);
	else
		add(writer, RD_FILE_combine, step->to, step->chunk, 0);
}

static void add_step(struct writer *writer, const struct rd_step *step)
{
	switch (step->kind) {
	case RD_STEP_SEND:
		add(writer, RD_FILE_send, step->to, step->chunk, 0);
		break;
	case RD_STEP_RECV:
	case RD_STEP_RECV_REDUCE:
	case RD_STEP_FORWARD:
	case RD_STEP_REDUCE_FORWARD:
		add_receive(writer, step);
		break;
	case RD_STEP_MERGE:
		add(writer, RD_FILE_recv_merge, step->chunk, 0, 0);
		break;
	case RD_STEP_SIGNAL:
		add(writer, RD_FILE_signal, step->to, 0, 0);
		break;
	case RD_STEP_AWAIT:
		add(writer, RD_FILE_await, step->peer, 0, 0);
		break;
	case RD_STEP_FETCH:
		add(writer, RD_FILE_fetch, step->peer, step->chunk, 0);
		break;
	case RD_STEP_COMBINE:
		add_combine(writer, step);
		break;
	case RD_STEP_SWAP:
		add(writer, RD_FILE_swap, step->peer, step->chunk, step->other);
		break;
	case RD_STEP_SPREAD:
		add(writer, RD_FILE_spread, step->peer, step->chunk, 0);
		break;
	case RD_STEP_COPY:
	case RD_STEP_FLUSH:
	case RD_STEP_HOLD:
		break;
	}
}

/* rd_expect() leaves no step: a later one reads the output that none of this rank wrote. */
static void expect(struct writer *writer, int chunk)
{
	add(writer, RD_FILE_expect, chunk, 0, 0);
	writer->now[chunk] = RD_OUT;
}

/* Whether the step writes the chunk for this rank's own use. */
static bool writes_here(const struct writer *writer, const struct rd_step *step)
{
	int rank = writer->plan->problem.rank;

	if (step->kind == RD_STEP_COMBINE)
		return step->to < 0 || step->to == rank;
	return step->into.memory != RD_NOWHERE;
}

static void add_steps(struct writer *writer)
{
	for (int i = 0; i < writer->plan->step_count; i++) {
		const struct rd_step *step = &writer->plan->steps[i];

		if (rd_step_reads(step) && step->from.memory == RD_OUT &&
			writer->now[step->chunk] != RD_OUT)
			expect(writer, step->chunk);
		add_step(writer, step);
		if (writes_here(writer, step))
			writer->now[step->chunk] = step->into.memory;
	}
}

static void expect_rest(struct writer *writer)
{
	const struct rd_plan *plan = writer->plan;
	int parts = plan->parts, outs = rd_out_blocks(&plan->problem) * parts;

	for (int out = 0; out < outs; out++) {
		int chunk = rd_block_of_out(&plan->problem, out / parts) * parts + out % parts;

		if (writer->now[chunk] != RD_OUT)
			expect(writer, chunk);
	}
}

int plan_calls_add(struct rd_plan_file *file, const struct rd_plan *plan)
{
	struct writer writer = { .file = file, .plan = plan };
	size_t chunks = (size_t)rd_blocks(&plan->problem) * (size_t)plan->parts;

	writer.now = calloc(chunks, sizeof(*writer.now));
	if (!writer.now)
		return rd_fail(RONDO_MEMORY, "no memory for a plan file");
	add_steps(&writer);
	expect_rest(&writer);
	rd_plan_file_end_rank(file);
	free(writer.now);
	return writer.err;
}

/* ---- All ranks ------------------------------------------------------------------------------ */

/* "ring_4": the algorithm, cut where that would be too long, and the ranks. */
static void make_name(char name[RD_FILE_NAME_SIZE], const char *algorithm, int ranks)
{
	char suffix[RD_FILE_NAME_SIZE];
	size_t length = (size_t)snprintf(suffix, sizeof(suffix), "_%d", ranks);
	size_t kept = strnlen(algorithm, RD_FILE_NAME_SIZE - 1 - length);

	memcpy(name, algorithm, kept);
	memcpy(name + kept, suffix, length + 1);
}

static void make_heading(struct rd_plan_file *file, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	const struct rd_plan_file *source = rd_plan_file_of(algorithm, problem->collective);

	file->problem = *problem;
	file->problem.layout = NULL;
	file->least_bytes = source ? source->least_bytes : 0;
	file->most_bytes = source ? source->most_bytes : INT64_MAX;
	if (source)
		memcpy(file->name, source->name, sizeof(file->name));
	else
		make_name(file->name, algorithm->name, problem->size);
}

static int check_chunks(const struct rd_problem *problem, int parts)
{
	if ((int64_t)rd_blocks(problem) * problem->size * parts <= RD_FILE_CHUNKS_MAX)
		return 0;
	return rd_fail(RONDO_UNSUPPORTED, "%s of %d ranks has more chunks than a plan file",
		rd_collective_name(problem->collective), problem->size);
}

static int add_ranks(struct rd_plan_file *file, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	struct rd_problem here = *problem;
	int err = rd_plan_file_begin(file);

	for (here.rank = 0; here.rank < here.size && !err; here.rank++) {
		struct rd_plan *plan;

		err = rd_plan_create(&plan, algorithm, &here);
		if (err)
			return err;
		file->parts = plan->parts;
		err = check_chunks(problem, plan->parts);
		if (!err)
			err = plan_calls_add(file, plan);
		rd_plan_destroy(plan);
	}
	return err;
}

int plan_calls_file(struct rd_plan_file **file, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	int err;

	*file = calloc(1, sizeof(**file));
	if (!*file)
		return rd_fail(RONDO_MEMORY, "no memory for a plan file");
	make_heading(*file, algorithm, problem);
	err = add_ranks(*file, algorithm, problem);
	if (err) {
		rd_plan_file_destroy(*file);
		*file = NULL;
		return err;
	}
	rd_plan_file_seal(*file, algorithm->direct_access);
	return 0;
}
