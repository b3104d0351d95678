#include "net.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct net net;

uint32_t net_draw(uint32_t below)
{
	net.seed = net.seed * 1664525u + 1013904223u;
	return below ? (net.seed >> 8) % below : 0;
}

/* ---- Bytes --------------------------------------------------------------------------------- */

static uint64_t arrival(void)
{
	return (uint64_t)(net.now_ms + net_draw((uint32_t)net.delay_ms + 1));
}

static void corrupt(unsigned char *bytes, size_t size)
{
	struct rd_control_message message = { .kind = RD_CONTROL_HELLO +
						      (int)net_draw(RD_CONTROL_LAST) };
	unsigned char frame[RD_FRAME_MAX];
	size_t other;

	if (net_draw(4) > 0)
		return;
	if (net_draw(2) == 0) {
		bytes[net_draw((uint32_t)size)] ^= (unsigned char)(1 << net_draw(8));
		return;
	}
	message.left.rank = (int)net_draw(2);
	other = rd_control_encode(&message, frame);
	memcpy(bytes, frame, other < size ? other : size);
}

/* In two fragments; corrupts: with a random error in some messages. */
static void send_message(struct pipe *pipe, struct rd_control_message *message, bool corrupts)
{
	unsigned char frame[RD_FRAME_MAX];
	size_t size = rd_control_encode(message, frame), cut = 1 + net_draw((uint32_t)size - 1);

	if (corrupts)
		corrupt(frame, size);
	pipe_put(pipe, frame, cut, arrival());
	pipe_put(pipe, frame + cut, size - cut, arrival());
}

static void send_end(struct pipe *pipe)
{
	if (!pipe->ending)
		pipe_put_end(pipe, 0, arrival());
}

/* ---- Ends of connections ------------------------------------------------------------------- */

/* From the side of the rank: the coordinator receives the end. */
static void close_connection(struct net_node *node)
{
	if (!node->linked)
		return;
	node->linked = false;
	if (node->connection >= 0)
		send_end(&node->up);
}

static void coordinator_close(struct net_node *node)
{
	rd_coordinator_closed(net.coordinator, node->connection, 0, net.now_ms);
	node->connection = -1;
	send_end(&node->down);
}

static void connect_node(struct net_node *node)
{
	if (!net.coordinator || !rd_coordinator_listening(net.coordinator) || net.nodes[0].dead) {
		rd_participant_refused(node->participant, true, "Connection refused", net.now_ms);
		return;
	}
	if (node->connection >= 0)
		return; /* the coordinator has yet to receive the end of the last one */
	pipe_clear(&node->up);
	pipe_clear(&node->down);
	node->connection = rd_coordinator_open(net.coordinator, net.now_ms);
	if (node->connection < 0) {
		rd_participant_refused(node->participant, false, "no room", net.now_ms);
		return;
	}
	node->linked = true;
	rd_participant_connected(node->participant, net.now_ms);
}

bool net_acts(const struct net_node *node)
{
	return node->participant && !node->dead && !node->stopped;
}

static bool coordinator_acts(void)
{
	return net.coordinator && !net.nodes[0].stopped;
}

static void serve_coordinator(void)
{
	const char *reason;
	struct rd_control_message message;

	if (!coordinator_acts())
		return;
	for (int i = 0; i < net.size; i++) {
		struct net_node *node = &net.nodes[i];
		while (node->connection >= 0 && pipe_has_room(&node->down) &&
			rd_coordinator_next(net.coordinator, node->connection, &message))
			send_message(&node->down, &message, false);
		if (node->connection >= 0 && net.coordinator->connections[node->connection].dropped)
			coordinator_close(node);
	}
	net.coordinator_error = rd_coordinator_verdict(net.coordinator, &reason);
	snprintf(net.coordinator_reason, sizeof(net.coordinator_reason), "%s", reason);
}

static void serve_node(struct net_node *node)
{
	struct rd_control_message message;

	if (!net_acts(node))
		return;
	if (rd_participant_connects(node->participant, net.now_ms))
		connect_node(node);
	while (node->linked && pipe_has_room(&node->up) &&
		rd_participant_next(node->participant, &message))
		send_message(&node->up, &message, node->corrupts);
	if (node->participant->phase >= RD_PARTICIPANT_LEFT)
		close_connection(node);
}

void net_kill(struct net_node *node)
{
	node->dead = true;
	close_connection(node);
	if (node != &net.nodes[0] || !net.coordinator)
		return;
	for (int i = 1; i < net.size; i++) {
		if (net.nodes[i].connection >= 0)
			send_end(&net.nodes[i].down);
		net.nodes[i].connection = -1;
	}
	rd_coordinator_destroy(net.coordinator);
	net.coordinator = NULL;
}

