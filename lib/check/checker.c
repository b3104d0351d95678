/*
 * Three proofs make one, for plans with valid fields (fields.h). The first reads each plan alone,
 * in program order: does a step write to memory that another still needs (overwrite.h)? The second
 * runs all plans together, on symbols. The third runs along with the second, where ranks access
 * each other's memory, and finds races there (races.h).
 *
 * One run stands for all. Each FIFO has one rank that puts in and one that takes out. A step of a
 * rank can therefore enable others that wait, but never prevent them. The order in which the ranks
 * run changes neither their results nor whether they end (G. Kahn, "The semantics of a simple
 * language for parallel programming", 1974).
 *
 * One piece stands for all pieces. In one of the orders all ranks finish a piece, and leave the
 * FIFOs empty, before any begins the next.
 *
 * With direct access all this holds as well, once it is proved that no two ranks access the same
 * memory with nothing to order them. Each rank then reads the same values in every order (S. Adve
 * and M. Hill, "Weak ordering - a new definition", 1990).
 */
#include "check/checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "check/fields.h"
#include "check/overwrite.h"
#include "check/races.h"
#include "check/symbol.h"
#include "plan/print.h"

/* The contents of a link in one direction: a message at the sender, and one at the receiver. */
#define PIPE_ROOM 2

struct message {
	struct rd_symbol value;
	int step; /* of its sender */
	int clock; /* of its sender (races.h) */
};

/* One direction between two ranks. */
struct pipe {
	int from, to;
	struct message messages[PIPE_ROOM];
	unsigned pushed, popped; /* messages ever */
};

struct runner {
	const struct rd_plan *plan;
	int step; /* step_count: finished */
	bool queued;
	struct rd_symbol *out; /* output chunks, then scratch chunks */
	int out_chunks;
	int *promised; /* by output block: the block of the space that must end there; -1: any */
	unsigned *send_marks; /* by step: its pipe's `pushed` once it had sent */
};

struct check {
	int size;
	enum rd_collective collective;
	bool reduces;
	struct runner *runners;

	int *pipe_numbers; /* [from * size + to]: number of the pipe plus 1; 0: none */
	struct pipe *pipes;
	int pipe_count;

	int *queue; /* ranks that may be able to move */
	int queue_head, queue_length;

	struct rd_symbols symbols;
	struct rd_races races;

	uint64_t *orders; /* all_reduce, by chunk: the first rank's result; 0: none yet */
	int *order_ranks; /* whose that was */

	struct rd_symbol *values; /* what the runners' memory is cut from */
	int *promises;
	unsigned *send_marks;
};

/* ---- The network --------------------------------------------------------------------------- */

static struct pipe *pipe_between(const struct check *check, int from, int to)
{
	return &check->pipes[check->pipe_numbers[(size_t)from * check->size + to] - 1];
}

static void add_pipe(struct check *check, int from, int to)
{
	int *number = &check->pipe_numbers[(size_t)from * check->size + to];

	if (*number)
		return;
	check->pipes[check->pipe_count] = (struct pipe){ .from = from, .to = to };
	*number = ++check->pipe_count;
}

static void wake(struct check *check, int rank)
{
	if (check->runners[rank].queued)
		return;
	check->runners[rank].queued = true;
	check->queue[(check->queue_head + check->queue_length++) % check->size] = rank;
}

static int next_awake(struct check *check)
{
	int rank = check->queue[check->queue_head];

	check->queue_head = (check->queue_head + 1) % check->size;
	check->queue_length--;
	check->runners[rank].queued = false;
	return rank;
}

static bool empty(const struct pipe *pipe)
{
	return pipe->pushed == pipe->popped;
}

static bool full(const struct pipe *pipe)
{
	return pipe->pushed - pipe->popped == PIPE_ROOM;
}

static struct message *oldest(struct pipe *pipe)
{
	return &pipe->messages[pipe->popped % PIPE_ROOM];
}

/* The receiver has room for one message that it has not asked for; more wait in the sender's
   memory. */
static bool has_left(const struct pipe *pipe, unsigned send_mark)
{
	return (int)(send_mark - pipe->popped) <= 1;
}

/* The rank that must move before this one can; -1: it can. A forward needs both of its links at
   once, which is the strictest that an executor may ask. */
