/*
 * Plans of messages as devices run them: every algorithm, by the tests' driver's kernel, beside
 * what the collective is defined to give. A rank is a thread that makes one call after the other.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "any_layout.h"
#include "exec/algorithms.h"
#include "tuner/eligible.h"
#include "elements.h"
#include "exec/mean.h"
#include "gpu/compile_messages.h"
#include "gpus.h"

#define RANKS 8
#define CHANNELS 3
#define SLOT_SIZE RD_FIFO_SLOT_MIN

/* ---- Elements ------------------------------------------------------------------------------ */

static double element_at(const void *at, size_t i, rondo_type type)
{
	at = (const char *)at + i * rondo_type_size(type);
	return element_is_float(type) ? element_float(at, type) : (double)element_integer(at, type);
}

static void put_element(void *at, size_t i, rondo_type type, double value)
{
	element_store((char *)at + i * rondo_type_size(type), type, (uint64_t)value, value);
}

/* Small whole numbers, whose results are exact in every type and in any order. */
static double value_of(rondo_op op, int size, int rank, int block, size_t i)
{
	size_t dice = i * 7 + (size_t)rank * 3 + (size_t)block * 5;

	switch (op) {
	case RONDO_PROD:
		return dice % 7 == 0 ? 2 : 1;
	case RONDO_MIN:
	case RONDO_MAX:
		return (double)(dice % 8);
	case RONDO_AVG:
		return (i + (size_t)block) % (size_t)size == (size_t)rank && i % 2 ? size : 0;
	case RONDO_SUM:
		return (double)(dice % 2);
	default:
		return (double)(dice % 4);
	}
}

/* The rank that has the block as input, in a collective that combines nothing. */
static int owner_of(const struct rd_problem *problem, int block)
{
	struct rd_problem there = *problem;

	for (there.rank = 0; there.rank < there.size; there.rank++)
		if (rd_in_block(&there, block) >= 0)
			return there.rank;
	return 0;
}

static double wanted(const struct rd_problem *problem, rondo_op op, int block, size_t i)
{
	double result;

	if (!rd_collective_reduces(problem->collective))
		return value_of(op, problem->size, owner_of(problem, block), block, i);
	result = value_of(op, problem->size, 0, block, i);
	for (int rank = 1; rank < problem->size; rank++)
		result = element_combine(op, result, value_of(op, problem->size, rank, block, i));
	return op == RONDO_AVG ? result / problem->size : result;
}

/* ---- Jobs ---------------------------------------------------------------------------------- */

struct steps_job {
	const struct rd_algorithm *algorithm;
	struct rd_problem problem; /* of no rank in particular */
	struct rd_fifo *peer_fifos[RANKS];
	struct rd_abort_flag abort_flags[RANKS];
	uint64_t timeout_ns;
	uint32_t calls; /* made by earlier jobs */
};

struct steps_rank {
	struct steps_job *job;
	int rank;
	pthread_t thread;
	struct rd_plan *plan;
	struct rd_move *moves;
	int move_count;
	char *scratch;
	char text[256];
};

struct call {
	rondo_type type;
	rondo_op op;
	size_t count;
	bool in_place;
	uint32_t number;
};

static struct rd_problem problem_of(const struct steps_rank *self)
{
	struct rd_problem problem = self->job->problem;

	problem.rank = self->rank;
	return problem;
}

static void run_call(struct steps_rank *self, const struct call *call, const void *in, void *out)
{
	const struct steps_job *job = self->job;
	struct rd_call made = {
		.problem = problem_of(self),
		.type = call->type,
		.op = call->op,
		.count = call->count,
		.in = in,
		.out = out,
		.number = call->number,
	};
	struct rd_steps steps;

	rd_compile_cut(&steps, self->plan, &made, CHANNELS, SLOT_SIZE);
	steps.moves = self->moves;
	steps.move_count = self->move_count;
	steps.scratch = self->scratch;
	steps.abort_flag = (struct rd_abort_flag *)&job->abort_flags[self->rank];
	steps.timeout_ns = job->timeout_ns;
	memcpy(steps.peer_fifos, job->peer_fifos, sizeof(job->peer_fifos));
	run_steps_kernel(&steps);
}