static void inject_fault(void)
{
	struct net_node *node = &net.nodes[net.victim];

	if (net.fault == DIES)
		net_kill(node);
	else if (net.fault == STOPS)
		node->stopped = true;
	else if (net.fault == CORRUPTS)
		node->corrupts = true;
}

static void count_event(void)
{
	if (net.fault != NO_FAULT && net.events++ == net.fault_event)
		inject_fault();
}

static void coordinator_receive(struct net_node *node)
{
	struct rd_control_message message;
	int took;

	while (node->connection >= 0 && (took = pipe_take(&node->up, &message))) {
		if (took < 0)
			rd_coordinator_bad_message(net.coordinator, node->connection, net.now_ms);
		else
			rd_coordinator_take(
				net.coordinator, node->connection, &message, net.now_ms);
	}
}

static void node_receive(struct net_node *node)
{
	struct rd_control_message message;
	int took;

	while ((took = pipe_take(&node->down, &message))) {
		if (took < 0)
			rd_participant_bad_message(node->participant);
		else
			rd_participant_take(node->participant, &message, net.now_ms);
	}
}

static void deliver_up(struct net_node *node)
{
	if (!net.coordinator || node->connection < 0)
		return;
	coordinator_receive(node);
	if (!node->up.ended || node->connection < 0)
		return;
	rd_coordinator_closed(net.coordinator, node->connection, 0, net.now_ms);
	node->connection = -1;
}

static void deliver_down(struct net_node *node)
{
	if (node->dead || !node->linked)
		return;
	node_receive(node);
	if (!node->down.ended)
		return;
	node->linked = false;
	rd_participant_closed(node->participant, 0, net.now_ms);
}

/* Delivers one fragment that is due, unless its receiver is stopped. */
static bool deliver(struct net_node *node, struct pipe *pipe)
{
	bool up = pipe == &node->up;
	bool asleep = up ? net.nodes[0].stopped && !net.nodes[0].dead : node->stopped;

	if (pipe_next(pipe) > (uint64_t)net.now_ms || asleep)
		return false;
	pipe_arrive(pipe);
	if (up)
		deliver_up(node);
	else
		deliver_down(node);
	count_event();
	return true;
}

/* ---- Actions of ranks ---------------------------------------------------------------------- */

int net_route_to(const struct net_node *node, int peer)
{
	const struct rd_link_failures *fallbacks = &node->participant->fallbacks;
	unsigned barred = 0;
	int route = 0;

	for (int i = 0; i < fallbacks->count; i++)
		if (fallbacks->at[i].low == peer || fallbacks->at[i].high == peer)
			barred |= 1u << (fallbacks->at[i].transport[0] - '0');
	while (barred >> route & 1)
		route++;
	return route;
}

static void report_link_failure(struct net_node *node, int peer, int route)
{
	int rank = (int)(node - net.nodes);
	struct rd_link_failure link_failure = {
		.low = rank < peer ? rank : peer,
		.high = rank < peer ? peer : rank,
		.by = rank,
		.transport = { (char)('0' + route) },
		.reason = "broken",
	};

	node->reported[peer] |= 1u << route;
	rd_participant_link_failed(node->participant, &link_failure);
}

static struct rd_link_limits limits_of(const struct net_node *node)
{
	uint32_t rank = (uint32_t)(node - net.nodes);

	return (struct rd_link_limits){ 1000 - rank, true, 2 + rank, RD_NO_RAILS - rank, 8 + rank };
}

/* Opens links over the first transport that is left for each pair, and reports the result. The
   first transport alone maps memory. */
static void open_links(struct net_node *node)
{
	int fallbacks = node->participant->fallbacks.count;
	struct rd_link_limits limits = limits_of(node);
	bool open = true;

	for (int peer = 0; peer < net.size; peer++) {
		int route = net_route_to(node, peer);
		unsigned bit = 1u << route;

		node->route[peer] = route;
		limits.maps &= route == 0;
		if (!(node->broken[peer] & bit))
			continue;
		open = false;
		if (!(node->reported[peer] & bit))
			report_link_failure(node, peer, route);
	}
	if (open)
		rd_participant_ready(node->participant, fallbacks, &limits);
}