static int waits_for(const struct check *check, const struct runner *runner)
{
	const struct rd_step *step = &runner->plan->steps[runner->step];
	int rank = runner->plan->problem.rank;

	if (step->kind == RD_STEP_FLUSH) {
		unsigned send_mark = runner->send_marks[step->sender];

		return has_left(pipe_between(check, rank, step->to), send_mark) ? -1 : step->to;
	}
	if (rd_step_takes(step) && empty(pipe_between(check, step->peer, rank)))
		return step->peer;
	if (rd_step_puts(step) && full(pipe_between(check, rank, step->to)))
		return step->to;
	return -1;
}

static int push(struct check *check, const struct runner *runner, int i, struct rd_symbol value)
{
	const struct rd_step *step = &runner->plan->steps[i];
	int rank = runner->plan->problem.rank;
	struct pipe *pipe = pipe_between(check, rank, step->to);
	struct message *message = &pipe->messages[pipe->pushed % PIPE_ROOM];
	int err;

	message->value = rd_symbol_hold(&check->symbols, value);
	message->step = i;
	err = rd_races_send(&check->races, rank, &message->clock);
	runner->send_marks[i] = ++pipe->pushed;
	wake(check, step->to);
	return err;
}

/* The message that a step takes is the one that it expects. */
static int look(struct check *check, const struct runner *runner, int i)
{
	const struct rd_step *step = &runner->plan->steps[i];
	int rank = runner->plan->problem.rank;
	struct pipe *pipe = pipe_between(check, step->peer, rank);
	const struct message *message = oldest(pipe);
	int chunk = check->runners[pipe->from].plan->steps[message->step].chunk;

	if (chunk != step->chunk && chunk < 0)
		return rd_step_wrong(runner->plan, i, "rank %d, step %d, only signals", pipe->from,
			message->step);
	if (chunk != step->chunk)
		return rd_step_wrong(runner->plan, i, "rank %d, step %d, sends it chunk %d",
			pipe->from, message->step, chunk);
	return rd_races_receive(&check->races, rank, i, pipe->from, message->step, message->clock);
}

/* Its room is free. */
static struct rd_symbol pop(struct check *check, const struct runner *runner, int peer)
{
	struct pipe *pipe = pipe_between(check, peer, runner->plan->problem.rank);
	struct rd_symbol value = oldest(pipe)->value;

	pipe->popped++;
	wake(check, peer);
	return value;
}

static struct rd_symbol *stored(const struct runner *runner, struct rd_where where)
{
	int first = where.memory == RD_OUT ? 0 : runner->out_chunks;

	return &runner->out[first + where.chunk];
}

static bool is_in_chunk(const struct rd_plan *plan, int in_chunk, int chunk)
{
	int block = rd_in_block(&plan->problem, chunk / plan->parts);

	return block >= 0 && block * plan->parts + chunk % plan->parts == in_chunk;
}

static int read_value(const struct runner *runner, int i, struct rd_symbol *value)
{
	const struct rd_plan *plan = runner->plan;
	const struct rd_step *step = &plan->steps[i];

	if (step->from.memory == RD_IN) {
		*value = (struct rd_symbol){ .chunk = step->chunk, .who = plan->problem.rank };
		if (!is_in_chunk(plan, step->from.chunk, step->chunk))
			return rd_step_wrong(plan, i, "it reads another chunk than it says");
		return 0;
	}
	*value = *stored(runner, step->from);
	if (value->chunk < 0)
		return rd_step_wrong(plan, i, "it reads what no step has written");
	if (value->chunk != step->chunk)
		return rd_step_wrong(plan, i, "it reads where chunk %d lies", value->chunk);
	return 0;
}

static void store(struct check *check, const struct runner *runner, struct rd_where into,
	struct rd_symbol value)
{
	struct rd_symbol *place = stored(runner, into);

	rd_symbol_hold(&check->symbols, value);
	rd_symbol_drop(&check->symbols, *place);
	*place = value;
}

static int check_last(
	const struct check *check, const struct runner *runner, struct rd_symbol value)
{
	const struct rd_step *step = &runner->plan->steps[runner->step];
	bool complete = rd_symbol_count(&check->symbols, value) == check->size;

	/* Nothing is averaged in a barrier. */
	if (step->last == complete || check->collective == RD_BARRIER)
		return 0;
	if (complete)
		return rd_step_wrong(runner->plan, runner->step,
			"the result is complete, and not marked `last`");
	return rd_step_wrong(runner->plan, runner->step,
		"marked `last`, and rank %d's contribution is missing",
		rd_symbol_missing(&check->symbols, value));
}

