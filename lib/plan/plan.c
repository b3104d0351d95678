#include "plan/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/signature.h"
#include "plan/view.h"

_Static_assert(offsetof(struct rd_plan, problem) == 0, "rd_problem_of()");

/* ---- Appending ----------------------------------------------------------------------------- */

static int chunk_count(const struct rd_plan *plan)
{
	return rd_blocks(&plan->real) * plan->parts;
}

void rd_plan_refuse(struct rd_plan *plan, const char *what, int peer, int chunk)
{
	if (plan->error)
		return;
	plan->error = rd_fail(RONDO_INVALID, "%s: rank %d of %d, step %d: %s (peer %d, chunk %d)",
		plan->algorithm, plan->real.rank, plan->real.size, plan->step_count, what, peer,
		chunk);
}

void rd_plan_out_of_memory(struct rd_plan *plan)
{
	if (!plan->error)
		plan->error =
			rd_fail(RONDO_MEMORY, "no memory for a plan of %d steps", plan->step_count);
}

static struct rd_step *append(struct rd_plan *plan, enum rd_step_kind kind)
{
	static const struct rd_step nothing = { .peer = -1, .to = -1, .sender = -1, .chunk = -1 };

	if (plan->step_count == plan->capacity) {
		int capacity = plan->capacity ? 2 * plan->capacity : 16;
		struct rd_step *steps = realloc(plan->steps, capacity * sizeof(*steps));

		if (!steps) {
			rd_plan_out_of_memory(plan);
			return NULL;
		}
		plan->steps = steps;
		plan->capacity = capacity;
	}
	struct rd_step *step = &plan->steps[plan->step_count++];

	*step = nothing;
	step->kind = kind;
	return step;
}

/* Where the chunks lie before the first step; forgets everything written so far. */
static void place_chunks(struct rd_plan *plan)
{
	int count = chunk_count(plan);

	free(plan->now);
	plan->now = malloc(count * sizeof(*plan->now));
	if (!plan->now) {
		rd_plan_out_of_memory(plan);
		return;
	}
	for (int chunk = 0; chunk < count; chunk++) {
		int block = rd_in_block(&plan->real, chunk / plan->parts);
		struct rd_where none = { RD_NOWHERE, 0 };
		struct rd_where in = { RD_IN, block * plan->parts + chunk % plan->parts };

		plan->now[chunk] = block < 0 ? none : in;
	}
}

void rd_plan_parts(struct rd_plan *plan, int parts)
{
	if (plan->error || rd_view_parts(plan, parts))
		return;
	if (parts < 1 || plan->step_count > 0) {
		rd_plan_refuse(
			plan, "parts must be at least 1, and set before the first step", -1, parts);
		return;
	}
	plan->parts = parts;
	place_chunks(plan);
}

/* Whether there is a step to be written: the peer and chunk are valid, and become the plan's own
 * numbers. */
static bool valid(struct rd_plan *plan, int *peer, int *chunk)
{
	if (plan->error)
		return false;
	if (*peer < 0 || *peer >= plan->problem.size || *peer == plan->problem.rank)
		rd_plan_refuse(plan, "no such peer", *peer, *chunk);
	else if (*chunk < 0 || *chunk >= rd_view_chunks(plan))
		rd_plan_refuse(plan, "no such chunk", *peer, *chunk);
	if (plan->error)
		return false;
	*peer = rd_view_real_rank(plan, *peer);
	*chunk = rd_view_real_chunk(plan, *chunk);
	return *chunk >= 0;
}

/* Where a chunk belongs once this rank writes it: the output where that has a place for it. */
static struct rd_where home(struct rd_plan *plan, int chunk)
{
	int block = rd_out_block(&plan->real, chunk / plan->parts);

	if (block >= 0)
		return (struct rd_where){ RD_OUT, block * plan->parts + chunk % plan->parts };
	if (plan->now[chunk].memory == RD_SCRATCH)
		return plan->now[chunk];
	return (struct rd_where){ RD_SCRATCH, plan->scratch_chunks++ };
}

