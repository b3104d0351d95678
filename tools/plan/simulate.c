#include "simulate.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "routes.h"
#include "windows.h"

/* Steps of a rank at a time: the messages under way stay in the processor's caches. */
#define TURN 256

/* A distinct step of a rank at the setup's costs. */
struct timed_step {
	int64_t work_ps, flight_ps;
	int takes, puts; /* queues; -1 */
	bool has_bytes; /* its message; a signal has none */
};

/* Messages from one rank to another: when each arrives. Two share a line of the caches. */
struct queue {
	int64_t *arrivals; /* [capacity], a power of 2 */
	unsigned first, count;
	unsigned capacity : 31;
	bool awaited : 1; /* its receiver waits for a message of it */
	int route : 31; /* in the routes' hops; -1: no link is shared */
	bool merges : 1; /* some link of its route does */
	int sender, receiver;
};

struct state {
	const uint16_t *steps;
	uint16_t near[PACKED_NEAR]; /* the steps around `at`, from a multiple of their number on */
	const struct timed_step *timed;
	int64_t now_ps, work_ps, death_ps;
	uint64_t pieces_left, drawn; /* drawn: random numbers */
	int at, count;
	int waits; /* the queue of the message that it waits for; -1 */
	int slow;
	bool died;
};

struct run {
	const struct simulation_setup *setup;
	struct state *states;
	struct timed_step *timed;
	struct queue *queues;
	struct routes routes;
	int *ready; /* [ranks]: a ring of those that can go on */
	int ready_first, ready_count;
	struct windows windows;
	int64_t horizon_ps; /* the window's end, while messages come to its links */
	struct message_list here; /* the messages of the window, at links that merge */
	struct message_list sorted; /* those of one link */
	int *touched; /* [links]: those that have such messages */
	int touched_count;
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

static void fail_long(struct run *run)
{
	run->err = rd_fail(RONDO_UNSUPPORTED, "the call takes more than 13 days");
}

/* ---- Messages that arrive ------------------------------------------------------------------- */

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

	if (queue->count == queue->capacity && !grow(queue)) {
		run->err = rd_fail(RONDO_MEMORY, "no memory for the messages under way");
		return;
	}
	queue->arrivals[(queue->first + queue->count++) & (queue->capacity - 1)] = arrival_ps;
	if (queue->awaited) {
		queue->awaited = false;
		run->states[queue->receiver].waits = -1;
		add_woken(run, queue->receiver);
	}
}

/* ---- Messages on links ---------------------------------------------------------------------- */

static void fail_memory(struct run *run)
{
	run->err = rd_fail(RONDO_MEMORY, "no memory for the messages under way");
}

/* Passes a link, when that has sent all that came before. */
static void pass_link(struct run *run, struct route_link *link, struct message *message)
{
	int64_t time = message->has_bytes ? link->bytes_ps : 0;
	int64_t start = rd_longer(message->at_ps, link->free_ps);

	if (start + time > SIMULATION_PS_MAX) {
		fail_long(run);
		return;
	}
	link->free_ps = start + time;
	link->messages++;
	link->filled += message->has_bytes;
	message->at_ps = start + link->latency_ps;
	message->tail_ps = rd_longer(message->tail_ps, start + time) + link->latency_ps;
	message->hop++;
}

/* Comes to a link that merges, in this window. */
static void come(struct run *run, struct message *message)
{
	int index = run->routes.hops[message->hop].link;
	struct route_link *link = &run->routes.links[index];

	if (link->first < 0)
		run->touched[run->touched_count++] = index;
	message->next = link->first;
	link->first = run->here.count;
	if (!message_list_add(&run->here, message))
		fail_memory(run);
}

/* Goes on to the next link that merges, or to its receiver. */
static void go_on(struct run *run, struct message *message)
{
	const struct route_hop *hop = &run->routes.hops[message->hop];

	for (; hop->link >= 0 && !hop->merges && !run->err; hop++)
		pass_link(run, &run->routes.links[hop->link], message);
	if (run->err)
		return;
	if (hop->link < 0)
		put_message(run, message->queue, message->tail_ps);
	else if (message->at_ps < run->horizon_ps)
		come(run, message);
	else if (!windows_put(&run->windows, message))
		fail_memory(run);
}

/* Lists the messages that came to the link, the first to pass last. */
static void list_messages(struct run *run, const struct route_link *link)
{
	struct message_list *list = &run->sorted;

	list->count = 0;
	for (int next = link->first; next >= 0; next = run->here.messages[next].next)
		if (!message_list_add(list, &run->here.messages[next])) {
			fail_memory(run);
			return;
		}
	message_list_sort(list);
}