/* *value becomes what it is with `mine` combined into it. */
static int add_to(struct check *check, const struct runner *runner, struct rd_symbol *value,
	struct rd_symbol mine)
{
	struct rd_symbol result;
	int twice, err;

	twice = rd_symbol_common(&check->symbols, *value, mine);
	if (twice >= 0 && check->collective != RD_BARRIER)
		return rd_step_wrong(runner->plan, runner->step,
			"rank %d's contribution is already in it", twice);
	err = rd_symbol_combine(&check->symbols, *value, mine, &result);
	if (err)
		return err;
	rd_symbol_drop(&check->symbols, *value);
	*value = result;
	return 0;
}

/* *value, which came in a message, becomes the result. */
static int reduce(struct check *check, const struct runner *runner, struct rd_symbol *value)
{
	struct rd_symbol mine;
	int err = read_value(runner, runner->step, &mine);

	if (!err)
		err = add_to(check, runner, value, mine);
	return err ? err : check_last(check, runner, *value);
}

/* Merges the held messages and this rank's input, rank by rank. One reference. */
static int merge(struct check *check, const struct runner *runner, struct rd_symbol *value)
{
	struct rd_symbol mine;
	int rank = runner->plan->problem.rank;
	int err = read_value(runner, runner->step, &mine);

	if (err)
		return err;
	rd_symbol_hold(&check->symbols, mine);
	for (int peer = 0; peer < check->size && !err; peer++) {
		struct rd_symbol theirs = peer == rank ? mine : pop(check, runner, peer);

		if (peer == 0) {
			*value = theirs;
			continue;
		}
		err = add_to(check, runner, value, theirs);
		rd_symbol_drop(&check->symbols, theirs);
	}
	return err ? err : check_last(check, runner, *value);
}

static int fetch(struct check *check, const struct runner *runner, const struct rd_step *step)
{
	struct rd_symbol value = { .chunk = step->chunk, .who = step->peer };

	if (!is_in_chunk(check->runners[step->peer].plan, step->from.chunk, step->chunk))
		return rd_step_wrong(runner->plan, runner->step,
			"rank %d does not have chunk %d there", step->peer, step->chunk);
	store(check, runner, step->into, value);
	return 0;
}

static int spread(struct check *check, const struct runner *runner, const struct rd_step *step)
{
	struct rd_symbol value = { .chunk = step->chunk, .who = step->peer };

	if (!is_in_chunk(check->runners[step->peer].plan, step->from.chunk, step->chunk))
		return rd_step_wrong(runner->plan, runner->step,
			"rank %d does not have chunk %d there", step->peer, step->chunk);
	for (int rank = 0; rank < check->size; rank++) {
		const struct runner *owner = &check->runners[rank];

		if (!rd_spread_reaches(runner->plan, step, rank))
			continue;
		if (step->into.chunk >= owner->out_chunks)
			return rd_step_wrong(runner->plan, runner->step,
				"rank %d has %d output chunks", rank, owner->out_chunks);
		store(check, owner, step->into, value);
	}
	return 0;
}

/* Each of the two chunks takes the other's place. */
static int swap(struct check *check, const struct runner *runner, const struct rd_step *step)
{
	const struct runner *peer = &check->runners[step->peer];
	struct rd_symbol ours = { .chunk = step->other, .who = runner->plan->problem.rank };

	if (!is_in_chunk(runner->plan, step->into.chunk, step->other))
		return rd_step_wrong(
			runner->plan, runner->step, "chunk %d does not lie there", step->other);
	if (step->from.chunk >= peer->out_chunks)
		return rd_step_wrong(runner->plan, runner->step, "rank %d has %d output chunks",
			step->peer, peer->out_chunks);
	store(check, peer, (struct rd_where){ RD_OUT, step->from.chunk }, ours);
	return fetch(check, runner, step);
}

/* The chunk of all ranks' inputs, one after the other. Held once. */
static int combine_all(struct check *check, const struct runner *runner, const struct rd_step *step,
	struct rd_symbol *value)
{
	for (int rank = 0; rank < check->size; rank++) {
		struct rd_symbol theirs = { .chunk = step->chunk, .who = rank }, sum = theirs;
		int err = 0;

		if (!is_in_chunk(check->runners[rank].plan, step->from.chunk, step->chunk))
			return rd_step_wrong(runner->plan, runner->step,
				"rank %d does not have chunk %d there", rank, step->chunk);
		if (rank > 0) {
			err = rd_symbol_combine(&check->symbols, *value, theirs, &sum);
			rd_symbol_drop(&check->symbols, *value);
		}
		if (err)
			return err;
		*value = sum;
	}
	return 0;
}

