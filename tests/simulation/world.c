#include "world.h"

#include <stdio.h>
#include <string.h>

#include "kinds.h"

/* ---- Drawing ------------------------------------------------------------------------------- */

static void init_rank(struct world *world, int number)
{
	struct sim_rank *rank = &world->ranks[number];
	const struct fault *late = world_fault(FAULT_late, number, -1);

	memset(rank, 0, sizeof(*rank));
	rank->rank = number;
	rank->settings.rank = number;
	rank->settings.size = world->size;
	rank->settings.algo = "";
	rank->settings.channels = world->channels;
	rank->settings.piece_size = 4096;
	if (world_fault(FAULT_setting, number, -1))
		rank->settings.piece_size = 8192;
	rank->settings.timeout_ms = CALL_MS;
	rank->settings.heartbeat_timeout_ms = HEARTBEAT_MS;
	rank->settings.init_timeout_ms = INIT_MS;
	snprintf(rank->self.member.place.host_name, RD_HOST_SIZE, "h%d",
		number * world->hosts / world->size);
	memcpy(rank->self.member.place.host_id, rank->self.member.place.host_name, RD_HOST_SIZE);
	rank->self.member.place.pid = 100 + number;
	atomic_store(&rank->activity.collective, -1);
	atomic_store(&rank->activity.waiting_for, -1);
	rank->socket = rank->dead_peer = -1;
	rank->attempt_ns = rank->linger_ns = rank->wake_ns = NEVER;
	rank->start_ns = draw(&sim.run, 20 * MS) + (late ? (uint64_t)late->number[1] * MS : 0);
}

static void draw_world(struct world *world, uint64_t seed, int ranks, int calls)
{
	static const size_t pieces[] = { 64, 128, LINK_PIECE_MAX };
	struct draw stream = draw_from(seed, 1);

	world->seed = seed;
	/* Small worlds are the most. */
	world->size = 2 + (int)draw(&stream, 1 + draw(&stream, RANKS_MAX - 1));
	world->calls = 1 + (int)draw(&stream, CALLS_MAX);
	world->hosts = 1 + (int)draw(&stream, 3);
	world->channels = 1 + (int)draw(&stream, LINK_CHANNELS_MAX);
	world->slots = 2 + (int)draw(&stream, LINK_SLOTS_MAX - 1);
	world->piece = pieces[draw(&stream, 3)];
	world->zero_copy = draw_one_in(&stream, 2);
	world->lossy = draw_one_in(&stream, 4);
	world->control_ns = draw_one_in(&stream, 2) ? 20 * MS : MS / 10;
	world->latency_ns = 1000 + draw(&stream, 100000);
	world->jitter_ns = draw_one_in(&stream, 2) ? 5 * MS : 1000;
	if (ranks > 0 && ranks < world->size)
		world->size = ranks;
	if (calls > 0 && calls < world->calls)
		world->calls = calls;
	if (world->hosts > world->size)
		world->hosts = world->size;
	calls_draw(world, seed);
}

const struct fault *world_fault(enum fault_kind kind, int rank, int second)
{
	for (int i = 0; i < sim.faults.count; i++) {
		const struct fault *fault = &sim.faults.at[i];

		if (fault->kind == kind && fault->number[0] == rank &&
			(second < 0 || fault->number[1] == second))
			return fault;
	}
	return NULL;
}

/* ---- For the other files of this folder ---------------------------------------------------- */

void world_touch(struct world *world, int rank)
{
	world->ranks[rank].wake_ns = sim.now_ns;
}

uint64_t world_delay(struct world *world, uint64_t most_ns)
{
	uint64_t delay_ns = sim_delay(most_ns);

	/* A lost packet is sent again. */
	if (world->lossy && draw_one_in(&sim.run, 100))
		delay_ns += 50 * MS;
	return delay_ns;
}

bool world_is_far(int rank)
{
	return sim.hosts[rank] != 0;
}

/* ---- Faults -------------------------------------------------------------------------------- */

/* The kernel shows it to the rank before it on this host that lives. */
static void show_death(struct world *world, int dead)
{
	for (int i = 1; i < world->size; i++) {
		int watcher = (dead + world->size - i) % world->size;

		if (sim.hosts[watcher] != sim.hosts[dead] || world->ranks[watcher].dead)
			continue;
		sim_event(EVENT_DEATH, watcher * RANKS_MAX + dead,
			sim.now_ns + draw(&sim.run, 5 * MS));
		return;
	}
}

