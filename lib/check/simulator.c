/*
 * The links here use all the freedom of the transport contract. With zero_copy they read the
 * sender's memory only when the message arrives. They write to the receiver's memory as soon as
 * they have its address. They report to the sender late that they are done. Released room is
 * overwritten. A plan or an executor that relies on more than the contract therefore computes
 * wrong numbers here.
 */
#include "check/simulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/exec_init.h"
#include "check/event_queue.h"
#include "check/fields.h"
#include "plan/print.h"

#define NOISE 0xa5

enum happening {
	STARTS, /* a rank makes the call */
	DIES, /* a rank */
	ARRIVES, /* the oldest message under way on a link */
	LEFT, /* a link learns that a message of its own has left the caller's memory */
	ROOM_BACK, /* a link learns that the peer has released a message */
	CLOSES, /* a link learns that its peer is gone */
};

struct parcel {
	char *bytes;
	size_t size;
	struct rd_tag tag;
	const void *from; /* sent from the caller's memory, which has not been read yet */
	const void *landed; /* where the receiver has it, if not in `bytes` */
};

/* One rank's end. Its parcels are those that it sends. */
struct end {
	struct rd_link link; /* first: links are cast to ends */
	struct simulator *simulator;
	int number; /* in the simulator's ends */
	int rank;
	struct end *other;
	bool peer_gone;

	/* Messages ever; each at most the one before, and at most `slots` apart. */
	uint64_t sent, arrived, released, returned;
	struct parcel *parcels; /* [slots] */
	uint64_t busy_until_ns, last_arrival_ns;

	/* Where the rank wants the next message that arrives here. */
	void *into;
	size_t into_size;
};

enum state { WAITING, RUNNING, DONE, GONE };

struct actor {
	struct rd_exec exec;
	const struct rd_plan *plans[RD_CHANNELS_MAX]; /* all the same */
	enum state state;
	struct end *ends; /* this rank's, one after the other */
	int end_count;
	char *scratch;
	uint64_t *send_marks;
};

struct simulator {
	const struct rd_simulation *set;
	const struct rd_plan *const *plans;
	const struct rd_call *calls;
	struct rd_simulated *simulated;
	uint64_t now_ns;
	uint64_t random;
	struct rd_events events;
	struct actor *actors;
	int open; /* actors that are waiting or running */
	struct rd_link **links; /* [(rank * size + peer) * channels + channel]; NULL: not used */
	struct end *ends;
	int end_count;
	struct parcel *parcels;
	char *bytes;
	struct rd_peer_buffers *peer_buffers; /* [size] */
	char *noise; /* what is reached of a rank that is done: as long as the longest buffer */
	int error; /* our own: no memory */
};

/* ---- Time and chance ----------------------------------------------------------------------- */

/* splitmix64: S. Vigna, public domain (prng.di.unimi.it/splitmix64.c). */
static uint64_t draw(struct simulator *simulator, uint64_t most)
{
	uint64_t x = simulator->random += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	x ^= x >> 31;
	return most == UINT64_MAX ? x : x % (most + 1);
}

static void plan_event(
	struct simulator *simulator, enum happening kind, int subject, uint64_t time_ns)
{
	struct rd_event event = { .time_ns = time_ns, .kind = kind, .subject = subject };
	int err = rd_events_put(&simulator->events, event);

	if (err)
		simulator->error = err;
}

static uint64_t latest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- Links --------------------------------------------------------------------------------- */

static struct end *end_of(struct rd_link *link)
{
	return (struct end *)link;
}

static struct parcel *parcel_at(const struct end *end, uint64_t number)
{
	return &end->parcels[number % end->simulator->set->slots];
}

static void fail(struct end *end)
{
	end->link.error = RONDO_BROKEN;
	snprintf(end->link.reason, sizeof(end->link.reason), "closed its connection");
}

static bool has_room(struct end *end)
{
	/* Messages that the peer had sent may still lie here unread; a sender to it gets the
	   error at once. */
	if (end->peer_gone && !end->link.error)
		fail(end);
	return !end->link.error && end->sent - end->returned < (uint64_t)end->simulator->set->slots;
}

