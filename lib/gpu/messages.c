#include "gpu/messages.h"

#include <stdlib.h>
#include <string.h>

#include "exec/algorithms.h"
#include "tuner/eligible.h"
#include "base/error.h"
#include "comm/plan_cache.h"
#include "device/devmem.h"
#include "base/log.h"
#include "gpu/peers.h"
#include "gpu/compile_messages.h"

/* A plan on the device. */
struct device_plan {
	struct rd_plan *plan; /* NULL: none */
	size_t first_move;
	int move_count;
	bool logged;
};

struct rd_messages {
	struct rd_gpu *gpu;
	int channels;
	size_t slot_size;
	struct rd_fifo *fifo, *peer_fifos[RD_WORK_RANKS];
	bool imported[RD_WORK_RANKS];
	uint32_t reach[RD_WORK_RANKS]; /* by rank: bit p: it exchanges flags with rank p */
	struct rd_layout ring;
	int order[RD_WORK_RANKS], group[RD_WORK_RANKS];
	struct device_plan plans[RD_COLLECTIVE_COUNT][RD_WORK_RANKS]; /* by root */
	struct rd_move *moves; /* of all plans, in device memory; scratch follows */
	char *scratch;
};

bool rd_messages_link(const struct rd_messages *messages, int a, int b)
{
	return messages->reach[a] >> b & messages->reach[b] >> a & 1;
}

/* ---- Fifos --------------------------------------------------------------------------------- */

/* A rank's fifo, for all others. */
struct fifo_card {
	uint64_t address;
	struct rd_handle handle;
	int32_t reachable; /* 1: from its own process, 2: from others too */
};

static void write_card(struct rd_messages *messages, struct fifo_card *card)
{
	struct rd_gpu *gpu = messages->gpu;
	size_t size = rd_fifo_size(gpu->comm->size, messages->channels);
	void *fifo = NULL;

	memset(card, 0, sizeof(*card));
	if (rd_devmem_create(gpu->ops, gpu->device, size, &fifo)) {
		rd_log(RD_INFO, RD_ROUTE, "rank %d has no fifo on its device: %s", gpu->comm->rank,
			rondo_last_error());
		return;
	}
	messages->fifo = messages->peer_fifos[gpu->comm->rank] = fifo;
	card->address = (uintptr_t)fifo;
	card->reachable = gpu->ops->export(fifo, &card->handle) ? 1 : 2;
}

static bool map_fifo(
	struct rd_messages *messages, int peer, const struct fifo_card *card, int there)
{
	struct rd_gpu *gpu = messages->gpu;
	void *base;
	size_t size;

	if (gpu->same_process[peer]) {
		if (!card->reachable ||
			(there != gpu->device && gpu->ops->peer(gpu->device, there)))
			return false;
		if (!rd_devmem_get((void *)(uintptr_t)card->address))
			return false;
		messages->peer_fifos[peer] = (struct rd_fifo *)(uintptr_t)card->address;
		return true;
	}
	if (card->reachable < 2 || gpu->ops->import(gpu->device, &card->handle, &base, &size))
		return false;
	messages->peer_fifos[peer] = base;
	messages->imported[peer] = true;
	return size >= rd_fifo_size(gpu->comm->size, messages->channels);
}

static uint32_t check_of(const struct rd_gpu *gpu, int from, int to)
{
	return (uint32_t)gpu->comm->local.comm_id ^ ((uint32_t)to * 256 + (uint32_t)from + 1);
}

static int copy_and_wait(struct rd_gpu *gpu, void *to, const void *from, size_t size)
{
	int err = gpu->ops->copy(gpu->device, gpu->stream, to, from, size);

	return err ? err : gpu->ops->stream_synchronize(gpu->device, gpu->stream);
}

