#include "check/simulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/exec_init.h"
#include "exec/short_run.h"
#include "check/fields.h"
#include "check/network.h"
#include "plan/print.h"

enum state { WAITING, RUNNING, DONE, GONE };

struct actor {
	struct rd_exec exec;
	const struct rd_plan *plans[RD_CHANNELS_MAX]; /* all the same */
	enum state state;
	char *scratch;
	uint64_t *send_marks;
};

struct simulator {
	const struct rd_simulation *set;
	const struct rd_plan *const *plans;
	const struct rd_call *calls;
	struct rd_simulated *simulated;
	struct rd_network network;
	struct actor *actors;
	int open; /* actors that are waiting or running */
	struct rd_peer_buffers *peer_buffers; /* [size] */
	/* stands for the memory of a rank that is done; as long as the longest buffer */
	char *noise;
};

/* ---- Events -------------------------------------------------------------------------------- */

static void leave(struct simulator *simulator, int rank)
{
	simulator->actors[rank].state = GONE;
	simulated_links_close(&simulator->network.links, rank, false);
}

static void settle(struct simulator *simulator, int rank, int error)
{
	const struct actor *actor = &simulator->actors[rank];

	simulator->open--;
	simulator->simulated->errors[rank] = error;
	simulator->simulated->culprits[rank] = error ? actor->exec.waiting_for : -1;
	if (!error)
		simulator->simulated->end_ns = simulator->network.now_ns;
}

/* Once the call has returned its memory is the caller's again. */
static void check_done(struct simulator *simulator, int rank)
{
	for (int i = 0; i < simulator->network.links.end_count; i++) {
		const struct link_end *end = &simulator->network.links.ends[i];

		if (end->rank == rank && end->link.sent < end->link.posted)
			simulator->network.error = rd_fail(RONDO_INVALID,
				"rank %d is done while rank %d may still read its memory", rank,
				end->link.peer);
		if (end->rank == rank && end->link.unsent)
			simulator->network.error = rd_fail(RONDO_INVALID,
				"rank %d is done while its link to rank %d needs it", rank,
				end->link.peer);
	}
}

/* Later reads of it return noise; later writes to it are lost. */
static void withdraw_memory(struct simulator *simulator, int rank)
{
	simulator->peer_buffers[rank] =
		(struct rd_peer_buffers){ simulator->noise, simulator->noise };
}

static void end(struct simulator *simulator, int rank, int result)
{
	simulator->actors[rank].state = DONE;
	settle(simulator, rank, result);
	if (result == 0) {
		check_done(simulator, rank);
		withdraw_memory(simulator, rank);
	} else {
		leave(simulator, rank);
	}
}

static void advance(struct simulator *simulator, int rank)
{
	struct actor *actor = &simulator->actors[rank];
	int progress;

	if (actor->state != RUNNING)
		return;
	do {
		progress = rd_exec_step(&actor->exec);
	} while (progress == RD_MOVED);
	if (progress == RD_IDLE)
		return;
	end(simulator, rank, progress == RD_DONE ? 0 : progress);
}

/* As rd_run_again() does. Virtual time stands still: a second look at a link finds no more. Returns
   whether the call is done: then the executor never sees it. */
static bool run_short(struct actor *actor, uint32_t number)
{
	struct rd_short_step many[RD_SHORT_STEPS];
	struct rd_short call;
	int step;

	rd_short_init(&call, &actor->exec, false, many);
	step = rd_short_run(&call, number);
	if (step >= 0)
		rd_exec_skip(&actor->exec, step);
	return step < 0;
}

static void start(struct simulator *simulator, int rank)
{
	if (simulator->actors[rank].state != WAITING)
		return;
	simulator->actors[rank].state = RUNNING;
	if (simulator->set->repeated &&
		run_short(&simulator->actors[rank], simulator->calls[rank].number))
		end(simulator, rank, 0);
	else
		advance(simulator, rank);
}

static void die(struct simulator *simulator, int rank)
{
	enum state state = simulator->actors[rank].state;

	if (state == GONE)
		return;
	if (state != DONE)
		settle(simulator, rank, RONDO_DIED);
	leave(simulator, rank);
}