void rd_send(struct rd_plan *plan, int peer, int chunk)
{
	if (!valid(plan, &peer, &chunk))
		return;
	if (plan->now[chunk].memory == RD_NOWHERE) {
		rd_plan_refuse(plan, "sends a chunk that it does not have", peer, chunk);
		return;
	}
	struct rd_step *step = append(plan, RD_STEP_SEND);

	if (!step)
		return;
	step->to = peer;
	step->chunk = chunk;
	step->from = plan->now[chunk];
}

static void receive(struct rd_plan *plan, enum rd_step_kind kind, int peer, int chunk, bool last)
{
	struct rd_step *step = append(plan, kind);

	if (!step)
		return;
	step->peer = peer;
	step->chunk = chunk;
	step->last = last && !rd_view_is_partial(plan);
	if (kind != RD_STEP_RECV)
		step->from = plan->now[chunk];
	step->into = home(plan, chunk);
	plan->now[chunk] = step->into;
}

void rd_recv(struct rd_plan *plan, int peer, int chunk)
{
	if (valid(plan, &peer, &chunk))
		receive(plan, RD_STEP_RECV, peer, chunk, false);
}

static void recv_reduce(struct rd_plan *plan, int peer, int chunk, bool last)
{
	if (!valid(plan, &peer, &chunk))
		return;
	if (plan->now[chunk].memory == RD_NOWHERE)
		rd_plan_refuse(plan, "reduces into a chunk that it does not have", peer, chunk);
	else
		receive(plan, RD_STEP_RECV_REDUCE, peer, chunk, last);
}

void rd_recv_reduce(struct rd_plan *plan, int peer, int chunk)
{
	recv_reduce(plan, peer, chunk, false);
}

void rd_recv_reduce_last(struct rd_plan *plan, int peer, int chunk)
{
	recv_reduce(plan, peer, chunk, true);
}

/* Whether there is a step to be written in which all ranks take part, where no view is allowed. */
static bool valid_for_all(struct rd_plan *plan, int chunk)
{
	if (plan->error || rd_view_hides_others(plan))
		return false;
	if (plan->problem.size > RD_MERGE_MOST)
		rd_plan_refuse(plan, "merges messages of more ranks than it may", -1, chunk);
	else if (chunk < 0 || chunk >= chunk_count(plan))
		rd_plan_refuse(plan, "no such chunk", -1, chunk);
	else if (plan->now[chunk].memory == RD_NOWHERE)
		rd_plan_refuse(plan, "merges into a chunk that it does not have", -1, chunk);
	return !plan->error;
}

/* Beginning with the next rank, as ranks do who send to all. */
void rd_recv_merge(struct rd_plan *plan, int chunk)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	if (!valid_for_all(plan, chunk) || size == 1)
		return;
	for (int s = 1; s < size; s++) {
		struct rd_step *hold = append(plan, RD_STEP_HOLD);

		if (!hold)
			return;
		hold->peer = rd_wrap(rank + s, size);
		hold->chunk = chunk;
	}
	receive(plan, RD_STEP_MERGE, -1, chunk, true);
}

/* ---- Direct access -------------------------------------------------------------------------- */

/* Where a chunk lies in the input, or the output, of any rank. */
static struct rd_where place_at(
	const struct rd_plan *plan, enum rd_memory memory, int rank, int chunk)
{
	struct rd_problem there = plan->real;
	int block = chunk / plan->parts;

	there.rank = rank;
	block = memory == RD_IN ? rd_in_block(&there, block) : rd_out_block(&there, block);
	if (block < 0)
		return (struct rd_where){ RD_NOWHERE, 0 };
	return (struct rd_where){ memory, block * plan->parts + chunk % plan->parts };
}

/* Appends a step that brings a chunk of a rank's input into our output. */
static void reach(
	struct rd_plan *plan, enum rd_step_kind kind, int peer, int chunk, const char *refusal)
{
	struct rd_where from = place_at(plan, RD_IN, peer, chunk);
	struct rd_where into = place_at(plan, RD_OUT, plan->real.rank, chunk);
	struct rd_step *step = NULL;