/* In place: how many blocks the output lies behind the input. */
static int blocks_between(const struct rd_problem *problem)
{
	for (int block = 0; block < rd_out_blocks(problem); block++)
		if (rd_alias_block(problem, block) >= 0)
			return rd_alias_block(problem, block) - block;
	return 0;
}

static void fill(const struct steps_rank *self, const struct call *call, char *in)
{
	struct rd_problem problem = problem_of(self);

	for (int block = 0; block < rd_blocks(&problem); block++) {
		int there = rd_in_block(&problem, block);

		for (size_t i = 0; there >= 0 && i < call->count; i++)
			put_element(in, (size_t)there * call->count + i, call->type,
				value_of(call->op, problem.size, problem.rank, block, i));
	}
}

static bool is_right(struct steps_rank *self, const struct call *call, const char *out)
{
	struct rd_problem problem = problem_of(self);

	for (int block = 0; block < rd_blocks(&problem); block++) {
		int there = rd_out_block(&problem, block);

		for (size_t i = 0; there >= 0 && i < call->count; i++) {
			double got = element_at(out, (size_t)there * call->count + i, call->type);
			double right = wanted(&problem, call->op, block, i);

			if (got == right)
				continue;
			snprintf(self->text, sizeof(self->text),
				"%zu %s %s%s: element %zu of block %d is %g, not %g", call->count,
				rondo_type_name(call->type), rondo_op_name(call->op),
				call->in_place ? " in place" : "", i, block, got, right);
			return false;
		}
	}
	return true;
}

/* Guards before and behind what is written. */
#define GUARD 64

static bool try_call(struct steps_rank *self, const struct call *call)
{
	struct rd_problem problem = problem_of(self);
	size_t block = call->count * rondo_type_size(call->type);
	size_t ins = (size_t)rd_in_blocks(&problem), outs = (size_t)rd_out_blocks(&problem);
	size_t room = (ins + outs) * block + 2 * GUARD;
	char *one = malloc(room), *two = malloc(room), *in = two + GUARD, *out = one + GUARD;
	int between = blocks_between(&problem);
	bool right;

	memset(one, 0x5a, room);
	if (call->in_place) {
		in = between < 0 ? out + (size_t)-between * block : out;
		out = between > 0 ? in + (size_t)between * block : out;
	}
	fill(self, call, in);
	run_call(self, call, in, out);
	right = is_right(self, call, out);
	for (size_t i = 0; i < GUARD && right; i++) {
		right = one[i] == 0x5a && one[room - 1 - i] == 0x5a;
		if (!right)
			snprintf(self->text, sizeof(self->text), "wrote beyond its output");
	}
	free(one);
	free(two);
	return right;
}

/* One after the other in a job, so that numbers count on; the next job goes on with other types
   and operations. */
static void *make_calls(void *argument)
{
	static const size_t counts[] = { 1, 3, 257, 5003, 0 };
	struct steps_rank *self = argument;
	struct call call = { .number = self->job->calls };
	bool barrier = self->job->problem.collective == RD_BARRIER;

	for (int i = 0; i < 5; i++)
		for (int in_place = 0; in_place < 2; in_place++) {
			call.number++;
			call.type = call.number % RONDO_BOOL;
			call.op = call.number / 3 % RONDO_OP_COUNT;
			if (!rondo_op_applies(call.op, call.type))
				call.op %= RONDO_AVG + 1;
			/* Their partial sums do not travel (comm/widen.h). */
			if (call.op == RONDO_AVG && rd_type_is_narrow(call.type))
				call.op = RONDO_SUM;
			call.count = barrier ? 0 : counts[i];
			call.in_place = in_place;
			if (!try_call(self, &call))
				return NULL;
		}
	return NULL;
}