static void execute(struct simulator *simulator, const struct rd_timed_event *event)
{
	if (event->kind == RD_EVENT_START)
		start(simulator, event->subject);
	else if (event->kind == RD_EVENT_DEATH)
		die(simulator, event->subject);
	else
		advance(simulator, simulated_links_take(&simulator->network.links,
					   (enum link_event)event->kind, event->subject));
}

/* ---- Ranks that wait in vain --------------------------------------------------------------- */

/* Prints the step that the rank waits in. */
static void describe(const struct rd_exec *exec, char *text, size_t size)
{
	for (int channel = 0; channel < exec->channels; channel++) {
		const struct rd_cursor *cursor = &exec->cursors[channel];
		int length;

		if (cursor->piece >= exec->pieces)
			continue;
		length = snprintf(text, size, "piece %zu, step %d: ", cursor->piece, cursor->step);
		rd_step_print(
			&exec->plans[channel]->steps[cursor->step], text + length, size - length);
		return;
	}
	snprintf(text, size, "all steps done");
}

static int stuck(struct simulator *simulator)
{
	char reason[RD_REASON_SIZE], where[200];
	int length = 0;

	for (int rank = 0; rank < simulator->set->size; rank++) {
		const struct actor *actor = &simulator->actors[rank];

		if (actor->state != RUNNING)
			continue;
		settle(simulator, rank, RONDO_TIMEOUT);
		if (length > RD_REASON_SIZE - 250)
			continue;
		describe(&actor->exec, where, sizeof(where));
		length += snprintf(reason + length, sizeof(reason) - length,
			"%srank %d (%s) waits for rank %d", length ? "; " : "", rank, where,
			actor->exec.waiting_for);
	}
	return rd_fail(RONDO_TIMEOUT, "nothing can move any more: %s", reason);
}

/* ---- Setting it up ------------------------------------------------------------------------- */

static int check_set(const struct rd_simulation *set)
{
	if (set->size < 1 || set->channels < 1 || set->channels > RD_CHANNELS_MAX ||
		set->slots < 1 || set->piece_size < 64 || set->dead_rank >= set->size ||
		!(set->byte_ns >= 0))
		return rd_fail(RONDO_INVALID, "no such simulation: %d ranks, %d channels, %d slots",
			set->size, set->channels, set->slots);
	return 0;
}

static int check_peer(const struct rd_plan *plan, int step, int peer)
{
	if (peer < 0 || peer >= plan->problem.size || peer == plan->problem.rank)
		return rd_step_wrong(plan, step, "no link leads to rank %d", peer);
	return 0;
}

static int check_peers(const struct rd_plan *plan)
{
	for (int i = 0; i < plan->step_count; i++) {
		const struct rd_step *step = &plan->steps[i];
		int err = 0;

		if (rd_step_takes(step) || step->kind == RD_STEP_FETCH ||
			step->kind == RD_STEP_SWAP)
			err = check_peer(plan, i, step->peer);
		if (!err && rd_step_puts(step))
			err = check_peer(plan, i, step->to);
		if (!err && step->kind == RD_STEP_SPREAD && step->peer != plan->problem.rank)
			err = check_peer(plan, i, step->peer);
		if (!err && step->kind == RD_STEP_COMBINE && plan->problem.size < 2)
			err = rd_step_wrong(plan, i, "there is no second rank");
		if (!err)
			err = rd_check_merge(plan, i);
		if (err)
			return err;
	}
	return 0;
}

static size_t longest_buffer(const struct simulator *simulator)
{
	size_t longest = 0;

	for (int rank = 0; rank < simulator->set->size; rank++) {
		const struct rd_call *call = &simulator->calls[rank];
		int in = rd_in_blocks(&call->problem), out = rd_out_blocks(&call->problem);
		size_t size = (in > out ? in : out) * call->count * rondo_type_size(call->type);

		longest = size > longest ? size : longest;
	}
	return longest;
}

static int offer_memory(struct simulator *simulator)
{
	int size = simulator->set->size;
	size_t longest = longest_buffer(simulator);

	simulator->peer_buffers = malloc(size * sizeof(*simulator->peer_buffers));
	simulator->noise = malloc(longest + 1);
	if (!simulator->peer_buffers || !simulator->noise)
		return rd_fail(RONDO_MEMORY, "no memory for %d ranks", size);
	memset(simulator->noise, SIMULATED_NOISE, longest + 1);
	for (int rank = 0; rank < size; rank++)
		simulator->peer_buffers[rank] = (struct rd_peer_buffers){
			simulator->calls[rank].in,
			simulator->calls[rank].out,
		};
	return 0;
}

