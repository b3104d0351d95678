#include "simulate.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Steps of a rank at a time: the messages under way stay in the processor's caches. */
#define TURN 256
/* Steps that a rank's state holds: the plans of thousands of ranks do not stay in the caches. */
#define WINDOW 16

/* A distinct step of a rank at the setup's costs. */
struct timed_step {
	int64_t work_ps, flight_ps;
	int takes, puts; /* queues; -1 */
	bool has_bytes; /* its message; a signal has none */
};

/* Messages from one rank to another: when each arrives. */
struct queue {
	int64_t *arrivals; /* [capacity], a power of 2 */
	unsigned first, count, capacity;
	int route, hops; /* in `hops` below; 0: no link is shared */
	int sender;
};

struct state {
	const uint16_t *steps;
	uint16_t window[WINDOW]; /* the steps around `at`, from a multiple of WINDOW on */
	const struct timed_step *timed;
	int64_t now_ps, work_ps, death_ps;
	uint64_t pieces_left, drawn; /* drawn: random numbers */
	int at, count;
	int waits; /* the queue of the message that it waits for; -1 */
	int slow;
	bool died;
};

/* A message that comes to a link of its route. */
struct message {
	int64_t at_ps, tail_ps; /* its first byte, and its last */
	uint64_t number; /* in the order of creation: of two at one time, the first goes first */
	int queue;
	int hop : 31;
	bool has_bytes : 1;
};

struct run {
	const struct simulation_setup *setup;
	struct state *states;
	struct timed_step *timed;
	struct queue *queues;
	int *hops; /* links, of all routes */
	int64_t *free_ps; /* [links]: when each has sent all that came */
	struct simulated_link *links;
	int *ready; /* [ranks]: a ring of those that can go on */
	int ready_first, ready_count;
	struct message *messages; /* a heap, the earliest first */
	int message_count, message_capacity;
	uint64_t message_number;
	int err;
};

/* ---- Ranks that can go on ------------------------------------------------------------------- */

static void add_ready(struct run *run, int rank)
{
	int size = run->setup->packed->size, last = run->ready_first + run->ready_count++;

	run->ready[last < size ? last : last - size] = rank;
}

/* It goes on next: the ranks that it exchanges messages with are in the processor's caches. */
static void add_woken(struct run *run, int rank)
{
	int size = run->setup->packed->size;

	run->ready_first = run->ready_first > 0 ? run->ready_first - 1 : size - 1;
	run->ready_count++;
	run->ready[run->ready_first] = rank;
}

static int take_ready(struct run *run)
{
	int rank = run->ready[run->ready_first++];

	run->ready_count--;
	if (run->ready_first == run->setup->packed->size)
		run->ready_first = 0;
	return rank;
}

/* ---- Messages on links ---------------------------------------------------------------------- */

static bool is_before(const struct message *a, const struct message *b)
{
	return a->at_ps < b->at_ps || (a->at_ps == b->at_ps && a->number < b->number);
}

static void add_message(struct run *run, struct message message)
{
	if (run->message_count == run->message_capacity) {
		int capacity = run->message_capacity ? 2 * run->message_capacity : 1024;
		struct message *messages =
			realloc(run->messages, (size_t)capacity * sizeof(*messages));

		if (!messages || capacity > INT32_MAX / 8) {
			run->messages = messages ? messages : run->messages;
			run->err = rd_fail(RONDO_MEMORY, "no memory for the messages under way");
			return;
		}
		run->messages = messages;
		run->message_capacity = capacity;
	}

	struct message *heap = run->messages;
	int at = run->message_count++;

	for (; at > 0 && is_before(&message, &heap[(at - 1) / 4]); at = (at - 1) / 4)
		heap[at] = heap[(at - 1) / 4];
	heap[at] = message;
}

static struct message take_message(struct run *run)
{
	struct message *heap = run->messages;
	struct message first = heap[0], last = heap[--run->message_count];
	int at = 0;

