#include "packed.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/thread.h"
#include "topo/processors.h"

#define THREADS_MAX 64
#define DISTINCT_MAX 65535
/* All ranks together: 8 GiB, if no step follows an equal one. */
#define STEPS_MAX INT32_MAX

/* The work that the threads share. */
struct all {
	const struct rd_algorithm *algorithm;
	const struct rd_problem *problem;
	struct packed *packed;
	_Atomic int next; /* rank without a plan */
	_Atomic int64_t steps;
	_Atomic bool failed;
};

/* The members of a step by which its event differs from others of its rank. */
struct key {
	enum rd_step_kind kind;
	enum rd_memory into;
	int peer, to;
};

/* A thread, and the distinct steps of the rank at hand. */
struct packer {
	struct all *all;
	pthread_t thread;
	int err;
	char reason[RD_REASON_SIZE];
	int *heads; /* [size + 1]: by peer, the first of its distinct steps; -1: none */
	struct key *keys;
	int *next; /* the next of the same peer; -1 at the end */
	int *after; /* the distinct step that came after this one last: a good guess */
	struct packed_step *distinct;
	int count, capacity;
	struct packed_run *runs;
	int run_count, run_room;
};

static int fail_memory(void)
{
	return rd_fail(RONDO_MEMORY, "no memory for the plans of all ranks");
}

/* ---- A rank --------------------------------------------------------------------------------- */

static struct key key_of(const struct rd_step *step)
{
	return (struct key){ step->kind, step->into.memory, step->peer, step->to };
}

static bool is_same(const struct key *a, const struct key *b)
{
	return a->kind == b->kind && a->into == b->into && a->peer == b->peer && a->to == b->to;
}

static bool grow(struct packer *packer)
{
	int capacity = packer->capacity ? 2 * packer->capacity : 64;
	struct key *keys = realloc(packer->keys, (size_t)capacity * sizeof(*keys));
	int *next = realloc(packer->next, (size_t)capacity * sizeof(*next));
	int *after = realloc(packer->after, (size_t)capacity * sizeof(*after));
	struct packed_step *distinct =
		realloc(packer->distinct, (size_t)capacity * sizeof(*distinct));

	packer->keys = keys ? keys : packer->keys;
	packer->next = next ? next : packer->next;
	packer->after = after ? after : packer->after;
	packer->distinct = distinct ? distinct : packer->distinct;
	if (!keys || !next || !after || !distinct)
		return false;
	packer->capacity = capacity;
	return true;
}

/* Its number, or an error. */
static int add(struct packer *packer, const struct rd_plan *plan, int index, int *head)
{
	const struct rd_step *step = &plan->steps[index];
	struct rd_event event = rd_event_of(plan, index);
	int number = packer->count;

	if (number == DISTINCT_MAX)
		return rd_fail(
			RONDO_UNSUPPORTED, "a rank has more than %d distinct steps", DISTINCT_MAX);
	if (number == packer->capacity && !grow(packer))
		return fail_memory();
	packer->keys[number] = key_of(step);
	packer->next[number] = *head;
	packer->after[number] = 0;
	packer->distinct[number] = (struct packed_step){
		.event = event,
		.peer = event.takes ? step->peer : -1,
		.to = event.puts ? step->to : -1,
		.takes = -1,
		.puts = -1,
	};
	*head = number;
	packer->count++;
	return number;
}

static int number_of(struct packer *packer, const struct rd_plan *plan, int index, int before)
{
	const struct rd_step *step = &plan->steps[index];
	struct key key = key_of(step);
	int guess = before >= 0 ? packer->after[before] : 0;

	if (guess < packer->count && is_same(&key, &packer->keys[guess]))
		return guess;

	int size = plan->problem.size;
	int *head = &packer->heads[step->peer >= 0 ? step->peer : step->to >= 0 ? step->to : size];
	int number = *head;

	while (number >= 0 && !is_same(&key, &packer->keys[number]))
		number = packer->next[number];
	return number >= 0 ? number : add(packer, plan, index, head);
}