static void act(struct net_node *node)
{
	enum rd_participant_phase phase = node->participant->phase;
	uint32_t calls = atomic_load(&node->activity.calls);

	if (phase == RD_PARTICIPANT_JOINED && !node->lags) {
		open_links(node);
	} else if (phase == RD_PARTICIPANT_OPEN && !node->idle && calls < node->calls) {
		atomic_store(&node->activity.calls, calls + 1);
		atomic_store(&node->activity.done, calls + 1);
	} else if (phase == RD_PARTICIPANT_OPEN && !node->idle && !node->left) {
		node->left = true;
		rd_participant_leave(node->participant, node->digest, net.now_ms);
	}
	node->act_ms = net.now_ms + 1 + net_draw(40);
}

static void start_node(struct net_node *node)
{
	struct rd_link_limits limits = limits_of(node);

	cr_assert_eq(rd_participant_create(&node->participant, &node->settings, &node->self,
			     &node->activity, "10.0.0.1:29500", net.now_ms),
		0);
	if (node->early)
		rd_participant_set_limits(node->participant, &limits);
	node->act_ms = net.now_ms;
	if (node == &net.nodes[0])
		cr_assert_eq(
			rd_coordinator_create(&net.coordinator, &node->settings, "10.0.0.1:29500",
				&(struct rd_comm_id){ 42, { 0 } }, net.now_ms),
			0);
	if (node->declines && node == &net.nodes[0])
		rd_coordinator_decline(net.coordinator, 0, RONDO_MEMORY, "no memory");
	else if (node->declines)
		rd_participant_report(node->participant, RONDO_MEMORY, (int)(node - net.nodes),
			"no memory", net.now_ms);
}

static void run_node(struct net_node *node)
{
	if (!node->participant && !node->dead && net.now_ms >= node->start_ms) {
		start_node(node);
		count_event();
	}
	if (!net_acts(node))
		return;
	rd_participant_tick(node->participant, net.now_ms);
	if (net.now_ms >= node->act_ms)
		act(node);
}

/* ---- Time ---------------------------------------------------------------------------------- */

int64_t net_next_ms(void)
{
	int64_t next = RD_NEVER;

	if (coordinator_acts())
		next = rd_sooner(next, rd_coordinator_deadline(net.coordinator));
	for (int i = 0; i < net.size; i++) {
		struct net_node *node = &net.nodes[i];
		if (!node->participant && !node->dead)
			next = rd_sooner(next, node->start_ms);
		if (net_acts(node) && node->participant->phase < RD_PARTICIPANT_LEFT)
			next = rd_sooner(next, node->act_ms);
		if (net_acts(node))
			next = rd_sooner(next, rd_participant_deadline(node->participant));
		if (node->up.count && !net.nodes[0].stopped)
			next = rd_sooner(next, (int64_t)pipe_next(&node->up));
		if (node->down.count && !node->stopped)
			next = rd_sooner(next, (int64_t)pipe_next(&node->down));
	}
	return next;
}

static void serve_all(void)
{
	serve_coordinator();
	for (int i = 0; i < net.size; i++)
		serve_node(&net.nodes[i]);
}

void net_run_now(void)
{
	bool moved;

	do {
		int first = (int)net_draw((uint32_t)net.size);
		moved = false;
		for (int i = 0; i < net.size; i++) {
			struct net_node *node = &net.nodes[(first + i) % net.size];
			bool up = net_draw(2);
			moved |= deliver(node, up ? &node->up : &node->down);
			serve_all();
			moved |= deliver(node, up ? &node->down : &node->up);
			serve_all();
		}
	} while (moved);
	for (int i = 0; i < net.size; i++)
		run_node(&net.nodes[i]);
	if (coordinator_acts())
		rd_coordinator_tick(net.coordinator, net.now_ms);
	serve_all();
}

static bool has_ended(const struct net_node *node)
{
	return node->dead || node->stopped ||
	       (node->participant && node->participant->phase >= RD_PARTICIPANT_LEFT);
}

bool net_all_ended(void)
{
	for (int i = 0; i < net.size; i++)
		if (!has_ended(&net.nodes[i]))
			return false;
	return true;
}

bool net_all_open(void)
{
	for (int i = 0; i < net.size; i++)
		if (!net.nodes[i].participant ||
			net.nodes[i].participant->phase != RD_PARTICIPANT_OPEN)
			return false;
	return true;
}

bool net_run_until(bool (*done)(void))
{
	int64_t before_ms = net.now_ms;
	int idle = 0;

	while (!done()) {
		int64_t next = net_next_ms();
		idle = next > net.now_ms ? 0 : idle + 1;
		if (next > before_ms + NET_WITHIN_MS || idle > 10000)
			return false;
		if (next > net.now_ms)
			net.now_ms = next;
		net_run_now();
	}
	return true;
}