static void open_rank(struct steps_rank *self, struct steps_job *job, int rank)
{
	struct rd_problem problem;

	memset(self, 0, sizeof(*self));
	self->job = job;
	self->rank = rank;
	problem = problem_of(self);
	cr_assert_eq(
		rd_plan_create(&self->plan, job->algorithm, &problem), 0, "%s", rondo_last_error());
	self->moves = calloc((size_t)self->plan->step_count + 1, sizeof(*self->moves));
	self->move_count = rd_compile_moves(self->plan, self->moves);
	self->scratch = malloc(rd_compile_scratch_size(self->plan, CHANNELS, SLOT_SIZE) + 1);
	job->peer_fifos[rank] =
		aligned_alloc(64, (rd_fifo_size(problem.size, CHANNELS) + 63) / 64 * 64);
	memset(job->peer_fifos[rank], 0, rd_fifo_size(problem.size, CHANNELS));
}

static void close_rank(struct steps_rank *self)
{
	free(self->job->peer_fifos[self->rank]);
	free(self->scratch);
	free(self->moves);
	rd_plan_destroy(self->plan);
}

static void run_job(struct steps_job *job, void *(*life)(void *))
{
	struct steps_rank ranks[RANKS];
	int size = job->problem.size;

	for (int rank = 0; rank < size; rank++)
		open_rank(&ranks[rank], job, rank);
	for (int rank = 0; rank < size; rank++)
		pthread_create(&ranks[rank].thread, NULL, life, &ranks[rank]);
	for (int rank = 0; rank < size; rank++)
		pthread_join(ranks[rank].thread, NULL);
	for (int rank = 0; rank < size; rank++) {
		cr_expect_str_empty(ranks[rank].text, "%s, %s, %d ranks, root %d, rank %d: %s",
			job->algorithm->name, rd_collective_name(job->problem.collective), size,
			job->problem.root, rank, ranks[rank].text);
		close_rank(&ranks[rank]);
	}
}

/* On all ranks. */
static bool devices_can(const struct steps_job *job)
{
	struct rd_problem problem = job->problem;
	bool can = true;

	for (problem.rank = 0; problem.rank < problem.size && can; problem.rank++) {
		struct rd_plan *plan;

		cr_assert_eq(rd_plan_create(&plan, job->algorithm, &problem), 0);
		can = rd_compile_can(plan);
		rd_plan_destroy(plan);
	}
	return can;
}

static void try_algorithm(const char *name)
{
	struct steps_job job = { .algorithm = rd_algorithm_named(name),
		.timeout_ns = 20000000000u };
	struct rd_problem *problem = &job.problem;
	struct any_layout halves;

	for (int collective = 0; collective < RD_COLLECTIVE_COUNT; collective++)
		for (int size = 1; size <= RANKS; size++)
			for (int root = 0; root<size; root += size> 1 ? size - 1 : 1) {
				*problem = (struct rd_problem){
					.collective = collective, .size = size, .root = root
				};
				/* Some are for several hosts alone. */
				if (size % 4 == 0 && !rd_algorithm_can(job.algorithm, problem))
					problem->layout = layout_of(
						&halves, (int[]){ size / 2, size / 2, 0 }, 0);
				if ((root > 0 && !rd_collective_has_root(collective)) ||
					!rd_algorithm_can(job.algorithm, problem) ||
					!devices_can(&job))
					continue;
				run_job(&job, make_calls);
				job.calls += 11;
			}
	cr_expect_gt(job.calls, 0, "nothing was tried");
}

