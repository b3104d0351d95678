#include "check/symbolic.h"

#include <stdlib.h>

#include "base/error.h"
#include "plan/print.h"

/* ---- Pipes --------------------------------------------------------------------------------- */

static struct rd_pipe *pipe_between(const struct rd_symbolic *run, int from, int to)
{
	return &run->pipes[run->pipe_numbers[(size_t)from * run->size + to] - 1];
}

static void add_pipe(struct rd_symbolic *run, int from, int to)
{
	int *number = &run->pipe_numbers[(size_t)from * run->size + to];

	if (*number)
		return;
	run->pipes[run->pipe_count] = (struct rd_pipe){ .from = from, .to = to };
	*number = ++run->pipe_count;
}

static void wake(struct rd_symbolic *run, int rank)
{
	if (run->runners[rank].queued)
		return;
	run->runners[rank].queued = true;
	run->queue[(run->queue_head + run->queue_length++) % run->size] = rank;
}

static int next_awake(struct rd_symbolic *run)
{
	int rank = run->queue[run->queue_head];

	run->queue_head = (run->queue_head + 1) % run->size;
	run->queue_length--;
	run->runners[rank].queued = false;
	return rank;
}

static bool full(const struct rd_pipe *pipe)
{
	return pipe->pushed - pipe->popped == RD_PIPE_ROOM;
}

/* The receiver has room for one message that no step of it awaits. More stay in the sender's
   memory. */
static bool has_left(const struct rd_pipe *pipe, unsigned send_mark)
{
	return (int)(send_mark - pipe->popped) <= 1;
}

/* A forward needs both of its links at once: the strictest that an executor may be. */
int rd_symbolic_waits_for(const struct rd_symbolic *run, const struct rd_runner *runner)
{
	const struct rd_step *step = &runner->plan->steps[runner->step];
	int rank = runner->plan->problem.rank;

	if (step->kind == RD_STEP_FLUSH) {
		unsigned send_mark = runner->send_marks[step->sender];

		return has_left(pipe_between(run, rank, step->to), send_mark) ? -1 : step->to;
	}
	if (rd_step_takes(step) && rd_pipe_is_empty(pipe_between(run, step->peer, rank)))
		return step->peer;
	if (rd_step_puts(step) && full(pipe_between(run, rank, step->to)))
		return step->to;
	return -1;
}

/* ---- Steps --------------------------------------------------------------------------------- */

static int push(
	struct rd_symbolic *run, const struct rd_runner *runner, int i, struct rd_symbol value)
{
	const struct rd_step *step = &runner->plan->steps[i];
	int rank = runner->plan->problem.rank;
	struct rd_pipe *pipe = pipe_between(run, rank, step->to);
	struct rd_pipe_message *message = &pipe->messages[pipe->pushed % RD_PIPE_ROOM];
	int err;

	message->value = rd_symbol_get(&run->symbols, value);
	message->step = i;
	err = rd_races_send(&run->races, rank, &message->clock);
	runner->send_marks[i] = ++pipe->pushed;
	wake(run, step->to);
	return err;
}

/* In a message that no step adds to, a contribution would be taken for a sum (exec/mean.h). */
static int check_passed_on(
	const struct rd_symbolic *run, const struct rd_runner *runner, struct rd_symbol value)
{
	if (!rd_collective_reduces(run->collective) || run->collective == RD_BARRIER ||
		rd_symbol_count(&run->symbols, value) > 1)
		return 0;
	return rd_step_wrong(runner->plan, runner->step,
		"receives one rank's contribution, and does not combine it");
}

/* The oldest message for a step is the one that it expects. */
static int check_message(struct rd_symbolic *run, const struct rd_runner *runner, int i)
{
	const struct rd_step *step = &runner->plan->steps[i];
	int rank = runner->plan->problem.rank;
	struct rd_pipe *pipe = pipe_between(run, step->peer, rank);
	const struct rd_pipe_message *message = rd_pipe_oldest(pipe);
	int chunk = run->runners[pipe->from].plan->steps[message->step].chunk;

	if (chunk != step->chunk && chunk < 0)
		return rd_step_wrong(runner->plan, i, "rank %d, step %d, only signals", pipe->from,
			message->step);
	if (chunk != step->chunk)
		return rd_step_wrong(runner->plan, i, "rank %d, step %d, sends it chunk %d",
			pipe->from, message->step, chunk);
	return rd_races_receive(&run->races, rank, i, pipe->from, message->step, message->clock);
}

