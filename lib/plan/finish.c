#include "plan/finish.h"

#include <stdlib.h>

#include "base/error.h"
#include "plan/refuse.h"
#include "plan/steps.h"

/* The next access to each place, while the pass goes from the last step to the first. */
enum access { NONE, READ, WRITTEN };

/* Bytes: plans of many ranks have thousands of places. */
struct accesses {
	unsigned char *scratch, *in, *out;
};

static unsigned char *next_access(const struct accesses *accesses, struct rd_where where)
{
	switch (where.memory) {
	case RD_IN:
		return &accesses->in[where.chunk];
	case RD_OUT:
		return &accesses->out[where.chunk];
	case RD_SCRATCH:
		return &accesses->scratch[where.chunk];
	default:
		return NULL;
	}
}

/* Whether a later step, or in the output the caller, reads the value that is stored there. */
static bool is_live(const struct accesses *accesses, struct rd_where stored)
{
	const unsigned char *next = next_access(accesses, stored);

	return next && (*next == READ || (*next == NONE && stored.memory == RD_OUT));
}

/* The places that the steps name, counted from 0: with direct access other ranks' too, where there
   may be more. */
static size_t count_places(const struct rd_plan *plan, enum rd_memory memory)
{
	int last = -1;

	if (!plan->direct_access)
		return (size_t)rd_plan_chunks(plan, memory);
	for (int i = 0; i < plan->step_count; i++) {
		const struct rd_where wheres[] = { plan->steps[i].from, plan->steps[i].into };

		for (int k = 0; k < 2; k++)
			if (wheres[k].memory == memory && wheres[k].chunk > last)
				last = wheres[k].chunk;
	}
	return (size_t)last + 1;
}

/* Drops the stores of forwarded values that are not live. */
static int drop_stores(struct rd_plan *plan)
{
	size_t scratch = (size_t)plan->scratch_chunks, in = count_places(plan, RD_IN);
	unsigned char *all = calloc(scratch + in + count_places(plan, RD_OUT) + 1, sizeof(*all));
	struct accesses accesses = { all, all + scratch, all + scratch + in };

	if (!all)
		return rd_fail(RONDO_MEMORY, "no memory to finish a plan");
	for (int i = plan->step_count - 1; i >= 0; i--) {
		struct rd_step *step = &plan->steps[i];
		bool forwards =
			step->kind == RD_STEP_FORWARD || step->kind == RD_STEP_REDUCE_FORWARD;
		unsigned char *from, *into;

		if (forwards && !is_live(&accesses, step->into))
			step->into = (struct rd_where){ RD_NOWHERE, 0 };
		into = next_access(&accesses, step->into);
		if (into)
			*into = WRITTEN;
		from = next_access(&accesses, step->from);
		if (from)
			*from = READ;
	}
	free(all);
	return 0;
}

/* Numbers the scratch chunks that are still in use from 0. */
static int pack_scratch(struct rd_plan *plan)
{
	if (plan->scratch_chunks == 0)
		return 0;

	int *numbers = calloc(plan->scratch_chunks + 1, sizeof(*numbers));
	int used = 0;

	if (!numbers)
		return rd_fail(RONDO_MEMORY, "no memory to finish a plan");
	for (int i = 0; i < plan->step_count; i++) {
		struct rd_where *wheres[] = { &plan->steps[i].from, &plan->steps[i].into };

		for (int k = 0; k < 2; k++) {
			if (wheres[k]->memory != RD_SCRATCH)
				continue;
			int *number = &numbers[wheres[k]->chunk];

			if (!*number)
				*number = ++used;
			wheres[k]->chunk = *number - 1;
		}
	}
	plan->scratch_chunks = used;
	free(numbers);
	return 0;
}

/* Copies the chunks that the output must hold and that lie elsewhere at the end of the plan. */
static void add_copies(struct rd_plan *plan)
{
	int outs = rd_plan_chunks(plan, RD_OUT);

	for (int out = 0; out < outs && !plan->error; out++) {
		int block = rd_block_of_out(&plan->problem, out / plan->parts);
		int chunk = block * plan->parts + out % plan->parts;

		if (plan->now[chunk].memory == RD_OUT)
			continue;
		if (plan->now[chunk].memory == RD_NOWHERE) {
			rd_plan_refuse(plan,
				"never gets a chunk that its output must hold (chunk %d)", chunk);
			return;
		}
		struct rd_step *step = rd_plan_append(plan, RD_STEP_COPY);

		if (!step)
			return;
		step->chunk = chunk;
		step->from = plan->now[chunk];
		step->into = (struct rd_where){ RD_OUT, out };
	}
}