	if (from.memory == RD_NOWHERE || into.memory == RD_NOWHERE)
		rd_plan_refuse(plan, refusal, peer, chunk);
	else
		step = append(plan, kind);
	if (!step)
		return;
	step->peer = peer;
	step->chunk = chunk;
	step->from = from;
	step->into = into;
	plan->now[chunk] = into;
}

void rd_fetch(struct rd_plan *plan, int peer, int chunk)
{
	if (valid(plan, &peer, &chunk))
		reach(plan, RD_STEP_FETCH, peer, chunk,
			"fetches what is not there, or has no place here");
}

static bool same_where(struct rd_where a, struct rd_where b)
{
	return a.memory != RD_NOWHERE && b.memory != RD_NOWHERE && a.chunk == b.chunk;
}

/* What comes takes the place of what goes: on both ranks, where the call is in place. */
void rd_swap(struct rd_plan *plan, int peer, int theirs, int ours)
{
	int most = chunk_count(plan);

	if (plan->error || rd_view_hides_others(plan))
		return;
	if (peer < 0 || peer >= plan->problem.size || peer == plan->problem.rank || theirs < 0 ||
		theirs >= most || ours < 0 || ours >= most) {
		rd_plan_refuse(plan, "no such rank or chunk", peer, theirs);
		return;
	}

	int rank = plan->real.rank;
	struct rd_where from = place_at(plan, RD_IN, peer, theirs);
	struct rd_where into = place_at(plan, RD_OUT, rank, theirs);

	if (!same_where(from, place_at(plan, RD_OUT, peer, ours)) ||
		!same_where(into, place_at(plan, RD_IN, rank, ours))) {
		rd_plan_refuse(plan, "swaps what does not lie in the same place", peer, theirs);
		return;
	}
	struct rd_step *step = append(plan, RD_STEP_SWAP);

	if (!step)
		return;
	step->peer = peer;
	step->chunk = theirs;
	step->other = ours;
	step->from = from;
	step->into = into;
	plan->now[theirs] = into;
}

void rd_spread(struct rd_plan *plan, int peer, int chunk)
{
	if (plan->error || rd_view_hides_others(plan))
		return;
	if (peer < 0 || peer >= plan->problem.size || chunk < 0 || chunk >= chunk_count(plan)) {
		rd_plan_refuse(plan, "no such rank or chunk", peer, chunk);
		return;
	}
	reach(plan, RD_STEP_SPREAD, peer, chunk, "spreads what is not there, or has no place here");
}

static void combine(struct rd_plan *plan, int to, int chunk, struct rd_where into)
{
	struct rd_where from = place_at(plan, RD_IN, plan->problem.rank, chunk);

	if (from.memory == RD_NOWHERE || into.memory == RD_NOWHERE) {
		rd_plan_refuse(
			plan, "combines what is not there, or has no place there", to, chunk);
		return;
	}
	struct rd_step *step = append(plan, RD_STEP_COMBINE);

	if (!step)
		return;
	step->to = to;
	step->chunk = chunk;
	step->from = from;
	step->into = into;
	step->last = true;
	if (to < 0 || to == plan->problem.rank)
		plan->now[chunk] = into;
}

static bool may_combine(struct rd_plan *plan, int to, int chunk)
{
	if (plan->error || rd_view_hides_others(plan))
		return false;
	if (to >= -1 && to < plan->problem.size && chunk >= 0 && chunk < chunk_count(plan))
		return true;
	rd_plan_refuse(plan, "no such rank or chunk", to, chunk);
	return false;
}

void rd_combine(struct rd_plan *plan, int to, int chunk)
{
	if (may_combine(plan, to, chunk))
		combine(plan, to, chunk,
			place_at(plan, RD_OUT, to < 0 ? plan->problem.rank : to, chunk));
}

void rd_combine_aside(struct rd_plan *plan, int chunk)
{
	if (may_combine(plan, plan->problem.rank, chunk))
		combine(plan, plan->problem.rank, chunk,
			(struct rd_where){ RD_SCRATCH, plan->scratch_chunks++ });
}

