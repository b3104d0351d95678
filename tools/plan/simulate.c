#include "simulate.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queues.h"
#include "routes.h"
#include "windows.h"

/* Steps of a rank at a time: the messages under way stay in the processor's caches. */
#define TURN 256
/* Messages of a rank that wait at a time for the windows in which they come to links. */
#define AHEAD 8
/* Links of a window's messages fetched into the caches before their turn. */
#define FETCHED 8

/* A distinct step of a rank at the setup's costs. */
struct timed_step {
	int64_t work_ps, flight_ps;
	int takes, puts; /* queues; -1 */
	bool has_bytes; /* its message; a signal has none */
};

struct state {
	struct timed_step step; /* of the run at hand */
	int left; /* steps of it */
	int at; /* steps before the next one */
	int64_t now_ps, work_ps, death_ps;
	uint64_t pieces_left, drawn; /* drawn: random numbers */
	const struct timed_step *timed;
	const struct packed_run *runs;
	int run, run_count; /* run: the next */
	int waits; /* the queue of the message that it waits for; -1 */
	int slow;
	int ahead; /* messages for later windows that it put since it last waited for one */
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
	struct message_list here; /* the messages of the window, then those that come to it */
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

/* The message arrives; its receiver goes on, if it waits for it. */
static void put_message(struct run *run, int index, int64_t arrival_ps)
{
	struct queue *queue = &run->queues[index];

	if (!queue_put(queue, arrival_ps)) {
		run->err = rd_fail(RONDO_MEMORY, "no memory for the messages under way");
		return;
	}
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

/* Passes a link: a light one at once, another when that has sent all that came before. */
static inline void pass_link(
	struct run *run, struct route_link *link, struct message *message, bool light)
{
	int64_t time = message->has_bytes ? link->bytes_ps : 0;
	int64_t start = light ? message->at_ps : rd_longer(message->at_ps, link->free_ps);

	if (start + time > SIMULATION_PS_MAX) {
		fail_long(run);
		return;
	}
	if (!light)
		link->free_ps = start + time;
	link->messages++;
	link->filled += message->has_bytes;
	message->at_ps = start + link->latency_ps;
	message->tail_ps = rd_longer(message->tail_ps, start + time) + link->latency_ps;
	message->hop++;
}

/* Comes to a link that merges, in this window. */
static void come(struct run *run, int index)
{
	struct message *message = &run->here.messages[index];
	struct route_link *link = &run->routes.links[message->link];

	if (link->first < 0)
		run->touched[run->touched_count++] = message->link;
	message->next = link->first;
	link->first = index;
}

/* Goes on to the next link that merges, or to its receiver. Returns whether it waits for a later
   window. In line, it keeps the message in registers:
   copies of what was just written wait. */
static inline __attribute__((always_inline)) bool go_on(struct run *run, struct message message)
{
	const struct route_hop *hop = &run->routes.hops[message.hop];

	for (; hop->link >= 0 && !hop->merges && !run->err; hop++)
		pass_link(run, &run->routes.links[hop->link], &message, hop->light);
	if (run->err)
		return false;
	message.link = hop->link;
	if (hop->link < 0) {
		put_message(run, message.queue, message.tail_ps);
		return false;
	}
	if (message.at_ps < run->horizon_ps) {
		if (message_list_add(&run->here, &message))
			come(run, run->here.count - 1);
		else
			fail_memory(run);
		return false;
	}
	if (!windows_put(&run->windows, &message))
		fail_memory(run);
	return true;
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
	const struct message *messages = &run->here.messages[link->first];
	int count = 1;

	if (messages->next >= 0) {
		list_messages(run, link);
		messages = run->sorted.messages;
		count = run->sorted.count;
	}
	link->first = -1;
	for (int i = count - 1; i >= 0 && !run->err; i--) {
		struct message message = messages[i];

		pass_link(run, link, &message, false);
		go_on(run, message);
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

		if (queue_is_empty(queue)) {
			state->waits = step->takes;
			queue->awaited = true;
			return false;
		}
		begin = rd_longer(begin, queue_take(queue));
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

/* The next step; NULL: the rank is done. */
static const struct timed_step *next_step(struct state *state)
{
	if (state->left == 0) {
		if (state->run == state->run_count) {
			if (state->run_count == 0 || state->pieces_left <= 1) {
				state->pieces_left = 0;
				return NULL;
			}
			state->pieces_left--;
			state->at = state->run = 0;
		}
		state->left = state->runs[state->run].times;
		state->step = state->timed[state->runs[state->run++].number];
	}
	return &state->step;
}

/* Puts the step's message. False: the rank waits for the window in which it comes to links. */
static bool put_step(struct run *run, struct state *state, const struct timed_step *step)
{
	const struct queue *queue = &run->queues[step->puts];
	struct message message = { .at_ps = state->now_ps,
		.tail_ps = state->now_ps,
		.queue = step->puts,
		.hop = queue->route,
		.has_bytes = step->has_bytes };

	if (queue->route < 0 || queue->light) {
		put_message(run, step->puts, state->now_ps + step->flight_ps);
		return true;
	}
	if (!go_on(run, message) || ++state->ahead < AHEAD || state->now_ps < run->horizon_ps)
		return true;
	/* It goes on when all that came before this message passes links, also those that this has
	   not come to: the next may take another way. */
	state->ahead = 0;
	message.link = -1;
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
		state->left--;
		state->at++;
		if (step->puts >= 0 && !put_step(run, state, step))
			return;
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
static void run_window(struct run *run)
{
	const struct message *messages = run->here.messages;
	int count = run->here.count;

	run->horizon_ps = (int64_t)((run->windows.now + 1) << run->windows.shift);
	for (int i = 0; i < count; i++) {
		if (i + FETCHED < count)
			__builtin_prefetch(&run->routes.links[messages[i + FETCHED].link], 1);
		if (messages[i].link < 0)
			add_ready(run, run->queues[messages[i].queue].sender);
		else
			come(run, i);
	}
	run_ranks(run);
	run->horizon_ps = 0;
	for (int i = 0; i < run->touched_count && !run->err; i++)
		serve_link(run, &run->routes.links[run->touched[i]]);
	run->touched_count = 0;
	run->here.count = 0;
}

static void run_all(struct run *run)
{
	for (int rank = 0; rank < run->setup->packed->size; rank++)
		add_ready(run, rank);
	run_ranks(run);
	while (!run->err && windows_next(&run->windows, &run->here, &run->err)) {
		run_window(run);
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
			.runs = plan->runs,
			.timed = timed,
			.now_ps = run->setup->starts_ps ? run->setup->starts_ps[rank] : 0,
			.death_ps = run->setup->deaths_ps ? run->setup->deaths_ps[rank] : INT64_MAX,
			.pieces_left = run->setup->pieces,
			.run_count = plan->run_count,
			.waits = -1,
			.slow = run->setup->slow ? run->setup->slow[rank] : 1000,
		};
		for (int i = 0; i < plan->queue_count; i++) {
			int queue = plan->first_queue + i;

			queue_init(&run->queues[queue], rank, packed->receivers[queue]);
		}
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

/* The least time from one of a rank's messages to another host to its next. 0, as if there were
   none, where its queues might count more messages than they can. */
static int64_t gap_of(const struct run *run, int rank)
{
	const struct packed_plan *plan = &run->setup->packed->plans[rank];
	const struct state *state = &run->states[rank];
	const int *hosts = run->setup->hosts;
	int64_t gap_ps = INT64_MAX;

	if (run->setup->pieces > UINT32_MAX / ((unsigned)plan->count + 1))
		return 0;
	for (int i = 0; i < plan->distinct_count; i++) {
		const struct timed_step *step = &state->timed[i];

		if (step->puts >= 0 && hosts[run->queues[step->puts].receiver] != hosts[rank])
			gap_ps = rd_shorter(gap_ps, share(step->work_ps, state->slow, 1000));
	}
	return gap_ps;
}

/* The flight over light links is known. */
static void time_light(struct run *run)
{
	for (int i = 0; i < run->setup->packed->distinct_count; i++) {
		struct timed_step *step = &run->timed[i];

		if (step->puts >= 0 && run->queues[step->puts].light)
			step->flight_ps =
				routes_light_ps(&run->routes, run->queues[step->puts].route);
	}
}

static int add_routes(struct run *run)
{
	const struct packed *packed = run->setup->packed;
	const struct network *network = run->setup->network;
	int err = routes_create(&run->routes, network, run->setup->step_cost->slice);

	for (int rank = 0; rank < packed->size && !err; rank++) {
		const struct packed_plan *plan = &packed->plans[rank];

		err = routes_add(&run->routes, network, run->setup->hosts, gap_of(run, rank),
			&run->queues[plan->first_queue], plan->queue_count);
	}
	if (err)
		return err;

	int64_t least = routes_finish(&run->routes, run->queues, packed->queue_count);

	/* Where links have no latency, the messages of each instant are a window. */
	run->windows.shift = least > 0 ? 63 - __builtin_clzll((uint64_t)least) : 0;
	time_light(run);
	return 0;
}

static int create(struct run *run, struct simulation *simulation)
{
	const struct packed *packed = run->setup->packed;
	size_t size = (size_t)packed->size;
	size_t links = run->setup->network ? (size_t)run->setup->network->link_count : 0;

	run->states = calloc(size, sizeof(*run->states));
	run->timed = calloc((size_t)packed->distinct_count + 1, sizeof(*run->timed));
	run->queues = queues_create(packed->queue_count);
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
	queues_destroy(run->queues, run->setup->packed->queue_count);
	free(run->states);
	free(run->timed);
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

static void collect_links(struct run *run, struct simulation *simulation)
{
	for (int i = 0; i < run->setup->packed->queue_count; i++)
		if (run->queues[i].light)
			routes_count(&run->routes, &run->queues[i]);
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