/* The steps that sent from each place and have not been flushed since, as lists. */
struct senders {
	int *heads; /* by place: inputs, then outputs, then scratch; -1 at the end */
	int *next; /* by step */
	int in_chunks, out_chunks;
};

static int place_number(const struct senders *senders, struct rd_where where)
{
	switch (where.memory) {
	case RD_IN:
		return where.chunk;
	case RD_OUT:
		return senders->in_chunks + where.chunk;
	case RD_SCRATCH:
		return senders->in_chunks + senders->out_chunks + where.chunk;
	default:
		return -1;
	}
}

/* The input chunk that shares its address with this output chunk in place; nowhere if none does. */
static struct rd_where alias(const struct rd_plan *plan, struct rd_where out)
{
	int block = -1;

	if (out.memory == RD_OUT)
		block = rd_alias_block(&plan->problem, out.chunk / plan->parts);
	if (block < 0)
		return (struct rd_where){ RD_NOWHERE, 0 };
	return (struct rd_where){ RD_IN, block * plan->parts + out.chunk % plan->parts };
}

static int append_step(struct rd_plan *plan, struct rd_step step)
{
	struct rd_step *place = rd_plan_append(plan, step.kind);

	if (!place)
		return -1;
	*place = step;
	return plan->step_count - 1;
}

static void flush_senders(struct rd_plan *plan, struct senders *senders, struct rd_where where)
{
	int place = place_number(senders, where);

	if (place < 0)
		return;
	for (int i = senders->heads[place]; i >= 0; i = senders->next[i]) {
		struct rd_step flush = { .kind = RD_STEP_FLUSH, .peer = -1, .sender = i };

		flush.to = plan->steps[i].to;
		flush.chunk = plan->steps[i].chunk;
		append_step(plan, flush);
	}
	senders->heads[place] = -1;
}

/* The place that the message of a finished step is read from, if a later step may change it. */
static struct rd_where sent_from(const struct rd_step *step)
{
	if (step->kind == RD_STEP_SEND)
		return step->from;
	if (step->kind == RD_STEP_FORWARD || step->kind == RD_STEP_REDUCE_FORWARD)
		return step->into;
	return (struct rd_where){ RD_NOWHERE, 0 };
}

static void add_flushes_with(
	struct rd_plan *plan, struct senders *senders, const struct rd_step *steps, int count)
{
	for (int i = 0; i < count && !plan->error; i++) {
		/* Signals, not messages, order writes to other ranks' memory. */
		bool far = steps[i].kind == RD_STEP_COMBINE || steps[i].kind == RD_STEP_SWAP ||
			   steps[i].kind == RD_STEP_SPREAD;

		if (!far)
			flush_senders(plan, senders, steps[i].into);
		/* In place, a copy's two ends are one: it writes nothing. */
		if (!far && steps[i].kind != RD_STEP_COPY)
			flush_senders(plan, senders, alias(plan, steps[i].into));

		int index = append_step(plan, steps[i]);
		int place = place_number(senders, sent_from(&steps[i]));

		if (index >= 0 && place >= 0) {
			senders->next[index] = senders->heads[place];
			senders->heads[place] = index;
		}
	}
}

int rd_plan_add_flushes(struct rd_plan *plan)
{
	struct senders senders = {
		.in_chunks = rd_in_blocks(&plan->problem) * plan->parts,
		.out_chunks = rd_out_blocks(&plan->problem) * plan->parts,
	};
	int places = senders.in_chunks + senders.out_chunks + plan->scratch_chunks;
	struct rd_step *steps = plan->steps;
	int count = plan->step_count;

	/* Each send is flushed once at most, so the steps double at most. */
	senders.heads = malloc((places + 1) * sizeof(*senders.heads));
	senders.next = malloc((2 * count + 1) * sizeof(*senders.next));
	if (!senders.heads || !senders.next) {
		rd_plan_out_of_memory(plan);
	} else {
		for (int i = 0; i < places; i++)
			senders.heads[i] = -1;
		plan->steps = NULL;
		plan->step_count = plan->capacity = 0;
		add_flushes_with(plan, &senders, steps, count);
		free(steps);
	}
	free(senders.heads);
	free(senders.next);
	return plan->error;
}

int rd_plan_finish(struct rd_plan *plan)
{
	if (plan->draft)
		rd_plan_refuse(plan, "began a view and never wrote it");
	if (plan->error)
		return plan->error;
	if (drop_stores(plan) || pack_scratch(plan))
		return RONDO_MEMORY;
	add_copies(plan);
	if (plan->error)
		return plan->error;
	free(plan->now);
	plan->now = NULL;
	return 0;
}