/* Maps the fifos that it can, and writes a flag into each. */
static void write_checks(struct rd_messages *messages, const struct fifo_card *cards)
{
	struct rd_gpu *gpu = messages->gpu;
	const struct rd_member *members = rd_control_members(gpu->comm->control);
	int rank = gpu->comm->rank;

	for (int peer = 0; peer < gpu->comm->size && messages->fifo; peer++) {
		if (peer == rank || !rd_place_same_host(&members[peer].place, &members[rank].place))
			continue;
		if (!map_fifo(messages, peer, &cards[peer], members[peer].place.device)) {
			rd_log(RD_INFO, RD_ROUTE,
				"rank %d does not reach device memory of rank %d: %s", rank, peer,
				rondo_last_error());
			continue;
		}
		gpu->host_flags->check = check_of(gpu, rank, peer);
		if (copy_and_wait(gpu, &messages->peer_fifos[peer]->checked[rank],
			    &gpu->host_flags->check, sizeof(uint32_t)))
			rd_log(RD_INFO, RD_ROUTE, "rank %d cannot write to rank %d's device: %s",
				rank, peer, rondo_last_error());
	}
}

/* Bits of the peers whose flags this rank reads, and to which it can write. */
static uint32_t read_checks(struct rd_messages *messages)
{
	struct rd_gpu *gpu = messages->gpu;
	uint32_t reached = 0;

	for (int peer = 0; peer < gpu->comm->size && messages->fifo; peer++)
		if (messages->peer_fifos[peer] && peer != gpu->comm->rank &&
			!copy_and_wait(gpu, &gpu->host_flags->check, &messages->fifo->checked[peer],
				sizeof(uint32_t)) &&
			gpu->host_flags->check == check_of(gpu, peer, gpu->comm->rank))
			reached |= 1u << peer;
	return reached;
}

/* ---- The ring ------------------------------------------------------------------------------ */

/* Fills the ring's order from place `at` on by backtracking: neighbours must be linked. Prefers the
   order of `preferred`. `tries` bounds the search: of 16 ranks it may take long. */
static bool order_ring(
	struct rd_messages *messages, const int *preferred, int at, uint32_t placed, int *tries)
{
	int size = messages->ring.size, *order = messages->order;

	if (at == size)
		return size <= 2 || rd_messages_link(messages, order[size - 1], order[0]);
	for (int i = 0; i < size && --*tries > 0; i++) {
		int rank = preferred[i];

		if (placed >> rank & 1 ||
			(at > 0 && !rd_messages_link(messages, order[at - 1], rank)))
			continue;
		order[at] = rank;
		if (order_ring(messages, preferred, at + 1, placed | 1u << rank, tries))
			return true;
	}
	return false;
}

#define TRIES_MAX 100000

/* The comm's own order where its neighbours are linked; else a ring whose neighbours are, if there
   is one. Every rank finds the same. */
static void find_ring(struct rd_messages *messages)
{
	const struct rondo_comm *comm = messages->gpu->comm;
	const int *preferred = comm->layouts[0]->order;
	int tries = TRIES_MAX;

	messages->ring = (struct rd_layout){ .size = comm->size,
		.group_count = 1,
		.order = messages->order,
		.group = messages->group };
	if (!order_ring(messages, preferred, 0, 0, &tries))
		memcpy(messages->order, preferred, (size_t)comm->size * sizeof(*preferred));
}

/* ---- Plans --------------------------------------------------------------------------------- */

/* Whether devices have all steps of one rank's plan, and links for its messages. */
static bool links_are_there(const struct rd_messages *messages, const struct rd_plan *plan)
{
	int rank = plan->problem.rank;

	if (!rd_compile_can(plan))
		return false;
	for (int i = 0; i < plan->step_count; i++) {
		const struct rd_step *step = &plan->steps[i];

		if ((rd_step_puts(step) && !rd_messages_link(messages, rank, step->to)) ||
			(rd_step_takes(step) && !rd_messages_link(messages, rank, step->peer)))
			return false;
	}
	return true;
}

/* Returns 1 if the algorithm's plan runs on every rank, 0 if not; *own: this rank's plan, if so.
   RONDO_MEMORY: this rank has no memory to find out. */