/* All that came to it in this window pass the link. */
static void serve_link(struct run *run, struct route_link *link)
{
	struct message *messages = &run->here.messages[link->first];
	int count = 1;

	if (messages->next >= 0) {
		list_messages(run, link);
		messages = run->sorted.messages;
		count = run->sorted.count;
	}
	link->first = -1;
	for (int i = count - 1; i >= 0 && !run->err; i--) {
		pass_link(run, link, &messages[i]);
		go_on(run, &messages[i]);
	}
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
			queue->awaited = true;
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

static void fill_near(struct state *state)
{
	memcpy(state->near, state->steps + state->at, sizeof(state->near));
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
	if (state->at % PACKED_NEAR == 0)
		fill_near(state);
	return &state->timed[state->near[state->at % PACKED_NEAR]];
}

/* Puts the step's message. False: the rank waits for the window in which it comes to links. */
static bool put_step(struct run *run, const struct state *state, const struct timed_step *step)
{
	const struct queue *queue = &run->queues[step->puts];
	struct message message = { .at_ps = state->now_ps,
		.tail_ps = state->now_ps,
		.queue = step->puts,
		.hop = queue->route,
		.is_first = true,
		.has_bytes = step->has_bytes };

	if (queue->route < 0) {
		put_message(run, step->puts, state->now_ps + step->flight_ps);
		return true;
	}
	if (!queue->merges || message.at_ps < run->horizon_ps) {
		message.is_first = false;
		go_on(run, &message);
		return true;
	}
	if (!windows_put(&run->windows, &message))
		fail_memory(run);
	return false;
}

/* Runs a rank until it waits, ends, or has a message for links of a later window. */
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
		if (step->puts >= 0 && !put_step(run, state, step))
			return;
		state->at++;
	}
}

static void run_ranks(struct run *run)
{
	while (!run->err && run->ready_count > 0)
		run_rank(run, take_ready(run));
}

/* ---- Windows -------------------------------------------------------------------------------- */

/* A window is no longer than a message takes from a link that merges to its next such link or its
   receiver. So nothing that comes to such a link within the window follows from another. */
static void run_window(struct run *run, struct message_list *window)
{
	run->horizon_ps = (int64_t)((run->windows.now + 1) << run->windows.shift);
	run->here.count = 0;
	for (int i = 0; i < window->count && !run->err; i++) {
		struct message *message = &window->messages[i];

		/* Its sender has waited for this window. */
		if (message->is_first) {
			int sender = run->queues[message->queue].sender;

			run->states[sender].at++;
			message->is_first = false;
			add_ready(run, sender);
		}
		go_on(run, message);
	}
	window->count = 0;
	run_ranks(run);
	run->horizon_ps = 0;
	for (int i = 0; i < run->touched_count && !run->err; i++)
		serve_link(run, &run->routes.links[run->touched[i]]);
	run->touched_count = 0;
}

static void run_all(struct run *run)
{
	struct message_list *window;

	for (int rank = 0; rank < run->setup->packed->size; rank++)
		add_ready(run, rank);
	run_ranks(run);
	while (!run->err && (window = windows_next(&run->windows, &run->err))) {
		run_window(run, window);
		run_ranks(run);
	}
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
			run->queues[plan->first_queue + i] = (struct queue){
				.sender = rank,
				.receiver = packed->receivers[plan->first_queue + i],
				.route = -1,
			};
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

static int add_routes(struct run *run)
{
	const struct packed *packed = run->setup->packed;
	const int *hosts = run->setup->hosts;
	struct routes *routes = &run->routes;
	int64_t least = INT64_MAX;
	int err = routes_create(routes, run->setup->network, run->setup->step_cost->slice);

	for (int i = 0; i < packed->queue_count && !err; i++) {
		struct queue *queue = &run->queues[i];

		int route = -1, from = hosts[queue->sender], to = hosts[queue->receiver];

		if (from != to)
			err = routes_add(
				routes, run->setup->network, queue->sender, from, to, &route);
		queue->route = route;
	}
	for (int i = 0; i < packed->queue_count && !err; i++) {
		struct queue *queue = &run->queues[i];

		if (queue->route < 0)
			continue;

		int64_t time = routes_finish(routes, queue->route);

		queue->merges = time < INT64_MAX;
		least = rd_shorter(least, time);
	}
	/* Where links have no latency, the messages of each instant are a window. */
	run->windows.shift = least > 0 ? 63 - __builtin_clzll((uint64_t)least) : 0;
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
	run->touched = calloc(links + 1, sizeof(*run->touched));
	run->ready = calloc(size, sizeof(*run->ready));
	simulation->ranks = calloc(size, sizeof(*simulation->ranks));
	simulation->links = calloc(links + 1, sizeof(*simulation->links));
	simulation->rank_count = packed->size;
	simulation->link_count = (int)links;
	if (!run->states || !run->timed || !run->queues || !run->touched || !run->ready ||
		!simulation->ranks || !simulation->links)
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
	routes_destroy(&run->routes);
	windows_finish(&run->windows);
	free(run->touched);
	free(run->here.messages);
	free(run->sorted.messages);
	free(run->ready);
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

static void collect_links(const struct run *run, struct simulation *simulation)
{
	for (int i = 0; i < simulation->link_count; i++) {
		const struct route_link *link = &run->routes.links[i];

		simulation->links[i] = (struct simulated_link){
			.busy_ps = (int64_t)link->filled * link->bytes_ps,
			.messages = link->messages,
			.bytes = link->filled * run->setup->step_cost->slice,
		};
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
	if (err) {
		simulation_finish(simulation);
	} else {
		collect(&run, simulation);
		collect_links(&run, simulation);
	}
	destroy(&run);
	return err;
}

void simulation_finish(struct simulation *simulation)
{
	free(simulation->ranks);
	free(simulation->links);
	*simulation = (struct simulation){ 0 };
}