/* The parcel that stands at `sent` sets out. */
static void ship(struct end *end, const struct rd_tag *tag, size_t size)
{
	struct simulator *simulator = end->simulator;
	const struct rd_simulation *set = simulator->set;
	struct parcel *parcel = parcel_at(end, end->sent++);
	uint64_t start = latest(simulator->now_ns, end->busy_until_ns);

	parcel->tag = *tag;
	parcel->size = size;
	parcel->landed = NULL;
	end->busy_until_ns = start + (uint64_t)(size * set->byte_ns);
	end->last_arrival_ns = latest(end->last_arrival_ns,
		end->busy_until_ns + set->latency_ns + draw(simulator, set->jitter_ns));
	plan_event(simulator, ARRIVES, end->number, end->last_arrival_ns);
	simulator->simulated->messages++;
	simulator->simulated->bytes += size;
}

static void *link_reserve(struct rd_link *link, size_t size)
{
	struct end *end = end_of(link);

	(void)size;
	return has_room(end) ? parcel_at(end, end->sent)->bytes : NULL;
}

static void link_commit(struct rd_link *link, const struct rd_tag *tag, size_t size)
{
	struct end *end = end_of(link);

	parcel_at(end, end->sent)->from = NULL;
	ship(end, tag, size);
}

static bool link_send(struct rd_link *link, const struct rd_tag *tag, const void *from, size_t size)
{
	struct end *end = end_of(link);

	if (!has_room(end))
		return false;
	parcel_at(end, end->sent)->from = from;
	link->posted++;
	ship(end, tag, size);
	return true;
}

static void land(struct parcel *parcel, void *into, const void *from)
{
	if (parcel->size)
		memcpy(into, from, parcel->size);
	parcel->landed = into;
}

/* From here until the message has come the memory is the link's. */
static void expect(struct end *end, void *into, size_t size)
{
	if (!end->simulator->set->zero_copy || !into || end->into == into)
		return;
	end->into = into;
	end->into_size = size;
	memset(into, NOISE, size);
}

static bool link_recv(struct rd_link *link, void *into, size_t size, struct rd_message *message)
{
	struct end *end = end_of(link);
	struct parcel *parcel = parcel_at(end->other, end->other->released);

	if (link->error)
		return false;
	if (end->other->arrived == end->other->released) {
		expect(end, into, size);
		return false;
	}
	if (!parcel->landed && end->simulator->set->zero_copy && into && parcel->size == size)
		land(parcel, into, parcel->bytes);
	message->data = parcel->landed ? parcel->landed : parcel->bytes;
	message->size = parcel->size;
	message->tag = &parcel->tag;
	return true;
}

static bool all_read(const struct end *end)
{
	return end->other->arrived == end->other->released;
}

static void link_release(struct rd_link *link)
{
	struct end *end = end_of(link);
	struct simulator *simulator = end->simulator;
	struct parcel *parcel = parcel_at(end->other, end->other->released++);

	memset(parcel->bytes, NOISE, parcel->size);
	end->into = NULL;
	plan_event(simulator, ROOM_BACK, end->other->number,
		simulator->now_ns + simulator->set->latency_ns);
	if (end->peer_gone && all_read(end))
		fail(end);
}

static const struct rd_link_ops copying = {
	.reserve = link_reserve,
	.commit = link_commit,
	.recv = link_recv,
	.release = link_release,
};

static const struct rd_link_ops zero_copying = {
	.reserve = link_reserve,
	.commit = link_commit,
	.send = link_send,
	.recv = link_recv,
	.release = link_release,
};

/* ---- What happens -------------------------------------------------------------------------- */

/* Its peers learn one latency later, and after all that it had sent. */
static void leave(struct simulator *simulator, int rank)
{
	struct actor *actor = &simulator->actors[rank];
	uint64_t heard_ns = simulator->now_ns + simulator->set->latency_ns;

	actor->state = GONE;
	for (int i = 0; i < actor->end_count; i++) {
		const struct end *end = &actor->ends[i];

		plan_event(simulator, CLOSES, end->other->number,
			latest(heard_ns, end->last_arrival_ns));
	}
}

static void settle(struct simulator *simulator, int rank, int error)
{
	const struct actor *actor = &simulator->actors[rank];

	simulator->open--;
	simulator->simulated->errors[rank] = error;
	simulator->simulated->culprits[rank] = error ? actor->exec.waiting_for : -1;
	if (!error)
		simulator->simulated->end_ns = simulator->now_ns;
}

/* Once the call has returned its memory is the caller's again. */
static void check_done(struct simulator *simulator, int rank)
{
	const struct actor *actor = &simulator->actors[rank];

	for (int i = 0; i < actor->end_count; i++)
		if (actor->ends[i].link.sent < actor->ends[i].link.posted)
			simulator->error = rd_fail(RONDO_INVALID,
				"rank %d is done while rank %d may still read its memory", rank,
				actor->ends[i].link.peer);
}

