/*
 * The state machines by which ranks meet and failures reach all (bootstrap/rendezvous.h). The input
 * is a course of events: messages that travel, are lost or are corrupted, connections that end,
 * foreign bytes, failures of ranks, and time. Whatever has happened, all ranks then end in time.
 */
#include <errno.h>

#include "bootstrap/coordinator/coordinator.h"
#include "bootstrap/participant/participant.h"
#include "fuzz.h"

#define RANKS_MAX 4
#define FOREIGN_MAX 4
#define EVENTS_MAX 400
#define TIMEOUT_MS 1000
#define INIT_TIMEOUT_MS 3000
#define WITHIN_MS 30000 /* of virtual time, every rank has ended */

struct node {
	struct rd_settings settings;
	struct rd_identity self;
	struct rd_activity activity;
	struct rd_participant *participant;
	int connection; /* its number at the coordinator; -1: none */
	bool left;
	unsigned opened; /* bits: ranks to which it has opened links */
};

static struct node nodes[RANKS_MAX];
static struct rd_coordinator *coordinator;
static int size, foreign[FOREIGN_MAX];
static int64_t now_ms;

static void node_init(struct node *node, int rank)
{
	memset(node, 0, sizeof(*node));
	node->settings.rank = rank;
	node->settings.size = size;
	node->settings.algo = "";
	node->settings.channels = 1;
	node->settings.piece_size = 4096;
	node->settings.timeout_ms = TIMEOUT_MS;
	node->settings.heartbeat_timeout_ms = TIMEOUT_MS;
	node->settings.init_timeout_ms = INIT_TIMEOUT_MS;
	snprintf(node->self.member.place.host_name, RD_HOST_SIZE, "h%d", rank);
	node->self.member.place.pid = 100 + rank;
	atomic_store(&node->activity.collective, -1);
	atomic_store(&node->activity.waiting_for, -1);
	node->connection = -1;
	FUZZ_CHECK(rd_participant_create(&node->participant, &node->settings, &node->self,
			   &node->activity, "10.0.0.1:29500", now_ms) == 0);
}

static enum rd_participant_phase phase_of(const struct node *node)
{
	return node->participant->phase;
}

/* ---- Connections --------------------------------------------------------------------------- */

static bool admits(void)
{
	return rd_coordinator_listening(coordinator);
}

static void node_connect(struct node *node)
{
	if (node->connection >= 0 || !rd_participant_connects(node->participant, now_ms))
		return;
	node->connection = admits() ? rd_coordinator_open(coordinator, now_ms) : -1;
	if (node->connection >= 0)
		rd_participant_connected(node->participant, now_ms);
	else
		rd_participant_refused(node->participant, true, "Connection refused", now_ms);
}

static void node_close(struct node *node, int error)
{
	if (node->connection < 0)
		return;
	rd_coordinator_closed(coordinator, node->connection, error, now_ms);
	node->connection = -1;
	rd_participant_closed(node->participant, error, now_ms);
}

/* Closes the connections that either side wants to end. */
static void close_ended(void)
{
	for (int i = 0; i < size; i++)
		if (nodes[i].connection >= 0 &&
			(coordinator->connections[nodes[i].connection].dropped ||
				phase_of(&nodes[i]) >= RD_PARTICIPANT_LEFT))
			node_close(&nodes[i], 0);
	for (int i = 0; i < FOREIGN_MAX; i++)
		if (foreign[i] >= 0 && coordinator->connections[foreign[i]].dropped) {
			rd_coordinator_closed(coordinator, foreign[i], 0, now_ms);
			foreign[i] = -1;
		}
}

/* ---- Messages ------------------------------------------------------------------------------ */

/* Sends a message over the wire, where the input may change a byte. 0: bytes that are none. */
static int transmit(struct rd_control_message *message, struct fuzz_input *input)
{
	static unsigned char frame[RD_FRAME_MAX];
	size_t bytes = rd_control_encode(message, frame);

	if (input) {
		size_t at = fuzz_byte(input) | (size_t)fuzz_byte(input) << 8;

		if (at < bytes)
			frame[at] ^= fuzz_byte(input);
	}
	return rd_control_decode(frame, bytes, message) == (int)bytes;
}