static int combine(struct check *check, const struct runner *runner, const struct rd_step *step)
{
	struct rd_symbol value;
	int err = combine_all(check, runner, step, &value);

	if (!err)
		err = check_last(check, runner, value);
	for (int rank = 0; rank < check->size && !err; rank++) {
		const struct runner *owner = &check->runners[rank];

		if (step->to >= 0 && step->to != rank)
			continue;
		if (step->into.memory == RD_OUT && step->into.chunk >= owner->out_chunks)
			return rd_step_wrong(runner->plan, runner->step,
				"rank %d has %d output chunks", rank, owner->out_chunks);
		store(check, owner, step->into, value);
	}
	if (!err)
		rd_symbol_drop(&check->symbols, value);
	return err;
}

/* A step that takes no message: *value is what it sends or copies. */
static int run_alone(struct check *check, const struct runner *runner, struct rd_symbol *value)
{
	const struct rd_step *step = &runner->plan->steps[runner->step];
	int err = 0;

	*value = (struct rd_symbol){ .chunk = -1 };
	if (step->kind == RD_STEP_FETCH)
		err = fetch(check, runner, step);
	else if (step->kind == RD_STEP_SWAP)
		err = swap(check, runner, step);
	else if (step->kind == RD_STEP_COMBINE)
		err = combine(check, runner, step);
	else if (step->kind == RD_STEP_SPREAD)
		err = spread(check, runner, step);
	else if (rd_step_reads(step) && step->kind != RD_STEP_MERGE)
		err = read_value(runner, runner->step, value);
	rd_symbol_hold(&check->symbols, *value);
	return err ? err : rd_races_step(&check->races, runner->plan->problem.rank, runner->step);
}

static int run_step(struct check *check, struct runner *runner)
{
	const struct rd_step *step = &runner->plan->steps[runner->step];
	struct rd_symbol value = { .chunk = -1 };
	int err;

	err = rd_step_takes(step) ? look(check, runner, runner->step)
				  : run_alone(check, runner, &value);
	if (err || step->kind == RD_STEP_HOLD)
		return err;
	if (rd_step_takes(step))
		value = pop(check, runner, step->peer);
	if (step->kind == RD_STEP_MERGE)
		err = merge(check, runner, &value);
	else if (rd_step_reduces(step))
		err = reduce(check, runner, &value);
	if (err)
		return err;
	if (rd_step_writes(step))
		store(check, runner, step->into, value);
	if (rd_step_puts(step))
		err = push(check, runner, runner->step, value);
	rd_symbol_drop(&check->symbols, value);
	return err;
}

/* ---- What the plans promise ---------------------------------------------------------------- */

/* The same bits on every rank: the same contributions, combined in the same order. */
static int check_order(struct check *check, int rank, struct rd_symbol value)
{
	uint64_t order = rd_symbol_order(&check->symbols, value);

	if (check->collective != RD_ALL_REDUCE)
		return 0;
	if (!check->orders[value.chunk]) {
		check->orders[value.chunk] = order;
		check->order_ranks[value.chunk] = rank;
	}
	if (check->orders[value.chunk] == order)
		return 0;
	return rd_fail(RONDO_INVALID,
		"rank %d: chunk %d is not the same bits as on rank %d: combined in another order",
		rank, value.chunk, check->order_ranks[value.chunk]);
}

static int check_output(struct check *check, const struct runner *runner, int out_chunk, int chunk)
{
	struct rd_symbol value = runner->out[out_chunk];
	int rank = runner->plan->problem.rank;

	if (value.chunk < 0)
		return rd_fail(RONDO_INVALID, "rank %d: output chunk %d was never written", rank,
			out_chunk);
	if (value.chunk != chunk)
		return rd_fail(RONDO_INVALID, "rank %d: output chunk %d is chunk %d instead of %d",
			rank, out_chunk, value.chunk, chunk);
	if (!check->reduces)
		return 0;
	if (rd_symbol_count(&check->symbols, value) < check->size)
		return rd_fail(RONDO_INVALID,
			"rank %d: rank %d's contribution is not in output chunk %d", rank,
			rd_symbol_missing(&check->symbols, value), out_chunk);
	return check_order(check, rank, value);
}