void world_kill(struct world *world, struct sim_rank *rank, bool vanishes)
{
	if (rank->dead || rank->stage == STAGE_GONE)
		return;
	rank->dead = true;
	sim.vanished |= (unsigned)vanishes << rank->rank;
	if (rank->stage == STAGE_ABSENT || vanishes) {
		rank_finish(rank);
		return;
	}
	simulated_links_close(&world->links, rank->rank, true);
	if (rank->rank == 0)
		wire_close_coordinator(world);
	else
		/* Its kernel resets the connection where it had not read all bytes. */
		wire_close(rank,
			world_is_far(rank->rank) && draw_one_in(&sim.run, 4) ? ECONNRESET : 0);
	rank_finish(rank);
	show_death(world, rank->rank);
}

static void pause_rank(struct sim_rank *rank, int ms)
{
	if (rank->dead || rank->stage == STAGE_ABSENT || rank->stage == STAGE_GONE)
		return;
	rank->paused_until = sim_until(ms);
	sim_event(EVENT_RESUME, rank->rank, rank->paused_until);
}

/* Bytes of a connection that is of no rank: none, noise, the start of a message, a wrong one. */
static void intrude(int kind)
{
	struct rd_control_message message = { .kind = RD_CONTROL_READY };
	unsigned char frame[RD_FRAME_MAX];
	size_t size = rd_control_encode(&message, frame);

	if (kind == 1)
		for (size_t i = 0; i < size; i++)
			frame[i] = (unsigned char)draw(&sim.run, 256);
	wire_intrude(frame, kind == 0 ? 0 : kind == 2 ? size / 2 : size);
}

static void reject(struct world *world, unsigned side, int ms)
{
	sim_add_cut(side, ms, true);
	for (int i = 1; i < world->size; i++)
		if (sim_rejects(i, 0) && sim_acts(&world->ranks[i]))
			wire_reset(&world->ranks[i]);
}

static void note_strike(struct world *world)
{
	world->struck_all_open = true;
	for (int i = 0; i < world->size; i++)
		world->struck_all_open &= world->ranks[i].stage == STAGE_CALLING;
}

static void strike(struct world *world, const struct fault *fault)
{
	const int *number = fault->number;
	struct sim_rank *rank = &world->ranks[number[0] < RANKS_MAX ? number[0] : 0];

	switch (fault->kind) {
	case FAULT_kill:
	case FAULT_vanish:
		world_kill(world, rank, fault->kind == FAULT_vanish);
		return;
	case FAULT_pause:
		pause_rank(rank, number[1]);
		return;
	case FAULT_partition:
		sim_add_cut((unsigned)number[0], number[1], false);
		return;
	case FAULT_reset:
		if (sim_acts(rank))
			wire_reset(rank);
		return;
	case FAULT_reject:
		reject(world, (unsigned)number[0], number[1]);
		return;
	case FAULT_sever:
		simulated_links_sever(&world->links, number[0], number[1]);
		world_touch(world, number[0]);
		world_touch(world, number[1]);
		return;
	case FAULT_flip:
		world->flips[number[0]][number[1]]++;
		return;
	case FAULT_twice:
		if (rank->hello_size > 0)
			wire_intrude(rank->hello, rank->hello_size);
		return;
	case FAULT_strange:
		intrude(number[0]);
		return;
	default:
		return;
	}
}

static void strike_faults(struct world *world)
{
	const struct fault *fault;

	while ((fault = sim_strike()) != NULL) {
		note_strike(world);
		strike(world, fault);
	}
}

/* ---- Time ---------------------------------------------------------------------------------- */

static void take_greeting(struct world *world, int subject)
{
	int from = subject / 16 / RANKS_MAX, to = subject / 16 % RANKS_MAX;
	uint64_t cut_ns = sim_cut(from, to);

	if (cut_ns == NEVER)
		return;
	if (cut_ns) {
		sim_event(EVENT_GREETING, subject, cut_ns);
		return;
	}
	connect_take(world, subject);
}