/* From the participant to the coordinator. False: there was none. */
static bool send_up(struct node *node, struct fuzz_input *input)
{
	static struct rd_control_message message;

	if (node->connection < 0 || !rd_participant_next(node->participant, &message))
		return false;
	if (transmit(&message, input))
		rd_coordinator_take(coordinator, node->connection, &message, now_ms);
	else
		rd_coordinator_bad_message(coordinator, node->connection, now_ms);
	close_ended();
	return true;
}

static bool send_down(struct node *node, struct fuzz_input *input)
{
	static struct rd_control_message message;

	if (node->connection < 0 || !rd_coordinator_next(coordinator, node->connection, &message))
		return false;
	if (transmit(&message, input))
		rd_participant_take(node->participant, &message, now_ms);
	else
		rd_participant_bad_message(node->participant);
	close_ended();
	return true;
}

/* A process that is no rank, or claims to be one, sends any message. */
static void foreign_send(int *connection, struct fuzz_input *input)
{
	static unsigned char frame[RD_FRAME_MAX];
	static struct rd_control_message message;
	size_t payload = fuzz_byte(input) | (size_t)(fuzz_byte(input) & 3) << 8;

	if (*connection < 0)
		*connection = admits() ? rd_coordinator_open(coordinator, now_ms) : -1;
	if (*connection < 0)
		return;
	memcpy(frame, "RNDO", 4);
	frame[4] = (unsigned char)(1 + fuzz_below(input, RD_CONTROL_LAST));
	frame[5] = 0;
	frame[6] = (unsigned char)payload;
	frame[7] = (unsigned char)(payload >> 8);
	fuzz_take(input, frame + 8, payload);
	if (rd_control_decode(frame, 8 + payload, &message) > 0)
		rd_coordinator_take(coordinator, *connection, &message, now_ms);
	else
		rd_coordinator_bad_message(coordinator, *connection, now_ms);
	while (rd_coordinator_next(coordinator, *connection, &message))
		;
	close_ended();
}

/* ---- The ranks' own events ----------------------------------------------------------------- */

static void report_link(struct node *node, int peer, int transport)
{
	int rank = (int)(node - nodes);
	struct rd_link_failure failure = {
		.low = rank < peer ? rank : peer,
		.high = rank < peer ? peer : rank,
		.by = rank,
		.transport = { (char)('0' + transport) },
		.reason = "broken",
	};

	if (peer != rank && phase_of(node) >= RD_PARTICIPANT_JOINED)
		rd_participant_link_failed(node->participant, &failure);
}

/* Each once. */
static void open_link(struct node *node, int peer)
{
	if (!(node->opened >> peer & 1))
		rd_participant_open(node->participant, peer);
	node->opened |= 1u << peer;
}

static void open_links(struct node *node)
{
	struct rd_link_limits limits = { 1000, true, 1, RD_NO_RAILS, 1 };

	if (phase_of(node) == RD_PARTICIPANT_JOINED)
		rd_participant_ready(
			node->participant, node->participant->fallbacks.count, &limits);
}

static void leave(struct node *node)
{
	if (node->left || phase_of(node) != RD_PARTICIPANT_OPEN)
		return;
	node->left = true;
	rd_participant_leave(node->participant, 17, now_ms);
}

static void act(struct node *node, struct fuzz_input *input)
{
	int other = fuzz_below(input, size);
	uint32_t calls = atomic_load(&node->activity.calls);

	switch (fuzz_below(input, 8)) {
	case 0:
		report_link(node, other, fuzz_below(input, 3));
		return;
	case 1:
		if (phase_of(node) == RD_PARTICIPANT_OPEN && other != (int)(node - nodes))
			open_link(node, other);
		return;
	case 2:
		rd_participant_report(
			node->participant, RONDO_BROKEN, other, "lost its link", now_ms);
		return;
	case 3:
		if (phase_of(node) == RD_PARTICIPANT_OPEN)
			rd_participant_slow(
				node->participant, fuzz_byte(input) & 1, other, "waits");
		return;
	case 4:
		if (other != (int)(node - nodes))
			rd_participant_died(node->participant, other, 0);
		return;
	case 5:
		atomic_store(&node->activity.calls, calls + 1);
		atomic_store(&node->activity.waiting_for, other);
		atomic_store(&node->activity.waiting_since_ms, now_ms);
		atomic_store(&node->activity.waiting_seen_ms, now_ms);
		return;
	case 6:
		leave(node);
		return;
	default:
		open_links(node);
		return;
	}
}