static int check_outputs(struct check *check, const struct runner *runner)
{
	int parts = runner->plan->parts;

	for (int i = 0; i < runner->out_chunks; i++) {
		int block = runner->promised[i / parts];
		int err;

		if (block < 0)
			continue;
		err = check_output(check, runner, i, block * parts + i % parts);
		if (err)
			return err;
	}
	return 0;
}

/* ---- Running it ---------------------------------------------------------------------------- */

static bool finished(const struct runner *runner)
{
	return runner->step == runner->plan->step_count;
}

static int advance(struct check *check, struct runner *runner)
{
	while (!finished(runner) && waits_for(check, runner) < 0) {
		int err = run_step(check, runner);

		if (err)
			return err;
		runner->step++;
	}
	return 0;
}

/* Messages to ranks that have finished. */
static int check_left_over(struct check *check)
{
	for (int i = 0; i < check->pipe_count; i++) {
		struct pipe *pipe = &check->pipes[i];

		const struct rd_plan *plan = check->runners[pipe->from].plan;
		int step;

		if (empty(pipe) || !finished(&check->runners[pipe->to]))
			continue;
		step = oldest(pipe)->step;
		return rd_step_wrong(plan, step, "rank %d has finished and never %s it", pipe->to,
			rd_step_is_signal(&plan->steps[step]) ? "awaits" : "receives");
	}
	return 0;
}

/* From here the ranks wait for each other in a circle. */
static int tell_circle(const struct check *check, int first)
{
	char reason[RD_REASON_SIZE], what[160];
	int length = 0;
	int rank = first;

	do {
		const struct runner *runner = &check->runners[rank];

		if (length > RD_REASON_SIZE - 200) {
			length += snprintf(reason + length, sizeof(reason) - length, "... for ");
			break;
		}
		rd_step_print(&runner->plan->steps[runner->step], what, sizeof(what));
		length += snprintf(reason + length, sizeof(reason) - length,
			"rank %d, step %d (%s), waits for ", rank, runner->step, what);
		rank = waits_for(check, runner);
	} while (rank != first);
	snprintf(reason + length, sizeof(reason) - length, "rank %d", first);
	return rd_fail(RONDO_INVALID, "deadlock: %s", reason);
}

static int deadlock(struct check *check, int rank)
{
	/* No rank is queued any more: the flag marks who was met on the way. */
	while (!check->runners[rank].queued) {
		struct runner *runner = &check->runners[rank];
		int next = waits_for(check, runner);

		if (finished(&check->runners[next]))
			return rd_step_wrong(runner->plan, runner->step,
				"rank %d has finished and never %s it", next,
				rd_step_is_signal(&runner->plan->steps[runner->step]) ? "signals"
										      : "sends");
		runner->queued = true;
		rank = next;
	}
	return tell_circle(check, rank);
}

static int run(struct check *check)
{
	int err = 0;

	for (int rank = 0; rank < check->size; rank++)
		wake(check, rank);
	while (check->queue_length && !err)
		err = advance(check, &check->runners[next_awake(check)]);
	if (!err)
		err = check_left_over(check);
	for (int rank = 0; rank < check->size && !err; rank++)
		if (!finished(&check->runners[rank]))
			err = deadlock(check, rank);
	for (int rank = 0; rank < check->size && !err; rank++)
		err = check_outputs(check, &check->runners[rank]);
	return err ? err : rd_races_end(&check->races);
}

/* ---- Making and freeing it ----------------------------------------------------------------- */

static void promise(struct runner *runner)
{
	const struct rd_problem *problem = &runner->plan->problem;
	int blocks = rd_blocks(problem);

	for (int i = 0; i < rd_out_blocks(problem); i++)
		runner->promised[i] = -1;
	for (int block = 0; block < blocks; block++) {
		int place = rd_out_block(problem, block);

		if (place >= 0)
			runner->promised[place] = block;
	}
}

static void lay_out(struct check *check, struct rd_plan *const *plans)
{
	struct rd_symbol *values = check->values;
	int *promises = check->promises;
	unsigned *send_marks = check->send_marks;

	for (int rank = 0; rank < check->size; rank++) {
		struct runner *runner = &check->runners[rank];
		const struct rd_plan *plan = plans[rank];

		runner->plan = plan;
		runner->out = values;
		runner->out_chunks = rd_plan_chunks(plan, RD_OUT);
		runner->promised = promises;
		runner->send_marks = send_marks;
		for (int i = 0; i < runner->out_chunks + plan->scratch_chunks; i++)
			*values++ = (struct rd_symbol){ .chunk = -1 };
		promises += rd_out_blocks(&plan->problem);
		send_marks += plan->step_count;
		promise(runner);
	}
}