void net_run_steps(int count)
{
	for (int i = 0; i < count && net_next_ms() < RD_NEVER; i++) {
		net.now_ms = net_next_ms();
		net_run_now();
	}
}

/* ---- Networks ------------------------------------------------------------------------------ */

/* The test's process ends. */
__attribute__((destructor)) static void finish(void)
{
	for (int i = 0; i < net.size; i++)
		rd_participant_destroy(net.nodes[i].participant);
	rd_coordinator_destroy(net.coordinator);
}

void net_init(int size, uint32_t seed)
{
	finish();
	memset(&net, 0, sizeof(net));
	net.size = size;
	net.seed = seed;
	net.now_ms = 1000;
	net.delay_ms = 20;
	net.victim = -1;
	for (int i = 0; i < size; i++) {
		struct net_node *node = &net.nodes[i];
		node->settings.rank = i;
		node->settings.size = size;
		node->settings.algo = "";
		node->settings.channels = 1;
		node->settings.piece_size = 4096;
		node->settings.timeout_ms = NET_TIMEOUT_MS;
		node->settings.heartbeat_timeout_ms = NET_TIMEOUT_MS;
		node->settings.unreachable_ms = NET_TIMEOUT_MS;
		node->settings.init_timeout_ms = NET_INIT_TIMEOUT_MS;
		snprintf(node->self.member.place.host_name, RD_HOST_SIZE, "h%d", i);
		memcpy(node->self.member.place.host_id, node->self.member.place.host_name,
			RD_HOST_SIZE);
		node->self.member.place.pid = 100 + i;
		atomic_store(&node->activity.collective, -1);
		atomic_store(&node->activity.waiting_for, -1);
		node->connection = -1;
		node->start_ms = net.now_ms;
		node->calls = 3;
	}
}

void net_stagger(uint32_t most_ms)
{
	for (int i = 0; i < net.size; i++)
		net.nodes[i].start_ms = net.now_ms + net_draw(most_ms);
}

void net_meet(int size)
{
	net_init(size, (uint32_t)size);
	for (int i = 0; i < size; i++)
		net.nodes[i].idle = true;
	cr_assert(net_run_until(net_all_open));
}

void net_check_survivors(const char *what)
{
	for (int i = 0; i < net.size; i++) {
		struct net_node *node = &net.nodes[i];
		const char *reason;
		int error;
		if (node->dead || node->stopped || node->corrupts)
			continue;
		error = rd_participant_verdict(node->participant, &reason);
		if (node->participant->phase == RD_PARTICIPANT_LEFT)
			cr_expect_eq(error, 0);
		else if (net.victim == 0)
			cr_expect_lt(error, 0, "%s: rank %d", what, i);
		else
			cr_expect(error == net.coordinator_error &&
					  strcmp(reason, net.coordinator_reason) == 0,
				"%s: rank %d has \"%s\", the coordinator \"%s\"", what, i, reason,
				net.coordinator_reason);
	}
}

void net_expect_verdict(int error, const char *part)
{
	cr_assert(net_run_until(net_all_ended), "it hangs");
	net_check_survivors(part);
	cr_expect_eq(net.coordinator_error, error, "%s: %s",
		rondo_error_name(net.coordinator_error), net.coordinator_reason);
	cr_expect(strstr(net.coordinator_reason, part), "\"%s\" lacks \"%s\"",
		net.coordinator_reason, part);
}

void net_break_links(void)
{
	for (int i = 0; i < net.size; i++)
		for (int peer = 0; peer < net.size; peer++)
			if (peer != i && net_draw(3) == 0)
				net.nodes[i].broken[peer] = net_draw(4);
}

void net_stop_idling(void)
{
	for (int i = 0; i < net.size; i++)
		net.nodes[i].idle = false;
}

struct rd_coordinator *net_coordinator(void)
{
	net_init(2, 1);
	cr_assert_eq(rd_coordinator_create(&net.coordinator, &net.nodes[0].settings, "here",
			     &(struct rd_comm_id){ 1, { 0 } }, 0),
		0);
	return net.coordinator;
}

struct rd_participant *net_participant(void)
{
	struct net_node *node = &net.nodes[1];

	net_init(2, 1);
	cr_assert_eq(rd_participant_create(&node->participant, &node->settings, &node->self,
			     &node->activity, "here", 0),
		0);
	cr_assert(rd_participant_connects(node->participant, 0));
	rd_participant_connected(node->participant, 0);
	return node->participant;
}