/* Forgets the distinct steps of the rank before. */
static void begin(struct packer *packer)
{
	for (int i = 0; i < packer->count; i++) {
		const struct key *key = &packer->keys[i];
		int size = packer->all->packed->size;

		packer->heads[key->peer >= 0 ? key->peer : key->to >= 0 ? key->to : size] = -1;
	}
	packer->count = packer->run_count = 0;
}

/* Adds a step to the runs. */
static bool add_step(struct packer *packer, int number)
{
	struct packed_run *last =
		packer->run_count > 0 ? &packer->runs[packer->run_count - 1] : NULL;

	if (last && last->number == number && last->times < UINT16_MAX) {
		last->times++;
		return true;
	}
	if (!rd_grow(&packer->runs, packer->run_count, &packer->run_room, sizeof(*packer->runs)))
		return false;
	packer->runs[packer->run_count++] = (struct packed_run){ (uint16_t)number, 1 };
	return true;
}

/* A copy of `count` elements; NULL: no memory. */
static void *copy_of(const void *elements, int count, size_t size)
{
	void *copy = malloc((size_t)count * size + 1);

	if (copy && count > 0)
		memcpy(copy, elements, (size_t)count * size);
	return copy;
}

static int pack(struct packer *packer, const struct rd_plan *plan, struct packed_plan *packed)
{
	int before = -1;

	begin(packer);
	for (int i = 0; i < plan->step_count; i++) {
		int number = number_of(packer, plan, i, before);

		if (number < 0)
			return number;
		if (before >= 0)
			packer->after[before] = number;
		if (!add_step(packer, number))
			return fail_memory();
		before = number;
	}
	packed->count = plan->step_count;
	packed->run_count = packer->run_count;
	packed->runs = copy_of(packer->runs, packer->run_count, sizeof(*packer->runs));
	packed->distinct_count = packer->count;
	packed->distinct = copy_of(packer->distinct, packer->count, sizeof(*packer->distinct));
	return packed->runs && packed->distinct ? 0 : fail_memory();
}

static int pack_rank(struct packer *packer, int rank)
{
	struct all *all = packer->all;
	struct rd_problem problem = *all->problem;
	struct rd_plan *plan;

	problem.rank = rank;

	int err = rd_plan_create_to_time(&plan, all->algorithm, &problem);

	if (err)
		return err;
	/* All ranks cut their blocks alike. */
	if (rank == 0)
		all->packed->parts = plan->parts;
	if (atomic_fetch_add(&all->steps, plan->step_count) + plan->step_count > STEPS_MAX)
		err = rd_fail(RONDO_UNSUPPORTED, "the ranks have more than %lld steps",
			(long long)STEPS_MAX);
	else
		err = pack(packer, plan, &all->packed->plans[rank]);
	rd_plan_destroy(plan);
	return err;
}

/* ---- All ranks ------------------------------------------------------------------------------ */

static void *run(void *argument)
{
	struct packer *packer = argument;
	struct all *all = packer->all;
	int size = all->packed->size;

	packer->heads = malloc(((size_t)size + 1) * sizeof(*packer->heads));
	if (!packer->heads)
		packer->err = fail_memory();
	for (int i = 0; packer->heads && i <= size; i++)
		packer->heads[i] = -1;
	while (!packer->err && !all->failed) {
		int rank = atomic_fetch_add(&all->next, 1);

		if (rank >= size)
			break;
		packer->err = pack_rank(packer, rank);
	}
	if (packer->err) {
		all->failed = true;
		snprintf(packer->reason, sizeof(packer->reason), "%s", rondo_last_error());
	}
	free(packer->heads);
	free(packer->keys);
	free(packer->next);
	free(packer->after);
	free(packer->distinct);
	free(packer->runs);
	return NULL;
}