	for (int child = 1; child < run->message_count; child = 4 * at + 1) {
		int end = child + 4 < run->message_count ? child + 4 : run->message_count;

		for (int other = child + 1; other < end; other++)
			if (is_before(&heap[other], &heap[child]))
				child = other;
		if (!is_before(&heap[child], &last))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

static void fail_long(struct run *run)
{
	run->err = rd_fail(RONDO_UNSUPPORTED, "the call takes more than 13 days");
}

/* ---- Messages ------------------------------------------------------------------------------- */

static bool grow(struct queue *queue)
{
	unsigned capacity = queue->capacity ? 2 * queue->capacity : 4;
	int64_t *arrivals = malloc(capacity * sizeof(*arrivals));

	if (!arrivals)
		return false;
	for (unsigned i = 0; i < queue->count; i++)
		arrivals[i] = queue->arrivals[(queue->first + i) & (queue->capacity - 1)];
	free(queue->arrivals);
	queue->arrivals = arrivals;
	queue->capacity = capacity;
	queue->first = 0;
	return true;
}

/* The message arrives; its receiver goes on, if it waits for it. */
static void put_message(struct run *run, int index, int64_t arrival_ps)
{
	struct queue *queue = &run->queues[index];
	int receiver = run->setup->packed->receivers[index];

	if (queue->count == queue->capacity && !grow(queue)) {
		run->err = rd_fail(RONDO_MEMORY, "no memory for the messages under way");
		return;
	}
	queue->arrivals[(queue->first + queue->count++) & (queue->capacity - 1)] = arrival_ps;
	if (run->states[receiver].waits == index) {
		run->states[receiver].waits = -1;
		add_woken(run, receiver);
	}
}

/* Passes a link, when that has sent all that came before. */
static void pass_link(struct run *run, struct message *message)
{
	int index = run->hops[run->queues[message->queue].route + message->hop];
	const struct network_link *link = &run->setup->network->links[index];
	struct simulated_link *use = &run->links[index];
	uint64_t bytes = message->has_bytes ? run->setup->step_cost->slice : 0;
	int64_t time = network_bytes_ps(link, bytes);
	int64_t start = rd_longer(message->at_ps, run->free_ps[index]);

	if (start + time > SIMULATION_PS_MAX) {
		fail_long(run);
		return;
	}
	run->free_ps[index] = start + time;
	use->busy_ps += time;
	use->bytes += bytes;
	use->messages++;
	message->at_ps = start + link->latency_ps;
	message->tail_ps = rd_longer(message->tail_ps, start + time) + link->latency_ps;
	message->hop++;
}

/* The next link serves the message that comes to it first. */
static void move_message(struct run *run)
{
	struct message message = take_message(run);
	const struct queue *queue = &run->queues[message.queue];

	/* Its sender has no other message on the way to a first link. */
	if (message.hop == 0) {
		run->states[queue->sender].at++;
		add_ready(run, queue->sender);
	}
	/* While no rank and no other message can come before it, it goes on. */
	do
		pass_link(run, &message);
	while (!run->err && message.hop < queue->hops && run->ready_count == 0 &&
		(run->message_count == 0 || is_before(&message, &run->messages[0])));
	if (run->err)
		return;
	if (message.hop < queue->hops)
		add_message(run, message);
	else
		put_message(run, message.queue, message.tail_ps);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* The next of a rank's random numbers, 0 to 65535, by splitmix64. */
static int64_t draw(const struct run *run, struct state *state)
{
	uint64_t rank = (uint64_t)(state - run->states);
	uint64_t x = run->setup->seed * UINT64_C(0xd1342543de82ef95) +
		     (rank << 40 ^ state->drawn++) * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (int64_t)((x ^ x >> 31) & 0xffff);
}

/* number * part / whole, where that product may leave 64 bits. */
static int64_t share(int64_t number, int64_t part, int64_t whole)
{
	return number / whole * part + number % whole * part / whole;
}

static int64_t work_of(const struct run *run, struct state *state, const struct timed_step *step)
{
	int64_t work = step->work_ps;

	if (state->slow != 1000)
		work = share(work, state->slow, 1000);
	if (run->setup->jitter > 0)
		work += share(work, draw(run, state) * run->setup->jitter / 1000, 65536);
	return work;
}

/* Does the work of a step. False: the rank waits for its message, or dies. */
static bool do_work(struct run *run, struct state *state, const struct timed_step *step)
{
	int64_t begin = state->now_ps;

	if (step->takes >= 0) {
		struct queue *queue = &run->queues[step->takes];

		if (queue->count == 0) {
			state->waits = step->takes;
			return false;
		}
		begin = rd_longer(begin, queue->arrivals[queue->first]);
		queue->first = (queue->first + 1) & (queue->capacity - 1);
		queue->count--;
	}

	int64_t work = work_of(run, state, step), end = begin + work;

	if (end > SIMULATION_PS_MAX) {
		fail_long(run);
		return false;
	}
	if (end > state->death_ps) {
		state->died = true;
		return false;
	}
	state->work_ps += work;
	state->now_ps = end;
	if (run->setup->watch)
		run->setup->watch(run->setup->watch_context, (int)(state - run->states),
			run->setup->pieces - state->pieces_left, state->at, begin, end);
	return true;
}

static void fill_window(struct state *state)
{
	int left = state->count - state->at;

	memcpy(state->window, state->steps + state->at,
		(size_t)(left < WINDOW ? left : WINDOW) * sizeof(*state->steps));
}

/* The next step; NULL: the rank is done. */
static const struct timed_step *next_step(struct state *state)
{
	if (state->at == state->count) {
		if (state->count == 0 || state->pieces_left <= 1) {
			state->pieces_left = 0;
			return NULL;
		}
		state->pieces_left--;
		state->at = 0;
	}
	if (state->at % WINDOW == 0)
		fill_window(state);
	return &state->timed[state->window[state->at % WINDOW]];
}

/* Runs a rank until it waits, ends, or has a message for shared links. */
static void run_rank(struct run *run, int rank)
{
	struct state *state = &run->states[rank];
	const struct timed_step *step;

	for (int done = 0; (step = next_step(state)) && !run->err; done++) {
		if (done == TURN) {
			add_ready(run, rank);
			return;
		}
		if (!do_work(run, state, step))
			return;
		if (step->puts >= 0 && run->queues[step->puts].hops > 0) {
			add_message(run, (struct message){ .at_ps = state->now_ps,
						 .tail_ps = state->now_ps,
						 .number = run->message_number++,
						 .queue = step->puts,
						 .has_bytes = step->has_bytes });
			return;
		}
		state->at++;
		if (step->puts >= 0)
			put_message(run, step->puts, state->now_ps + step->flight_ps);
	}
}

static void run_all(struct run *run)
{
	for (int rank = 0; rank < run->setup->packed->size; rank++)
		add_ready(run, rank);
	while (!run->err && (run->ready_count > 0 || run->message_count > 0))
		if (run->ready_count > 0)
			run_rank(run, take_ready(run));
		else
			move_message(run);
}

/* ---- Making a run --------------------------------------------------------------------------- */

/* Between hosts of a network, a message's bytes and flight are the network's; the rest of its
   cost, to its two ranks, stays. */
static struct rd_step_cost without_far(const struct simulation_setup *setup)
{
	struct rd_step_cost step_cost = *setup->step_cost;

	if (setup->network) {
		step_cost.message[RD_FAR] = step_cost.empty[RD_FAR];
		step_cost.message[RD_FAR].flight_ns = step_cost.empty[RD_FAR].flight_ns = 0;
	}
	return step_cost;
}

static void time_steps(struct run *run)
{
	const struct packed *packed = run->setup->packed;
	struct rd_step_cost step_cost = without_far(run->setup);
	struct timed_step *timed = run->timed;

	for (int rank = 0; rank < packed->size; rank++) {
		const struct packed_plan *plan = &packed->plans[rank];

		run->states[rank] = (struct state){
			.steps = plan->steps,
			.timed = timed,
			.now_ps = run->setup->starts_ps ? run->setup->starts_ps[rank] : 0,
			.death_ps = run->setup->deaths_ps ? run->setup->deaths_ps[rank] : INT64_MAX,
			.pieces_left = run->setup->pieces,
			.count = plan->count,
			.waits = -1,
			.slow = run->setup->slow ? run->setup->slow[rank] : 1000,
		};
		for (int i = 0; i < plan->queue_count; i++)
			run->queues[plan->first_queue + i].sender = rank;
		for (int i = 0; i < plan->distinct_count; i++) {
			const struct packed_step *step = &plan->distinct[i];
			const struct rd_event *event = &step->event;

			*timed++ = (struct timed_step){
				.work_ps = 1000 *
					   rd_step_cost_event_ns(&step_cost, event, packed->size),
				.flight_ps = event->puts ? 1000 * rd_step_cost_flight_ns(
									  &step_cost, event)
							 : 0,
				.takes = step->takes,
				.puts = step->puts,
				.has_bytes = event->kind != RD_STEP_SIGNAL,
			};
		}
	}
}

static int add_route(struct run *run, struct queue *queue, int from, int to, int *used, int *room)
{
	const struct network *network = run->setup->network;
	int count, links[NETWORK_HOPS_MAX];

	if (from == to)
		return 0;
	count = network->route(network, from, to, links);
	if (count == 0)
		return rd_fail(RONDO_INVALID, "the network has no route from host %d to host %d",
			from, to);
	if (*used + count > *room) {
		int *hops = realloc(run->hops, 2 * ((size_t)*used + (size_t)count) * sizeof(*hops));

		if (!hops || *used > INT32_MAX / 4)
			return rd_fail(RONDO_MEMORY, "no memory for the routes");
		run->hops = hops;
		*room = 2 * (*used + count);
	}
	queue->route = *used;
	queue->hops = count;
	for (int i = 0; i < count; i++)
		run->hops[(*used)++] = links[i];
	return 0;
}

static int add_routes(struct run *run)
{
	const struct packed *packed = run->setup->packed;
	const int *hosts = run->setup->hosts;
	int used = 0, room = 0, err = 0;

	for (int rank = 0; rank < packed->size && !err; rank++) {
		const struct packed_plan *plan = &packed->plans[rank];

		for (int i = 0; i < plan->queue_count && !err; i++) {
			int queue = plan->first_queue + i;

			err = add_route(run, &run->queues[queue], hosts[rank],
				hosts[packed->receivers[queue]], &used, &room);
		}
	}
	return err;
}

static int create(struct run *run, struct simulation *simulation)
{
	const struct packed *packed = run->setup->packed;
	size_t size = (size_t)packed->size;
	size_t links = run->setup->network ? (size_t)run->setup->network->link_count : 0;

	run->states = calloc(size, sizeof(*run->states));
	run->timed = calloc((size_t)packed->distinct_count + 1, sizeof(*run->timed));
	run->queues = calloc((size_t)packed->queue_count + 1, sizeof(*run->queues));
	run->free_ps = calloc(links + 1, sizeof(*run->free_ps));
	run->ready = calloc(size, sizeof(*run->ready));
	simulation->ranks = calloc(size, sizeof(*simulation->ranks));
	simulation->links = run->links = calloc(links + 1, sizeof(*run->links));
	simulation->rank_count = packed->size;
	simulation->link_count = (int)links;
	if (!run->states || !run->timed || !run->queues || !run->free_ps || !run->ready ||
		!simulation->ranks || !run->links)
		return rd_fail(RONDO_MEMORY, "no memory for a simulation");
	time_steps(run);
	return run->setup->network ? add_routes(run) : 0;
}

static void destroy(struct run *run)
{
	for (int i = 0; run->queues && i < run->setup->packed->queue_count; i++)
		free(run->queues[i].arrivals);
	free(run->states);
	free(run->timed);
	free(run->queues);
	free(run->hops);
	free(run->free_ps);
	free(run->ready);
	free(run->messages);
}

/* ---- Its result ----------------------------------------------------------------------------- */

static void collect(const struct run *run, struct simulation *simulation)
{
	for (int rank = 0; rank < simulation->rank_count; rank++) {
		const struct state *state = &run->states[rank];
		struct simulated_rank *it = &simulation->ranks[rank];
		/* It may die while it waits. */
		bool died = state->died || (state->waits >= 0 && state->death_ps < INT64_MAX);

		*it = (struct simulated_rank){ SIMULATED_ENDED, state->now_ps, state->work_ps, -1 };
		if (died) {
			it->end = SIMULATED_DIED;
			it->end_ps = state->death_ps;
		} else if (state->waits >= 0) {
			it->end = SIMULATED_WAITS;
			it->waits_for = run->queues[state->waits].sender;
			simulation->stuck = true;
		} else {
			simulation->end_ps = rd_longer(simulation->end_ps, it->end_ps);
		}
	}
}

int simulation_run(struct simulation *simulation, const struct simulation_setup *setup)
{
	struct run run = { .setup = setup };

	*simulation = (struct simulation){ 0 };

	int err = create(&run, simulation);

	if (!err) {
		run_all(&run);
		err = run.err;
	}
	if (err)
		simulation_finish(simulation);
	else
		collect(&run, simulation);
	destroy(&run);
	return err;
}

void simulation_finish(struct simulation *simulation)
{
	free(simulation->ranks);
	free(simulation->links);
	*simulation = (struct simulation){ 0 };
}