static int init_actor(struct simulator *simulator, int rank)
{
	const struct rd_simulation *set = simulator->set;
	struct actor *actor = &simulator->actors[rank];
	const struct rd_plan *const *plans = actor->plans;

	for (int channel = 0; channel < set->channels; channel++)
		actor->plans[channel] = simulator->plans[rank];
	actor->scratch = malloc(rd_exec_scratch_size(plans, set->channels, set->piece_size) + 1);
	actor->send_marks = malloc(
		(rd_exec_send_mark_count(plans, set->channels) + 1) * sizeof(*actor->send_marks));
	if (!actor->scratch || !actor->send_marks)
		return rd_fail(RONDO_MEMORY, "no memory for %d ranks", set->size);
	rd_exec_init(&actor->exec, plans, &simulator->calls[rank],
		simulated_links_of(&simulator->network.links, rank), set->channels, set->piece_size,
		actor->scratch, actor->send_marks);
	if (simulator->plans[rank]->direct_access)
		actor->exec.peer_buffers = simulator->peer_buffers;
	actor->exec.past_least = set->seed % 2 ? 0 : SIZE_MAX;
	actor->exec.in_memory = set->seed % 3 == 0;
	return 0;
}

static int simulator_init(struct simulator *simulator)
{
	const struct rd_simulation *set = simulator->set;
	struct rd_simulated *simulated = simulator->simulated;
	int err;

	simulator->actors = calloc(set->size, sizeof(*simulator->actors));
	simulated->errors = calloc(set->size, sizeof(*simulated->errors));
	simulated->culprits = calloc(set->size, sizeof(*simulated->culprits));
	if (!simulator->actors || !simulated->errors || !simulated->culprits)
		return rd_fail(RONDO_MEMORY, "no memory for %d ranks", set->size);
	simulator->open = set->size;
	err = rd_network_connect(&simulator->network, simulator->plans);
	if (!err)
		err = offer_memory(simulator);
	for (int rank = 0; rank < set->size && !err; rank++)
		err = init_actor(simulator, rank);
	/* Before the starts: a rank that dies at 0 never starts. */
	if (set->dead_rank >= 0)
		rd_network_add_event(
			&simulator->network, RD_EVENT_DEATH, set->dead_rank, set->death_ns);
	for (int rank = 0; rank < set->size; rank++)
		rd_network_add_event(&simulator->network, RD_EVENT_START, rank,
			rd_network_delay(&simulator->network));
	return err;
}

static void simulator_finish(struct simulator *simulator)
{
	for (int rank = 0; simulator->actors && rank < simulator->set->size; rank++) {
		free(simulator->actors[rank].scratch);
		free(simulator->actors[rank].send_marks);
	}
	free(simulator->actors);
	free(simulator->peer_buffers);
	free(simulator->noise);
	rd_network_finish(&simulator->network);
}

static int run_ranks(struct simulator *simulator)
{
	struct rd_timed_event event;

	while (simulator->open && !simulator->network.error) {
		if (!rd_event_queue_take(&simulator->network.events, &event))
			return stuck(simulator);
		simulator->network.now_ns = event.time_ns;
		execute(simulator, &event);
	}
	return simulator->network.error;
}

int rd_simulate(const struct rd_simulation *simulation, const struct rd_plan *const *plans,
	const struct rd_call *calls, struct rd_simulated *simulated)
{
	struct simulator simulator = {
		.set = simulation,
		.plans = plans,
		.calls = calls,
		.simulated = simulated,
		.network = { .set = simulation, .random = { simulation->seed } },
	};
	int err = check_set(simulation);

	*simulated = (struct rd_simulated){ 0 };
	for (int rank = 0; rank < simulation->size && !err; rank++)
		err = check_peers(plans[rank]);
	if (err)
		return err;
	err = simulator_init(&simulator);
	if (!err)
		err = run_ranks(&simulator);
	simulated->messages = simulator.network.links.messages;
	simulated->bytes = simulator.network.links.message_bytes;
	simulator_finish(&simulator);
	return err;
}

void rd_simulated_finish(struct rd_simulated *simulated)
{
	free(simulated->errors);
	free(simulated->culprits);
}