void rd_expect(struct rd_plan *plan, int chunk)
{
	if (plan->error || rd_view_hides_others(plan))
		return;
	if (chunk < 0 || chunk >= chunk_count(plan) ||
		rd_out_block(&plan->problem, chunk / plan->parts) < 0) {
		rd_plan_refuse(plan, "expects a chunk that has no place here", -1, chunk);
		return;
	}
	plan->now[chunk] = place_at(plan, RD_OUT, plan->problem.rank, chunk);
}

void rd_signal(struct rd_plan *plan, int peer)
{
	int none = 0;
	struct rd_step *step = valid(plan, &peer, &none) ? append(plan, RD_STEP_SIGNAL) : NULL;

	if (step)
		step->to = peer;
}

void rd_await(struct rd_plan *plan, int peer)
{
	int none = 0;
	struct rd_step *step = valid(plan, &peer, &none) ? append(plan, RD_STEP_AWAIT) : NULL;

	if (step)
		step->peer = peer;
}

/* ---- Finishing ----------------------------------------------------------------------------- */

/* A receive whose chunk the very next step sends becomes one step: the value is sent on as it
 * comes. */
static void fuse(struct rd_plan *plan)
{
	int kept = 0;

	for (int i = 0; i < plan->step_count; i++) {
		struct rd_step step = plan->steps[i];
		const struct rd_step *next = i + 1 < plan->step_count ? &plan->steps[i + 1] : NULL;
		bool receives = step.kind == RD_STEP_RECV || step.kind == RD_STEP_RECV_REDUCE;

		if (receives && next && next->kind == RD_STEP_SEND && next->chunk == step.chunk) {
			step.kind = step.kind == RD_STEP_RECV ? RD_STEP_FORWARD
							      : RD_STEP_REDUCE_FORWARD;
			step.to = next->to;
			i++;
		}
		plan->steps[kept++] = step;
	}
	plan->step_count = kept;
}

/* What comes next to each place, going by the steps that have been looked at, the last first. */
enum fate { UNTOUCHED, READ, WRITTEN };

struct fates {
	enum fate *scratch, *in, *out;
};

static enum fate *fate_at(const struct fates *fates, struct rd_where where)
{
	switch (where.memory) {
	case RD_IN:
		return &fates->in[where.chunk];
	case RD_OUT:
		return &fates->out[where.chunk];
	case RD_SCRATCH:
		return &fates->scratch[where.chunk];
	default:
		return NULL;
	}
}

/* Whether anyone wants what is stored there: a later step, or, in the output, the user. */
static bool wanted(const struct fates *fates, struct rd_where stored)
{
	const enum fate *fate = fate_at(fates, stored);

	return fate && (*fate == READ || (*fate == UNTOUCHED && stored.memory == RD_OUT));
}

static void drop_stores_with(struct rd_plan *plan, const struct fates *fates)
{
	for (int i = plan->step_count - 1; i >= 0; i--) {
		struct rd_step *step = &plan->steps[i];
		bool forwards =
			step->kind == RD_STEP_FORWARD || step->kind == RD_STEP_REDUCE_FORWARD;
		enum fate *from, *into;

		if (forwards && !wanted(fates, step->into))
			step->into = (struct rd_where){ RD_NOWHERE, 0 };
		into = fate_at(fates, step->into);
		if (into)
			*into = WRITTEN;
		from = fate_at(fates, step->from);
		if (from)
			*from = READ;
	}
}

/* A value that is sent on as it comes need not be stored, unless it is wanted later. */
static int drop_stores(struct rd_plan *plan)
{
	/* A step of direct access names places of other ranks, too, where there may be more. */
	size_t chunks = (size_t)plan->real.size * plan->parts;
	enum fate *all = calloc(plan->scratch_chunks + 2 * chunks, sizeof(*all));
	struct fates fates = { all, all + plan->scratch_chunks,
		all + plan->scratch_chunks + chunks };

	if (!all)
		return rd_fail(RONDO_MEMORY, "no memory to finish a plan");
	drop_stores_with(plan, &fates);
	free(all);
	return 0;
}