#define RIGHT(name) \
	Test(steps, name##_is_right, .timeout = 120) \
	{ \
		try_algorithm(#name); \
	}

RIGHT(ring)
RIGHT(linear)
RIGHT(doubling)
RIGHT(tree)
RIGHT(binomial)
RIGHT(halving)
RIGHT(pat)
RIGHT(hierarchical)
RIGHT(pipelined)
RIGHT(leaders)
RIGHT(chain)
/* But for what it merges: of that, devices have no step. */
RIGHT(one_round)

Test(steps, every_algorithm_of_messages_is_tried)
{
	int tried = 0;

	for (int i = 0; rd_algorithms[i]; i++)
		tried += !rd_algorithms[i]->direct_access;
	cr_expect_eq(tried, 12, "a new algorithm: give it a line above");
}

/* ---- Failures ------------------------------------------------------------------------------ */

static void call_with_zeros(struct steps_rank *self, rondo_op op)
{
	struct call call = { .type = RONDO_F32, .op = op, .count = 1000, .number = 1 };
	char buffer[8000];

	memset(buffer, 0, sizeof(buffer));
	run_call(self, &call, buffer, buffer);
}

/* Rank 2 of four makes no call, or another one. */
static void *all_but_one(void *argument)
{
	struct steps_rank *self = argument;

	if (self->rank != 2)
		call_with_zeros(self, RONDO_SUM);
	return NULL;
}

Test(steps, silence_ends_the_kernel_and_names_the_peer, .timeout = 20)
{
	struct steps_job job = { .algorithm = rd_algorithm_named("ring"),
		.problem = { .collective = RD_ALL_REDUCE, .size = 4 },
		.timeout_ns = 50000000 };

	run_job(&job, all_but_one);
	cr_expect_eq(job.abort_flags[3].error, RD_ABORT_SILENCE);
	cr_expect_eq(job.abort_flags[3].peer, 2);
}

static void *all_but_one_and_stop(void *argument)
{
	struct steps_rank *self = argument;

	if (self->rank != 2)
		return all_but_one(self);
	for (int rank = 0; rank < 4; rank++)
		__atomic_store_n(&self->job->abort_flags[rank].stop, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Without the abort flag, the timeout would outlast the test. */
Test(steps, the_abort_flag_ends_the_kernel, .timeout = 20)
{
	struct steps_job job = { .algorithm = rd_algorithm_named("ring"),
		.problem = { .collective = RD_ALL_REDUCE, .size = 4 },
		.timeout_ns = UINT64_C(3600000000000) };

	run_job(&job, all_but_one_and_stop);
	for (int rank = 0; rank < 4; rank++)
		cr_expect_eq(job.abort_flags[rank].error, 0);
}

static void *one_calls_otherwise(void *argument)
{
	struct steps_rank *self = argument;

	call_with_zeros(self, self->rank == 2 ? RONDO_MAX : RONDO_SUM);
	return NULL;
}

/* Ranks 0 and 1 wait for the timeout. It outlasts a pause of the machine. */
Test(steps, another_call_is_a_mismatch_that_names_the_peer, .timeout = 20)
{
	struct steps_job job = { .algorithm = rd_algorithm_named("ring"),
		.problem = { .collective = RD_ALL_REDUCE, .size = 4 },
		.timeout_ns = 2000000000 };

	run_job(&job, one_calls_otherwise);
	cr_expect_eq(job.abort_flags[3].error, RD_ABORT_MISMATCH);
	cr_expect_eq(job.abort_flags[3].peer, 2);
	cr_expect_eq(job.abort_flags[2].error, RD_ABORT_MISMATCH);
	cr_expect_eq(job.abort_flags[2].peer, 1);
}

/* ---- Plans and memory ---------------------------------------------------------------------- */

Test(steps, devices_have_no_steps_of_direct_access)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 4 };
	struct rd_plan *plan;

	cr_assert_eq(rd_plan_create(&plan, rd_algorithm_named("two_shot"), &problem), 0);
	cr_expect_not(rd_compile_can(plan));
	rd_plan_destroy(plan);
}

Test(steps, mail_stays_within_its_bound)
{
	for (int size = 2; size <= RD_WORK_RANKS; size++)
		for (int channels = 1; channels <= RD_FIFO_CHANNELS; channels++) {
			size_t slot = rd_fifo_slot_size(size, channels);

			cr_expect_geq(slot, RD_FIFO_SLOT_MIN);
			cr_expect_leq(slot, RD_FIFO_SLOT_MAX);
			cr_expect_leq(rd_fifo_size(size, channels), RD_FIFO_SIZE + (1 << 20));
		}
}