static void connect_pipes(struct check *check)
{
	for (int rank = 0; rank < check->size; rank++) {
		const struct rd_plan *plan = check->runners[rank].plan;

		for (int i = 0; i < plan->step_count; i++) {
			if (rd_step_puts(&plan->steps[i]))
				add_pipe(check, rank, plan->steps[i].to);
			if (rd_step_takes(&plan->steps[i]))
				add_pipe(check, plan->steps[i].peer, rank);
		}
	}
}

static int check_init(struct check *check, struct rd_plan *const *plans, int size)
{
	size_t chunks = (size_t)rd_blocks(&plans[0]->problem) * plans[0]->parts;
	size_t pairs = (size_t)size * size;
	size_t values = 0, promises = 0, steps = 0;

	for (int rank = 0; rank < size; rank++) {
		values += rd_plan_chunks(plans[rank], RD_OUT) + plans[rank]->scratch_chunks;
		promises += rd_out_blocks(&plans[rank]->problem);
		steps += plans[rank]->step_count;
	}
	*check = (struct check){
		.size = size,
		.collective = plans[0]->problem.collective,
		.reduces = rd_collective_reduces(plans[0]->problem.collective),
		.runners = calloc(size, sizeof(*check->runners)),
		.queue = calloc(size, sizeof(*check->queue)),
		.pipe_numbers = calloc(pairs, sizeof(*check->pipe_numbers)),
		/* One more: an allocation of nothing may give NULL. */
		.pipes = calloc((2 * steps < pairs ? 2 * steps : pairs) + 1, sizeof(*check->pipes)),
		.orders = calloc(chunks, sizeof(*check->orders)),
		.order_ranks = calloc(chunks, sizeof(*check->order_ranks)),
		.values = calloc(values + 1, sizeof(*check->values)),
		.promises = calloc(promises + 1, sizeof(*check->promises)),
		.send_marks = calloc(steps + 1, sizeof(*check->send_marks)),
	};
	if (!check->runners || !check->queue || !check->pipe_numbers || !check->pipes ||
		!check->orders || !check->order_ranks || !check->values || !check->promises ||
		!check->send_marks)
		return rd_fail(RONDO_MEMORY, "no memory to check plans for %d ranks", size);
	rd_symbols_init(&check->symbols, size);
	lay_out(check, plans);
	connect_pipes(check);
	return rd_races_init(&check->races, plans, size);
}

static void check_finish(struct check *check)
{
	free(check->runners);
	free(check->queue);
	free(check->pipe_numbers);
	free(check->pipes);
	free(check->orders);
	free(check->order_ranks);
	free(check->values);
	free(check->promises);
	free(check->send_marks);
	rd_symbols_finish(&check->symbols);
	rd_races_finish(&check->races);
}

int rd_check_plans(struct rd_plan *const *plans, int size)
{
	struct check check;
	int err;

	for (int rank = 0; rank < size; rank++) {
		err = rd_check_fields(plans, size, rank);
		if (!err)
			err = rd_check_overwrites(plans[rank]);
		if (err)
			return err;
	}
	err = check_init(&check, plans, size);
	if (!err)
		err = run(&check);
	check_finish(&check);
	return err;
}

int rd_check_algorithm(const struct rd_algorithm *algorithm, enum rd_collective collective,
	int size, int root, int target, const struct rd_layout *layout)
{
	struct rd_plan **plans = calloc(size, sizeof(*plans));
	int err = 0;

	if (!plans)
		return rd_fail(RONDO_MEMORY, "no memory for the plans of %d ranks", size);
	for (int rank = 0; rank < size && !err; rank++)
		err = rd_plan_create(&plans[rank], algorithm,
			&(struct rd_problem){ collective, rank, size, root, target, layout });
	if (!err)
		err = rd_check_plans(plans, size);
	if (err)
		err = rd_fail(err, "%s, %s, %d rank%s, root %d, target %d: %s", algorithm->name,
			rd_collective_name(collective), size, RD_PLURAL(size), root, target,
			rondo_last_error());
	for (int rank = 0; rank < size; rank++)
		rd_plan_destroy(plans[rank]);
	free(plans);
	return err;
}