/* Numbers the scratch chunks that are still in use from 0. */
static int pack_scratch(struct rd_plan *plan)
{
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

/* What the output must hold and the input held all along is copied there. */
static void add_copies(struct rd_plan *plan)
{
	int count = chunk_count(plan);

	for (int chunk = 0; chunk < count && !plan->error; chunk++) {
		int block = rd_out_block(&plan->problem, chunk / plan->parts);

		if (block < 0 || plan->now[chunk].memory == RD_OUT)
			continue;
		if (plan->now[chunk].memory == RD_NOWHERE) {
			rd_plan_refuse(
				plan, "never gets a chunk that its output must hold", -1, chunk);
			return;
		}
		struct rd_step *step = append(plan, RD_STEP_COPY);

		if (!step)
			return;
		step->chunk = chunk;
		step->from = plan->now[chunk];
		step->into = (struct rd_where){ RD_OUT, block * plan->parts + chunk % plan->parts };
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
	struct rd_step *place = append(plan, step.kind);

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

/* Where the message of a finished step is read from, if from memory that a later step may change.
 */
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
		/* What may write at another rank is ordered by signals, not by messages. */
		bool far = steps[i].kind == RD_STEP_COMBINE || steps[i].kind == RD_STEP_SWAP ||
			   steps[i].kind == RD_STEP_SPREAD;

		if (!far)
			flush_senders(plan, senders, steps[i].into);
		/* In place, a copy's two ends are one and the same: it writes nothing. */
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

/* Rewrites the steps with a FLUSH before each write to memory that an earlier send may still read.
 */
static int add_flushes(struct rd_plan *plan)
{
	struct senders senders = {
		.in_chunks = rd_in_blocks(&plan->problem) * plan->parts,
		.out_chunks = rd_out_blocks(&plan->problem) * plan->parts,
	};
	int places = senders.in_chunks + senders.out_chunks + plan->scratch_chunks;
	struct rd_step *steps = plan->steps;
	int count = plan->step_count;

	/* Each send is flushed once at most, so twice the steps is the most there can be. */
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

static int finish(struct rd_plan *plan)
{
	if (plan->draft)
		rd_plan_refuse(plan, "began a view and never wrote it", -1, -1);
	if (plan->error)
		return plan->error;
	fuse(plan);
	if (drop_stores(plan) || pack_scratch(plan))
		return RONDO_MEMORY;
	add_copies(plan);
	if (plan->error)
		return plan->error;
	free(plan->now);
	plan->now = NULL;
	return add_flushes(plan);
}

int rd_plan_create(struct rd_plan **plan_out, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	struct rd_plan *plan = calloc(1, sizeof(*plan));

	*plan_out = NULL;
	if (!plan)
		return rd_fail(RONDO_MEMORY, "no memory for a plan");
	plan->problem = plan->real = *problem;
	plan->algorithm = algorithm->name;
	plan->mark = rd_algorithm_mark(algorithm->name);
	plan->direct_access = algorithm->direct_access;
	plan->parts = 1;
	place_chunks(plan);
	if (!plan->error && algorithm->along_line && problem->layout)
		rd_view_along_line(plan, algorithm);
	else if (!plan->error)
		algorithm->write_plan(plan);

	int err = finish(plan);

	if (err) {
		rd_plan_destroy(plan);
		return err;
	}
	*plan_out = plan;
	return 0;
}

void rd_plan_destroy(struct rd_plan *plan)
{
	if (!plan)
		return;
	rd_view_destroy(plan->draft);
	free(plan->steps);
	free(plan->now);
	free(plan);
}

int rd_plan_chunks(const struct rd_plan *plan, enum rd_memory memory)
{
	switch (memory) {
	case RD_IN:
		return rd_in_blocks(&plan->problem) * plan->parts;
	case RD_OUT:
		return rd_out_blocks(&plan->problem) * plan->parts;
	case RD_SCRATCH:
		return plan->scratch_chunks;
	default:
		return 0;
	}
}

/* ---- Printing ------------------------------------------------------------------------------ */

static const char *where_text(struct rd_where where, char text[32])
{
	static const char *const names[] = { "nowhere", "in", "out", "scratch" };

	if (where.memory == RD_NOWHERE)
		return "nowhere";
	snprintf(text, 32, "%s[%d]", names[where.memory], where.chunk);
	return text;
}

int rd_step_print(const struct rd_step *step, char *text, size_t size)
{
	char from[32], into[32];

	where_text(step->from, from);
	switch (step->kind) {
	case RD_STEP_SEND:
		return snprintf(text, size, "send chunk %d, %s, to %d", step->chunk,
			where_text(step->from, from), step->to);
	case RD_STEP_RECV:
		return snprintf(text, size, "recv chunk %d from %d into %s", step->chunk,
			step->peer, where_text(step->into, into));
	case RD_STEP_RECV_REDUCE:
		return snprintf(text, size, "recv_reduce%s chunk %d from %d with %s into %s",
			step->last ? "_last" : "", step->chunk, step->peer,
			where_text(step->from, from), where_text(step->into, into));
	case RD_STEP_FORWARD:
		return snprintf(text, size, "forward chunk %d from %d to %d, keep in %s",
			step->chunk, step->peer, step->to, where_text(step->into, into));
	case RD_STEP_REDUCE_FORWARD:
		return snprintf(text, size,
			"reduce_forward%s chunk %d from %d with %s to %d, keep in %s",
			step->last ? "_last" : "", step->chunk, step->peer,
			where_text(step->from, from), step->to, where_text(step->into, into));
	case RD_STEP_COPY:
		return snprintf(text, size, "copy chunk %d, %s, to %s", step->chunk,
			where_text(step->from, from), where_text(step->into, into));
	case RD_STEP_FLUSH:
		return snprintf(text, size, "flush step %d (chunk %d to %d)", step->sender,
			step->chunk, step->to);
	case RD_STEP_SIGNAL:
		return snprintf(text, size, "signal %d", step->to);
	case RD_STEP_AWAIT:
		return snprintf(text, size, "await %d", step->peer);
	case RD_STEP_FETCH:
		return snprintf(text, size, "fetch chunk %d, %s of %d, to %s", step->chunk,
			where_text(step->from, from), step->peer, where_text(step->into, into));
	case RD_STEP_SWAP:
		return snprintf(text, size, "swap chunk %d, %s of %d, with chunk %d, to %s",
			step->chunk, where_text(step->from, from), step->peer, step->other,
			where_text(step->into, into));
	case RD_STEP_SPREAD:
		return snprintf(text, size, "spread chunk %d, %s of %d, to %s of all", step->chunk,
			where_text(step->from, from), step->peer, where_text(step->into, into));
	case RD_STEP_COMBINE:
		if (step->to < 0)
			return snprintf(text, size, "combine chunk %d, %s of all, into %s of all",
				step->chunk, where_text(step->from, from),
				where_text(step->into, into));
		return snprintf(text, size, "combine chunk %d, %s of all, into %s of %d",
			step->chunk, where_text(step->from, from), where_text(step->into, into),
			step->to);
	case RD_STEP_HOLD:
		return snprintf(text, size, "hold chunk %d from %d", step->chunk, step->peer);
	case RD_STEP_MERGE:
		return snprintf(text, size, "merge%s chunk %d from all with %s into %s",
			step->last ? "_last" : "", step->chunk, where_text(step->from, from),
			where_text(step->into, into));
	}
	return 0;
}

int rd_plan_print(const struct rd_plan *plan, char *text, size_t size)
{
	const struct rd_problem *problem = &plan->problem;
	int length = snprintf(text, size, "%s %s, rank %d of %d, %d part%s a block\n",
		plan->algorithm, rd_collective_name(problem->collective), problem->rank,
		problem->size, plan->parts, plan->parts == 1 ? "" : "s");

	for (int i = 0; i < plan->step_count; i++) {
		char line[160];
		size_t used = (size_t)length < size ? (size_t)length : size;

		rd_step_print(&plan->steps[i], line, sizeof(line));
		length += snprintf(text + used, size - used, "%4d  %s\n", i, line);
	}
	return length;
}

int rd_step_wrong(const struct rd_plan *plan, int step, const char *format, ...)
{
	char text[160], why[300];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	rd_step_print(&plan->steps[step], text, sizeof(text));
	return rd_fail(
		RONDO_INVALID, "rank %d, step %d (%s): %s", plan->problem.rank, step, text, why);
}