/* Takes the oldest message, which frees its room. */
static struct rd_symbol pop(struct rd_symbolic *run, const struct rd_runner *runner, int peer)
{
	struct rd_pipe *pipe = pipe_between(run, peer, runner->plan->problem.rank);
	struct rd_symbol value = rd_pipe_oldest(pipe)->value;

	pipe->popped++;
	wake(run, peer);
	return value;
}

static struct rd_symbol *stored(const struct rd_runner *runner, struct rd_where where)
{
	int first = where.memory == RD_OUT ? 0 : runner->out_chunks;

	return &runner->out[first + where.chunk];
}

static bool is_in_chunk(const struct rd_plan *plan, int in_chunk, int chunk)
{
	int block = rd_in_block(&plan->problem, chunk / plan->parts);

	return block >= 0 && block * plan->parts + chunk % plan->parts == in_chunk;
}

static int read_value(const struct rd_runner *runner, int i, struct rd_symbol *value)
{
	const struct rd_plan *plan = runner->plan;
	const struct rd_step *step = &plan->steps[i];

	if (step->from.memory == RD_IN) {
		*value = (struct rd_symbol){ .chunk = step->chunk, .id = plan->problem.rank };
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

static void store(struct rd_symbolic *run, const struct rd_runner *runner, struct rd_where into,
	struct rd_symbol value)
{
	struct rd_symbol *place = stored(runner, into);

	rd_symbol_get(&run->symbols, value);
	rd_symbol_put(&run->symbols, *place);
	*place = value;
}

static int check_last(
	const struct rd_symbolic *run, const struct rd_runner *runner, struct rd_symbol value)
{
	const struct rd_step *step = &runner->plan->steps[runner->step];
	bool complete = rd_symbol_count(&run->symbols, value) == run->size;

	/* Nothing is averaged in a barrier. */
	if (step->last == complete || run->collective == RD_BARRIER)
		return 0;
	if (complete)
		return rd_step_wrong(runner->plan, runner->step,
			"the result is complete, and not marked `last`");
	return rd_step_wrong(runner->plan, runner->step,
		"marked `last`, and rank %d's contribution is missing",
		rd_symbol_missing(&run->symbols, value));
}

/* Combines `mine` into *value. */
static int add_to(struct rd_symbolic *run, const struct rd_runner *runner, struct rd_symbol *value,
	struct rd_symbol mine)
{
	struct rd_symbol result;
	int twice, err;

	twice = rd_symbol_common(&run->symbols, *value, mine);
	if (twice >= 0 && run->collective != RD_BARRIER)
		return rd_step_wrong(runner->plan, runner->step,
			"rank %d's contribution is already in it", twice);
	err = rd_symbol_combine(&run->symbols, *value, mine, &result);
	if (err)
		return err;
	rd_symbol_put(&run->symbols, *value);
	*value = result;
	return 0;
}

/* Combines this rank's value into *value, which came in a message. */
static int reduce(struct rd_symbolic *run, const struct rd_runner *runner, struct rd_symbol *value)
{
	struct rd_symbol mine;
	int err = read_value(runner, runner->step, &mine);

	if (!err)
		err = add_to(run, runner, value, mine);
	return err ? err : check_last(run, runner, *value);
}

/* Merges the messages of the HOLDs and this rank's input, in rank order. One reference. */
static int merge(struct rd_symbolic *run, const struct rd_runner *runner, struct rd_symbol *value)
{
	struct rd_symbol mine;
	int rank = runner->plan->problem.rank;
	int err = read_value(runner, runner->step, &mine);

	if (err)
		return err;
	rd_symbol_get(&run->symbols, mine);
	for (int peer = 0; peer < run->size && !err; peer++) {
		struct rd_symbol theirs = peer == rank ? mine : pop(run, runner, peer);

		if (rd_symbol_count(&run->symbols, theirs) > 1)
			err = rd_step_wrong(runner->plan, runner->step,
				"rank %d sends it more than its own contribution", peer);
		if (peer == 0) {
			*value = theirs;
			continue;
		}
		if (!err)
			err = add_to(run, runner, value, theirs);
		rd_symbol_put(&run->symbols, theirs);
	}
	return err ? err : check_last(run, runner, *value);
}

/* The input chunk of rank `owner` that the step reads is the chunk that it names. */
static int check_input(const struct rd_symbolic *run, const struct rd_runner *runner, int owner)
{
	const struct rd_step *step = &runner->plan->steps[runner->step];

	if (is_in_chunk(run->runners[owner].plan, step->from.chunk, step->chunk))
		return 0;
	return rd_step_wrong(runner->plan, runner->step, "rank %d does not have chunk %d there",
		owner, step->chunk);
}

/* Stores a value at rank `owner`, whose output must have the place. */
static int store_at(struct rd_symbolic *run, const struct rd_runner *runner, int owner,
	struct rd_where into, struct rd_symbol value)
{
	const struct rd_runner *other = &run->runners[owner];

	if (into.memory == RD_OUT && into.chunk >= other->out_chunks)
		return rd_step_wrong(runner->plan, runner->step, "rank %d has %d output chunks",
			owner, other->out_chunks);
	store(run, other, into, value);
	return 0;
}

static int fetch(
	struct rd_symbolic *run, const struct rd_runner *runner, const struct rd_step *step)
{
	struct rd_symbol value = { .chunk = step->chunk, .id = step->peer };

	int err = check_input(run, runner, step->peer);

	if (!err)
		store(run, runner, step->into, value);
	return err;
}

static int spread(
	struct rd_symbolic *run, const struct rd_runner *runner, const struct rd_step *step)
{
	struct rd_symbol value = { .chunk = step->chunk, .id = step->peer };
	int err = check_input(run, runner, step->peer);

	for (int rank = 0; rank < run->size && !err; rank++)
		if (rd_spread_reaches(runner->plan, step, rank))
			err = store_at(run, runner, rank, step->into, value);
	return err;
}

/* Each of the two chunks takes the place of the other. */
static int swap(struct rd_symbolic *run, const struct rd_runner *runner, const struct rd_step *step)
{
	struct rd_symbol ours = { .chunk = step->other, .id = runner->plan->problem.rank };
	int err;

	if (!is_in_chunk(runner->plan, step->into.chunk, step->other))
		return rd_step_wrong(
			runner->plan, runner->step, "chunk %d does not lie there", step->other);
	err = store_at(
		run, runner, step->peer, (struct rd_where){ RD_OUT, step->from.chunk }, ours);
	return err ? err : fetch(run, runner, step);
}

/* The sum of the chunk of all ranks' inputs, in rank order. One reference. */
static int combine_all(struct rd_symbolic *run, const struct rd_runner *runner,
	const struct rd_step *step, struct rd_symbol *value)
{
	int err = 0;

	for (int rank = 0; rank < run->size && !err; rank++) {
		struct rd_symbol theirs = { .chunk = step->chunk, .id = rank }, sum = theirs;

		err = check_input(run, runner, rank);
		if (!err && rank > 0) {
			err = rd_symbol_combine(&run->symbols, *value, theirs, &sum);
			rd_symbol_put(&run->symbols, *value);
		}
		if (!err)
			*value = sum;
	}
	return err;
}

static int combine(
	struct rd_symbolic *run, const struct rd_runner *runner, const struct rd_step *step)
{
	struct rd_symbol value;
	int err = combine_all(run, runner, step, &value);

	if (!err)
		err = check_last(run, runner, value);
	for (int rank = 0; rank < run->size && !err; rank++)
		if (step->to < 0 || step->to == rank)
			err = store_at(run, runner, rank, step->into, value);
	if (!err)
		rd_symbol_put(&run->symbols, value);
	return err;
}

/* Runs a step that takes no message. *value: the value that it sends or copies. */
static int run_alone(
	struct rd_symbolic *run, const struct rd_runner *runner, struct rd_symbol *value)
{
	const struct rd_step *step = &runner->plan->steps[runner->step];
	int err = 0;

	*value = (struct rd_symbol){ .chunk = -1 };
	if (step->kind == RD_STEP_FETCH)
		err = fetch(run, runner, step);
	else if (step->kind == RD_STEP_SWAP)
		err = swap(run, runner, step);
	else if (step->kind == RD_STEP_COMBINE)
		err = combine(run, runner, step);
	else if (step->kind == RD_STEP_SPREAD)
		err = spread(run, runner, step);
	else if (rd_step_reads(step) && step->kind != RD_STEP_MERGE)
		err = read_value(runner, runner->step, value);
	rd_symbol_get(&run->symbols, *value);
	return err ? err : rd_races_step(&run->races, runner->plan->problem.rank, runner->step);
}

static int run_step(struct rd_symbolic *run, struct rd_runner *runner)
{
	const struct rd_step *step = &runner->plan->steps[runner->step];
	struct rd_symbol value = { .chunk = -1 };
	int err;

	err = rd_step_takes(step) ? check_message(run, runner, runner->step)
				  : run_alone(run, runner, &value);
	if (err || step->kind == RD_STEP_HOLD)
		return err;
	if (rd_step_takes(step))
		value = pop(run, runner, step->peer);
	if (step->kind == RD_STEP_MERGE)
		err = merge(run, runner, &value);
	else if (rd_step_reduces(step))
		err = reduce(run, runner, &value);
	else if (step->kind == RD_STEP_RECV || step->kind == RD_STEP_FORWARD)
		err = check_passed_on(run, runner, value);
	if (err)
		return err;
	if (rd_step_writes(step))
		store(run, runner, step->into, value);
	if (rd_step_puts(step))
		err = push(run, runner, runner->step, value);
	rd_symbol_put(&run->symbols, value);
	return err;
}

/* ---- All ranks ------------------------------------------------------------------------------ */

static int advance(struct rd_symbolic *run, struct rd_runner *runner)
{
	while (!rd_runner_is_finished(runner) && rd_symbolic_waits_for(run, runner) < 0) {
		int err = run_step(run, runner);

		if (err)
			return err;
		runner->step++;
	}
	return 0;
}

int rd_symbolic_run(struct rd_symbolic *run)
{
	int err = 0;

	for (int rank = 0; rank < run->size; rank++)
		wake(run, rank);
	while (run->queue_length && !err)
		err = advance(run, &run->runners[next_awake(run)]);
	return err;
}

/* ---- Creating and freeing it --------------------------------------------------------------- */

static void lay_out(struct rd_symbolic *run, struct rd_plan *const *plans)
{
	struct rd_symbol *values = run->values;
	unsigned *send_marks = run->send_marks;

	for (int rank = 0; rank < run->size; rank++) {
		struct rd_runner *runner = &run->runners[rank];
		const struct rd_plan *plan = plans[rank];

		runner->plan = plan;
		runner->out = values;
		runner->out_chunks = rd_plan_chunks(plan, RD_OUT);
		runner->send_marks = send_marks;
		for (int i = 0; i < runner->out_chunks + plan->scratch_chunks; i++)
			*values++ = (struct rd_symbol){ .chunk = -1 };
		send_marks += plan->step_count;
	}
}

static void connect_pipes(struct rd_symbolic *run)
{
	for (int rank = 0; rank < run->size; rank++) {
		const struct rd_plan *plan = run->runners[rank].plan;

		for (int i = 0; i < plan->step_count; i++) {
			if (rd_step_puts(&plan->steps[i]))
				add_pipe(run, rank, plan->steps[i].to);
			if (rd_step_takes(&plan->steps[i]))
				add_pipe(run, plan->steps[i].peer, rank);
		}
	}
}

int rd_symbolic_init(struct rd_symbolic *run, struct rd_plan *const *plans, int size)
{
	size_t pairs = (size_t)size * size, values = 0, steps = 0;

	for (int rank = 0; rank < size; rank++) {
		values += rd_plan_chunks(plans[rank], RD_OUT) + plans[rank]->scratch_chunks;
		steps += plans[rank]->step_count;
	}
	*run = (struct rd_symbolic){
		.size = size,
		.collective = plans[0]->problem.collective,
		.runners = calloc(size, sizeof(*run->runners)),
		.queue = calloc(size, sizeof(*run->queue)),
		.pipe_numbers = calloc(pairs, sizeof(*run->pipe_numbers)),
		/* One more: an allocation of nothing may give NULL. */
		.pipes = calloc((2 * steps < pairs ? 2 * steps : pairs) + 1, sizeof(*run->pipes)),
		.values = calloc(values + 1, sizeof(*run->values)),
		.send_marks = calloc(steps + 1, sizeof(*run->send_marks)),
	};
	if (!run->runners || !run->queue || !run->pipe_numbers || !run->pipes || !run->values ||
		!run->send_marks)
		return rd_fail(RONDO_MEMORY, "no memory to check plans for %d ranks", size);
	rd_symbols_init(&run->symbols, size);
	lay_out(run, plans);
	connect_pipes(run);
	return rd_races_init(&run->races, plans, size);
}

void rd_symbolic_finish(struct rd_symbolic *run)
{
	free(run->runners);
	free(run->queue);
	free(run->pipe_numbers);
	free(run->pipes);
	free(run->values);
	free(run->send_marks);
	rd_symbols_finish(&run->symbols);
	rd_races_finish(&run->races);
}