static void tick_all(void)
{
	for (int i = 0; i < size; i++)
		rd_participant_tick(nodes[i].participant, now_ms);
	rd_coordinator_tick(coordinator, now_ms);
	close_ended();
}

static void event(struct fuzz_input *input)
{
	int what = fuzz_byte(input);
	struct node *node = &nodes[(what >> 4) % size];

	switch (what & 15) {
	case 0:
		node_connect(node);
		return;
	case 1:
	case 2:
		while (send_up(node, NULL))
			;
		return;
	case 3:
	case 4:
		while (send_down(node, NULL))
			;
		return;
	case 5:
		send_up(node, input);
		return;
	case 6:
		send_down(node, input);
		return;
	case 7:
		node_close(node, what & 128 ? ECONNRESET : 0);
		return;
	case 8:
		foreign_send(&foreign[(what >> 4) % FOREIGN_MAX], input);
		return;
	case 9:
		now_ms += 4 * fuzz_byte(input);
		tick_all();
		return;
	case 10:
		rd_coordinator_fail(coordinator, RONDO_SYSTEM, "rank 0 has failed");
		return;
	case 11:
		if (what & 128)
			rd_coordinator_decline(coordinator, 0, RONDO_MEMORY, "no memory");
		return;
	default:
		act(node, input);
		return;
	}
}

/* ---- The end ------------------------------------------------------------------------------- */

static bool all_ended(void)
{
	for (int i = 0; i < size; i++)
		if (phase_of(&nodes[i]) < RD_PARTICIPANT_LEFT)
			return false;
	return true;
}

/* A network without faults from here on. */
static void exchange(void)
{
	bool moved;

	do {
		moved = false;
		for (int i = 0; i < size; i++) {
			node_connect(&nodes[i]);
			moved |= send_up(&nodes[i], NULL);
			moved |= send_down(&nodes[i], NULL);
			open_links(&nodes[i]);
			leave(&nodes[i]);
		}
	} while (moved);
	close_ended();
}

static int64_t next_ms(void)
{
	int64_t next = rd_coordinator_deadline(coordinator);

	for (int i = 0; i < size; i++)
		next = rd_sooner(next, rd_participant_deadline(nodes[i].participant));
	return next;
}

static void run_to_the_end(void)
{
	int64_t limit_ms = now_ms + WITHIN_MS;
	int idle = 0;

	for (exchange(); !all_ended(); exchange()) {
		int64_t next = next_ms();

		idle = next > now_ms ? 0 : idle + 1;
		FUZZ_CHECK(next <= limit_ms && idle < 1000);
		now_ms = next > now_ms ? next : now_ms + 1;
		tick_all();
	}
}

static void check_verdicts(void)
{
	for (int i = 0; i < size; i++) {
		const char *reason;
		int error = rd_participant_verdict(nodes[i].participant, &reason);

		FUZZ_CHECK((error < 0) == (phase_of(&nodes[i]) == RD_PARTICIPANT_FAILED));
		FUZZ_CHECK(error == 0 || reason[0]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	size = 1 + fuzz_below(&input, RANKS_MAX);
	now_ms = 1000;
	for (int i = 0; i < size; i++)
		node_init(&nodes[i], i);
	for (int i = 0; i < FOREIGN_MAX; i++)
		foreign[i] = -1;
	FUZZ_CHECK(rd_coordinator_create(&coordinator, &nodes[0].settings, "10.0.0.1:29500",
			   &(struct rd_comm_id){ 42, { 0 } }, now_ms) == 0);
	for (int i = 0; i < EVENTS_MAX && input.left > 0; i++)
		event(&input);
	run_to_the_end();
	check_verdicts();
	for (int i = 0; i < size; i++)
		rd_participant_destroy(nodes[i].participant);
	rd_coordinator_destroy(coordinator);
	return 0;
}