static int can_run(struct rd_messages *messages, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem, struct rd_plan **own)
{
	struct rd_problem there = *problem;
	int can = algorithm->direct_access ? 0 : rd_algorithm_can(algorithm, problem);

	*own = NULL;
	for (there.rank = 0; there.rank < there.size && can == 1; there.rank++) {
		struct rd_plan *plan;
		int err = rd_plan_create(&plan, algorithm, &there);

		if (err)
			can = err == RONDO_MEMORY ? err : 0;
		else
			can = links_are_there(messages, plan);
		if (there.rank == problem->rank)
			*own = plan;
		else
			rd_plan_destroy(plan);
	}
	if (can != 1) {
		rd_plan_destroy(*own);
		*own = NULL;
	}
	return can;
}

/* *plan: of the first algorithm that can run, NULL for none. The first in the table is the ring,
   which moves the fewest bytes. */
static int find_plan(
	struct rd_messages *messages, const struct rd_problem *problem, struct rd_plan **plan)
{
	const char *named = messages->gpu->comm->settings.algo;
	int can = 0;

	*plan = NULL;
	for (int round = *named ? 0 : 1; round < 2 && can == 0; round++)
		for (int i = 0; rd_algorithms[i] && can == 0; i++)
			if (round == 1 || strcmp(named, rd_algorithms[i]->name) == 0)
				can = can_run(messages, rd_algorithms[i], problem, plan);
	return can == 1 ? 0 : can;
}

/* Writes the moves of all plans one after the other, or counts them where moves is NULL. */
static size_t flatten_plans(struct rd_messages *messages, struct rd_move *moves)
{
	size_t count = 0;

	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++)
		for (int root = 0; root < messages->gpu->comm->size; root++) {
			struct device_plan *device_plan = &messages->plans[i][root];

			if (!device_plan->plan)
				continue;
			device_plan->first_move = count;
			if (moves)
				device_plan->move_count =
					rd_compile_moves(device_plan->plan, moves + count);
			count += (size_t)device_plan->plan->step_count;
		}
	return count;
}

/* One scratch memory serves all plans, because a comm's kernels follow each other. */
static size_t scratch_size(const struct rd_messages *messages)
{
	size_t most = 0;

	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++)
		for (int root = 0; root < messages->gpu->comm->size; root++) {
			const struct rd_plan *plan = messages->plans[i][root].plan;
			size_t size = plan ? rd_compile_scratch_size(
						     plan, messages->channels, messages->slot_size)
					   : 0;

			most = size > most ? size : most;
		}
	return most;
}

/* Copies all plans to the device. */
static int upload_plans(struct rd_messages *messages)
{
	struct rd_gpu *gpu = messages->gpu;
	size_t count = flatten_plans(messages, NULL) + 1, size = count * sizeof(struct rd_move);
	struct rd_move *moves = calloc(count, sizeof(*moves));
	void *memory;
	int err;

	if (!moves)
		return rd_fail(RONDO_MEMORY, "no memory for plans");
	flatten_plans(messages, moves);
	size = (size + RD_FIFO_ALIGNMENT - 1) / RD_FIFO_ALIGNMENT * RD_FIFO_ALIGNMENT;
	err = gpu->ops->alloc(gpu->device, size + scratch_size(messages), &memory);
	if (!err) {
		messages->moves = memory;
		messages->scratch = (char *)memory + size;
		err = copy_and_wait(gpu, memory, moves, count * sizeof(*moves));
	}
	free(moves);
	return err;
}

/*
 * Finds the plan of each collective and root, for good. A call must allocate nothing on the device:
 * an allocation may wait for the device, where a peer's kernel may already wait for this call.
 */
static int make_plans(struct rd_messages *messages)
{
	struct rd_problem problem = { .rank = messages->gpu->comm->rank,
		.size = messages->gpu->comm->size,
		.layout = &messages->ring };
	int err = 0;

	for (int i = 0; i < RD_COLLECTIVE_COUNT && !err; i++) {
		if (i == RD_TRANSFER)
			continue;
		problem.collective = i;
		for (problem.root = 0; problem.root < problem.size && !err; problem.root++)
			if (problem.root == 0 || rd_collective_has_root(i))
				err = find_plan(
					messages, &problem, &messages->plans[i][problem.root].plan);
	}
	return err ? err : upload_plans(messages);
}