/* Later reads of it return noise; later writes to it are lost. */
static void put_out_of_reach(struct simulator *simulator, int rank)
{
	simulator->peer_buffers[rank] =
		(struct rd_peer_buffers){ simulator->noise, simulator->noise };
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
	actor->state = DONE;
	settle(simulator, rank, progress == RD_DONE ? 0 : progress);
	if (progress == RD_DONE) {
		check_done(simulator, rank);
		put_out_of_reach(simulator, rank);
	} else {
		leave(simulator, rank);
	}
}

static void start(struct simulator *simulator, int rank)
{
	if (simulator->actors[rank].state != WAITING)
		return;
	simulator->actors[rank].state = RUNNING;
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

static void arrive(struct simulator *simulator, struct end *end)
{
	struct end *other = end->other;
	struct parcel *parcel = parcel_at(end, end->arrived);
	const void *from = parcel->from ? parcel->from : parcel->bytes;
	bool awaited =
		end->arrived == end->released && other->into && other->into_size == parcel->size;

	if (simulator->actors[other->rank].state == GONE)
		return;
	if (awaited)
		land(parcel, other->into, from);
	else if (parcel->from && parcel->size)
		memcpy(parcel->bytes, parcel->from, parcel->size);
	if (parcel->from)
		plan_event(simulator, LEFT, end->number,
			simulator->now_ns + simulator->set->latency_ns);
	end->arrived++;
	advance(simulator, other->rank);
}

static void close_link(struct simulator *simulator, struct end *end)
{
	end->peer_gone = true;
	end->link.sent = end->link.posted;
	if (all_read(end) && !end->link.error)
		fail(end);
	advance(simulator, end->rank);
}

static void happen_to_link(struct simulator *simulator, enum happening kind, struct end *end)
{
	if (kind == ARRIVES) {
		arrive(simulator, end);
		return;
	}
	if (kind == CLOSES) {
		close_link(simulator, end);
		return;
	}
	if (kind == ROOM_BACK)
		end->returned++;
	else if (end->link.sent < end->link.posted)
		end->link.sent++;
	advance(simulator, end->rank);
}

static void happen(struct simulator *simulator, const struct rd_event *event)
{
	if (event->kind == STARTS)
		start(simulator, event->subject);
	else if (event->kind == DIES)
		die(simulator, event->subject);
	else
		happen_to_link(simulator, event->kind, &simulator->ends[event->subject]);
}

/* ---- Who waits for whom -------------------------------------------------------------------- */

/* Where the rank stands, in words. */
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

/* Which pairs need a link: those of which one names the other. */
static void mark_pairs(const struct simulator *simulator, char *used)
{
	int size = simulator->set->size;

	for (int rank = 0; rank < size; rank++) {
		const struct rd_plan *plan = simulator->plans[rank];

		for (int i = 0; i < plan->step_count; i++) {
			const struct rd_step *step = &plan->steps[i];

			if (rd_step_takes(step))
				used[rank * size + step->peer] = used[step->peer * size + rank] = 1;
			if (rd_step_puts(step))
				used[rank * size + step->to] = used[step->to * size + rank] = 1;
		}
	}
}

static size_t link_index(const struct simulator *simulator, int rank, int peer, int channel)
{
	return ((size_t)rank * simulator->set->size + peer) * simulator->set->channels + channel;
}

static void init_end(struct simulator *simulator, int rank, int peer, int channel)
{
	const struct rd_simulation *set = simulator->set;
	int number = simulator->end_count++;
	struct end *end = &simulator->ends[number];
	struct actor *actor = &simulator->actors[rank];

	if (!actor->end_count++)
		actor->ends = end;
	*end = (struct end){
		.link = {
			.ops = set->zero_copy ? &zero_copying : &copying,
			.peer = peer,
			.channel = channel,
			.ready = true,
			.message_max = set->piece_size,
		},
		.simulator = simulator,
		.number = number,
		.rank = rank,
		.parcels = simulator->parcels + (size_t)number * set->slots,
	};
	for (int i = 0; i < set->slots; i++)
		end->parcels[i].bytes =
			simulator->bytes + ((size_t)number * set->slots + i) * set->piece_size;
	simulator->links[link_index(simulator, rank, peer, channel)] = &end->link;
}

static void init_ends(struct simulator *simulator, const char *used)
{
	const struct rd_simulation *set = simulator->set;

	for (int pair = 0; pair < set->size * set->size; pair++)
		for (int channel = 0; used[pair] && channel < set->channels; channel++)
			init_end(simulator, pair / set->size, pair % set->size, channel);
	for (int i = 0; i < simulator->end_count; i++) {
		struct end *end = &simulator->ends[i];

		end->other = end_of(simulator->links[link_index(
			simulator, end->link.peer, end->rank, end->link.channel)]);
	}
}

static int connect_ranks(struct simulator *simulator)
{
	const struct rd_simulation *set = simulator->set;
	size_t pairs = (size_t)set->size * set->size, ends = 0;
	char *used = calloc(pairs, 1);

	if (!used)
		return rd_fail(RONDO_MEMORY, "no memory for %d ranks", set->size);
	mark_pairs(simulator, used);
	for (size_t i = 0; i < pairs; i++)
		ends += used[i] * set->channels;
	/* One more: an allocation of nothing may give NULL. */
	simulator->links = calloc(pairs * set->channels, sizeof(*simulator->links));
	simulator->ends = calloc(ends + 1, sizeof(*simulator->ends));
	simulator->parcels = calloc(ends * set->slots + 1, sizeof(*simulator->parcels));
	simulator->bytes = calloc(ends * set->slots + 1, set->piece_size);
	if (simulator->links && simulator->ends && simulator->parcels && simulator->bytes)
		init_ends(simulator, used);
	else
		simulator->error = rd_fail(RONDO_MEMORY, "no memory for %zu links", ends);
	free(used);
	return simulator->error;
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

static int reach_all(struct simulator *simulator)
{
	int size = simulator->set->size;
	size_t longest = longest_buffer(simulator);

	simulator->peer_buffers = malloc(size * sizeof(*simulator->peer_buffers));
	simulator->noise = malloc(longest + 1);
	if (!simulator->peer_buffers || !simulator->noise)
		return rd_fail(RONDO_MEMORY, "no memory for %d ranks", size);
	memset(simulator->noise, NOISE, longest + 1);
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
		&simulator->links[link_index(simulator, rank, 0, 0)], set->channels,
		set->piece_size, actor->scratch, actor->send_marks);
	actor->exec.peer_buffers = simulator->peer_buffers;
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
	err = connect_ranks(simulator);
	if (!err)
		err = reach_all(simulator);
	for (int rank = 0; rank < set->size && !err; rank++)
		err = init_actor(simulator, rank);
	/* Before the starts: a rank that dies at 0 never starts. */
	if (set->dead_rank >= 0)
		plan_event(simulator, DIES, set->dead_rank, set->death_ns);
	for (int rank = 0; rank < set->size; rank++)
		plan_event(simulator, STARTS, rank, draw(simulator, set->jitter_ns));
	return err;
}

static void simulator_finish(struct simulator *simulator)
{
	for (int rank = 0; simulator->actors && rank < simulator->set->size; rank++) {
		free(simulator->actors[rank].scratch);
		free(simulator->actors[rank].send_marks);
	}
	free(simulator->actors);
	free(simulator->links);
	free(simulator->ends);
	free(simulator->parcels);
	free(simulator->bytes);
	free(simulator->peer_buffers);
	free(simulator->noise);
	rd_events_finish(&simulator->events);
}

static int run(struct simulator *simulator)
{
	struct rd_event event;

	while (simulator->open && !simulator->error) {
		if (!rd_events_take(&simulator->events, &event))
			return stuck(simulator);
		simulator->now_ns = event.time_ns;
		happen(simulator, &event);
	}
	return simulator->error;
}

int rd_simulate(const struct rd_simulation *simulation, const struct rd_plan *const *plans,
	const struct rd_call *calls, struct rd_simulated *simulated)
{
	struct simulator simulator = {
		.set = simulation,
		.plans = plans,
		.calls = calls,
		.simulated = simulated,
		.random = simulation->seed,
	};
	int err = check_set(simulation);

	*simulated = (struct rd_simulated){ 0 };
	for (int rank = 0; rank < simulation->size && !err; rank++)
		err = check_peers(plans[rank]);
	if (err)
		return err;
	err = simulator_init(&simulator);
	if (!err)
		err = run(&simulator);
	simulator_finish(&simulator);
	return err;
}

void rd_simulated_finish(struct rd_simulated *simulated)
{
	free(simulated->errors);
	free(simulated->culprits);
}