static void take_event(struct world *world, const struct rd_timed_event *event)
{
	struct sim_rank *rank = &world->ranks[event->subject % RANKS_MAX];

	if (event->kind >= EVENT_LINK) {
		links_take_event(
			world, (enum link_event)(event->kind - EVENT_LINK), event->subject);
		return;
	}
	switch (event->kind) {
	case EVENT_START:
		if (!rank->dead && rank->stage == STAGE_ABSENT) {
			sim_trace(rank->rank, "starts");
			rank_start(world, rank);
			world_touch(world, rank->rank);
		}
		return;
	case EVENT_RESUME:
		if (rank->paused_until <= sim.now_ns)
			rank->paused_until = 0;
		world_touch(world, rank->rank);
		return;
	case EVENT_GREETING:
		take_greeting(world, event->subject);
		return;
	case EVENT_DEATH:
		world->ranks[event->subject / RANKS_MAX].dead_peer = event->subject % RANKS_MAX;
		world_touch(world, event->subject / RANKS_MAX);
		return;
	default:
		sockets_take_event((enum socket_event)event->kind, event->subject);
	}
}

/* The next rank that is due, from a random one on; NULL: none. */
static struct sim_rank *next_rank(struct world *world, uint64_t *at_ns)
{
	int first = (int)draw(&sim.run, (uint64_t)world->size);
	struct sim_rank *next = NULL;

	*at_ns = NEVER;
	for (int i = 0; i < world->size; i++) {
		struct sim_rank *rank = &world->ranks[(first + i) % world->size];

		if (!sim_acts(rank) || rank->wake_ns >= *at_ns)
			continue;
		next = rank;
		*at_ns = rank->wake_ns;
	}
	return next;
}

static bool is_living(const struct sim_rank *rank)
{
	return !rank->dead && rank->paused_until != NEVER && rank->stage != STAGE_GONE;
}

static bool all_ended(const struct world *world)
{
	for (int i = 0; i < world->size; i++)
		if (is_living(&world->ranks[i]) && !world_fault(FAULT_absent, i, -1))
			return false;
	return true;
}

static void run(struct world *world)
{
	uint64_t end_ns = sim_end_of_time(END_MS);
	struct rd_timed_event event;

	while (!sim.failure[0] && !all_ended(world)) {
		uint64_t at_ns;
		struct sim_rank *rank = next_rank(world, &at_ns);
		bool queued = sim.queue.count > 0;

		sim.events++;
		strike_faults(world);
		if (queued && (!rank || sim.queue.heap[0].time_ns <= at_ns)) {
			rd_event_queue_take(&sim.queue, &event);
			if (event.time_ns > sim.now_ns)
				sim.now_ns = event.time_ns;
			if (sim.now_ns > end_ns)
				return;
			take_event(world, &event);
		} else if (rank) {
			if (at_ns > sim.now_ns)
				sim.now_ns = at_ns;
			if (sim.now_ns > end_ns)
				return;
			rank->wake_ns = NEVER;
			rank_run(world, rank);
		} else {
			return;
		}
	}
}

/* ---- A seed --------------------------------------------------------------------------------- */

static struct world the_world;

void world_draw(uint64_t seed, int most_ranks, int most_calls, struct faults *faults, int *ranks,
	int *calls)
{
	struct draw of_faults = draw_from(seed, 3);

	draw_world(&the_world, seed, 0, 0);
	faults_draw(faults, &of_faults, the_world.size, the_world.calls);
	draw_world(&the_world, seed, most_ranks, most_calls);
	*ranks = the_world.size;
	*calls = the_world.calls;
}

static void begin(struct world *world)
{
	world->coordinator_error = 0;
	world->coordinator_reason[0] = '\0';
	memset(world->flips, 0, sizeof(world->flips));
	wire_begin(world);
	links_open(world);
	for (int i = 0; i < world->size; i++) {
		init_rank(world, i);
		if (!world_fault(FAULT_absent, i, -1))
			sim_event(EVENT_START, i, world->ranks[i].start_ns);
	}
}

const char *world_run(uint64_t seed, int ranks, int calls, const struct faults *faults, bool trace)
{
	struct world *world = &the_world;
	char text[FAULTS_TEXT];

	draw_world(world, seed, ranks, calls);
	sim_begin(draw_from(seed, 4), world->size, world->hosts, faults, trace);
	begin(world);
	faults_print(faults, text);
	sim_trace(-1, "%d ranks on %d hosts, %d calls; faults: %s", world->size, world->hosts,
		world->calls, text);
	run(world);
	if (!sim.failure[0])
		judge(world);
	for (int i = 0; i < world->size; i++)
		rank_finish(&world->ranks[i]);
	simulated_links_finish(&world->links);
	return sim.failure[0] ? sim.failure : NULL;
}