/* The heap keeps what a plan's arrays have left: page faults took half of the time. */
static void keep_memory(void)
{
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

static int pack_all(struct all *all)
{
	struct packer packers[THREADS_MAX] = { 0 };
	int count = rd_processors_here(), started = 1, err = 0;

	keep_memory();
	count = count < 1 ? 1 : count > THREADS_MAX ? THREADS_MAX : count;
	count = count > all->packed->size ? all->packed->size : count;
	for (int i = 0; i < count; i++)
		packers[i].all = all;
	while (started < count &&
		rd_thread_start(&packers[started].thread, 0, run, &packers[started]) == 0)
		started++;
	run(&packers[0]);
	for (int i = 1; i < started; i++)
		pthread_join(packers[i].thread, NULL);
	for (int i = 0; i < started && !err; i++)
		if (packers[i].err)
			err = rd_fail(packers[i].err, "%s", packers[i].reason);
	return err;
}

/* ---- Queues --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

/* The receivers of a rank's messages, ascending. Returns their number. */
static int list_receivers(const struct packed_plan *plan, int *receivers)
{
	int count = 0, kept = 0;

	for (int i = 0; i < plan->distinct_count; i++)
		if (plan->distinct[i].to >= 0)
			receivers[count++] = plan->distinct[i].to;
	if (count > 0)
		qsort(receivers, (size_t)count, sizeof(*receivers), compare);
	for (int i = 0; i < count; i++)
		if (kept == 0 || receivers[i] != receivers[kept - 1])
			receivers[kept++] = receivers[i];
	return kept;
}

/* -1: the sender puts no message for this receiver. */
static int queue_of(const struct packed *packed, int sender, int receiver)
{
	const struct packed_plan *plan = &packed->plans[sender];
	int low = plan->first_queue, high = low + plan->queue_count;

	while (low < high) {
		int middle = low + (high - low) / 2;

		if (packed->receivers[middle] < receiver)
			low = middle + 1;
		else
			high = middle;
	}
	return low < plan->first_queue + plan->queue_count && packed->receivers[low] == receiver
		       ? low
		       : -1;
}

static int name_queues(const struct packed *packed, int rank)
{
	struct packed_plan *plan = &packed->plans[rank];

	for (int i = 0; i < plan->distinct_count; i++) {
		struct packed_step *step = &plan->distinct[i];

		if (step->to >= 0)
			step->puts = queue_of(packed, rank, step->to);
		if (step->peer < 0)
			continue;
		step->takes = queue_of(packed, step->peer, rank);
		if (step->takes < 0)
			return rd_fail(RONDO_INVALID,
				"rank %d waits for a message that rank %d never sends", rank,
				step->peer);
	}
	return 0;
}

static int make_queues(struct packed *packed)
{
	int err = 0;

	for (int rank = 0; rank < packed->size; rank++)
		packed->distinct_count += packed->plans[rank].distinct_count;
	packed->receivers =
		malloc(((size_t)packed->distinct_count + 1) * sizeof(*packed->receivers));
	if (!packed->receivers)
		return fail_memory();
	for (int rank = 0; rank < packed->size; rank++) {
		struct packed_plan *plan = &packed->plans[rank];

		plan->first_queue = packed->queue_count;
		plan->queue_count = list_receivers(plan, packed->receivers + packed->queue_count);
		packed->queue_count += plan->queue_count;
	}
	for (int rank = 0; rank < packed->size && !err; rank++)
		err = name_queues(packed, rank);
	return err;
}

int packed_create(struct packed **packed_out, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	struct packed *packed = calloc(1, sizeof(*packed));
	struct all all = { .algorithm = algorithm, .problem = problem, .packed = packed };

	*packed_out = NULL;
	if (!packed)
		return fail_memory();
	packed->size = problem->size;
	packed->plans = calloc((size_t)problem->size, sizeof(*packed->plans));

	int err = packed->plans ? pack_all(&all) : fail_memory();

	if (!err)
		err = make_queues(packed);
	if (err)
		packed_destroy(packed);
	else
		*packed_out = packed;
	return err;
}

void packed_destroy(struct packed *packed)
{
	if (!packed)
		return;
	for (int rank = 0; packed->plans && rank < packed->size; rank++) {
		free(packed->plans[rank].runs);
		free(packed->plans[rank].distinct);
	}
	free(packed->plans);
	free(packed->receivers);
	free(packed);
}