bool rd_messages_can(struct rd_messages *messages, const struct rd_problem *problem)
{
	struct device_plan *device_plan = &messages->plans[problem->collective][problem->root];
	const struct rd_plan *plan = device_plan->plan;

	if (device_plan->logged)
		return plan;
	device_plan->logged = true;
	rd_log(RD_INFO, RD_PICK, "%s on devices: %s", rd_collective_name(problem->collective),
		plan ? plan->algorithm
		     : "through host memory: no algorithm keeps to pairs that reach each other");
	if (plan)
		rd_warn_of_replacement(messages->gpu->comm, problem->collective, plan->algorithm,
			"it does not run on these devices");
	return plan;
}

void rd_messages_steps(
	struct rd_messages *messages, const struct rd_call *call, struct rd_steps *steps)
{
	const struct rd_gpu *gpu = messages->gpu;
	const struct device_plan *device_plan =
		&messages->plans[call->problem.collective][call->problem.root];

	rd_compile_cut(steps, device_plan->plan, call, messages->channels, messages->slot_size);
	steps->moves = messages->moves + device_plan->first_move;
	steps->move_count = device_plan->move_count;
	steps->scratch = messages->scratch;
	steps->abort_flag = &gpu->host_flags->abort_flag;
	steps->timeout_ns = rd_comm_timeout_ms(gpu->comm) * UINT64_C(1000000);
	memcpy(steps->peer_fifos, messages->peer_fifos, sizeof(steps->peer_fifos));
}

/* ---- Life ---------------------------------------------------------------------------------- */

/* All flags must be written before any is read. */
static int try_fifos(struct rd_messages *messages)
{
	struct rd_gpu *gpu = messages->gpu;
	struct fifo_card card, cards[RD_WORK_RANKS];
	uint32_t reached;
	bool all;
	int err;

	write_card(messages, &card);
	err = rd_peers_gather(gpu, &card, cards, sizeof(card));
	if (err)
		return err;
	write_checks(messages, cards);
	err = rd_peers_agree(gpu, true, &all);
	if (err)
		return err;
	reached = read_checks(messages);
	return rd_peers_gather(gpu, &reached, messages->reach, sizeof(reached));
}

static bool every_rank_reaches_some(const struct rd_messages *messages)
{
	int size = messages->gpu->comm->size;

	for (int a = 0; a < size; a++) {
		bool reaches = false;

		for (int b = 0; b < size; b++)
			reaches |= rd_messages_link(messages, a, b);
		if (!reaches)
			return false;
	}
	return true;
}

int rd_messages_create(struct rd_gpu *gpu)
{
	struct rd_messages *messages = calloc(1, sizeof(*messages));
	int err;

	if (!messages)
		return rd_fail(RONDO_MEMORY, "no memory for a comm's device");
	messages->gpu = gpu;
	messages->channels = gpu->blocks < RD_FIFO_CHANNELS ? gpu->blocks : RD_FIFO_CHANNELS;
	messages->slot_size = rd_fifo_slot_size(gpu->comm->size, messages->channels);
	err = try_fifos(messages);
	if (err || !every_rank_reaches_some(messages)) {
		rd_messages_destroy(messages);
		return err;
	}
	find_ring(messages);
	err = make_plans(messages);
	if (err) {
		rd_messages_destroy(messages);
		return err;
	}
	gpu->messages = messages;
	return 0;
}

void rd_messages_destroy(struct rd_messages *messages)
{
	struct rd_gpu *gpu;

	if (!messages)
		return;
	gpu = messages->gpu;
	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++)
		for (int root = 0; root < RD_WORK_RANKS; root++) {
			rd_plan_destroy(messages->plans[i][root].plan);
		}
	if (messages->moves)
		gpu->ops->free(messages->moves);
	for (int rank = 0; rank < RD_WORK_RANKS; rank++)
		if (messages->imported[rank])
			gpu->ops->drop(gpu->device, messages->peer_fifos[rank]);
		else if (messages->peer_fifos[rank])
			rd_devmem_put(messages->peer_fifos[rank]);
	free(messages);
}
