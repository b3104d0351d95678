#include "bootstrap/coordinator/coordinator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The numbers of connections. Few comms ever have more of them than ranks. ---------------- */

int rd_coordinator_oldest_refused(const struct rd_coordinator *coordinator)
{
	const struct rd_coordinator_connection *oldest = NULL;

	for (int i = 0; i < coordinator->connection_count; i++) {
		const struct rd_coordinator_connection *connection = &coordinator->connections[i];
		if (connection->open && connection->rank < 0 && !connection->to_send &&
			(!oldest || connection->number < oldest->number))
			oldest = connection;
	}
	return oldest ? (int)(oldest - coordinator->connections) : -1;
}

/* False: there are as many as may be, or no memory for more. */
static bool add_connections(struct rd_coordinator *coordinator)
{
	int before = coordinator->connection_count, count = 2 * before;
	int most = coordinator->size + RD_PENDING_MAX;
	struct rd_coordinator_connection *connections;

	if (count > most)
		count = most;
	connections = count > before ? realloc(coordinator->connections,
					       (size_t)count * sizeof(*connections))
				     : NULL;
	if (!connections)
		return false;
	memset(connections + before, 0, (size_t)(count - before) * sizeof(*connections));
	coordinator->connections = connections;
	coordinator->connection_count = count;
	return true;
}

int rd_coordinator_open(struct rd_coordinator *coordinator, int64_t now_ms)
{
	int number = 0;

	while (number < coordinator->connection_count && coordinator->connections[number].open)
		number++;
	if (number == coordinator->connection_count && !add_connections(coordinator))
		return -1;
	coordinator->connections[number] = (struct rd_coordinator_connection){
		.open = true, .rank = -1, .number = coordinator->opened++, .opened_ms = now_ms
	};
	return number;
}

/* ---- Ranks that come ------------------------------------------------------------------------ */

void rd_coordinator_decline(
	struct rd_coordinator *coordinator, int rank, int error, const char *reason)
{
	rd_coordinator_decide(coordinator, error, "rank %d of %d could not take part: %s", rank,
		coordinator->size, reason);
}

static void check_settings(struct rd_coordinator *coordinator,
	const struct rd_control_message *hello, const char *name, const char *ours)
{
	const struct rd_settings *settings = coordinator->settings;

	if (strcmp(hello->hello.library, rondo_version()) != 0)
		rd_coordinator_decide(coordinator, RONDO_PROTOCOL,
			"%s runs Rondo %s, %s runs %s: all ranks must run the same Rondo", name,
			hello->hello.library, ours, rondo_version());
	else if (hello->hello.channels != settings->channels)
		rd_coordinator_decide(coordinator, RONDO_SETTING,
			"%s has RONDO_CHANNELS %d, %s has %d", name, hello->hello.channels, ours,
			settings->channels);
	else if (hello->hello.piece_size != settings->piece_size)
		rd_coordinator_decide(coordinator, RONDO_SETTING,
			"%s has RONDO_PIECE %llu, %s has %zu", name,
			(unsigned long long)hello->hello.piece_size, ours, settings->piece_size);
	else if (strcmp(hello->hello.algo, settings->algo) != 0)
		rd_coordinator_decide(coordinator, RONDO_SETTING,
			"%s has RONDO_ALGO \"%.60s\", %s has \"%.60s\"", name, hello->hello.algo,
			ours, settings->algo);
	else if (strcmp(hello->hello.plugins, settings->plugins) != 0)
		rd_coordinator_decide(coordinator, RONDO_SETTING,
			"%s has the plug-in algorithms \"%.60s\", %s has \"%.60s\": "
			"RONDO_ALGO_PLUGIN and RONDO_PLAN must bring the same to every rank",
			name, hello->hello.plugins, ours, settings->plugins);
	else if (hello->hello.digest != rd_settings_digest(settings))
		rd_coordinator_decide(coordinator, RONDO_SETTING,
			"%s and %s were started with different settings: RONDO_ENCRYPT, "
			"RONDO_CHECKSUM, RONDO_CHECK or the key of the job",
			name, ours);
}

/* Decides a verdict where this rank must not join. Before rank 0 has joined, it has no host and pid
   to name. */
static void check_hello(struct rd_coordinator *coordinator, const struct rd_control_message *hello)
{
	int rank = hello->hello.rank;
	char name[RD_RANK_NAME_SIZE], other[RD_RANK_NAME_SIZE] = "rank 0";

	if (coordinator->ranks[0].joined)
		rd_coordinator_name_rank(coordinator, 0, other);
	if (hello->hello.version != RD_WIRE_VERSION) {
		rd_coordinator_decide(coordinator, RONDO_PROTOCOL,
			"rank %d speaks version %u of the protocol, %s speaks %d: all ranks must "
			"run the same Rondo",
			rank, hello->hello.version, other, RD_WIRE_VERSION);
		return;
	}
	rd_place_name(&hello->hello.identity.member.place, rank, name);
	if (hello->hello.size != coordinator->size)
		rd_coordinator_decide(coordinator, RONDO_SETTING,
			"%s was started with WORLD_SIZE %d, %s with %d", name, hello->hello.size,
			other, coordinator->size);
	else if (rank < 0 || rank >= coordinator->size)
		rd_coordinator_decide(coordinator, RONDO_SETTING, "%s is not one of 0 to %d", name,
			coordinator->size - 1);
	else if (coordinator->ranks[rank].joined)
		rd_coordinator_decide(coordinator, RONDO_SETTING,
			"two processes say they are rank %d: %s and %s", rank,
			rd_coordinator_name_rank(coordinator, rank, other), name);
	else
		check_settings(coordinator, hello, name, other);
}

/* Encodes the table of all members, which goes to every rank, once. */
static int make_table(struct rd_coordinator *coordinator)
{
	struct rd_table_writer writer = { .parts = NULL };
	int err = 0;

	for (int rank = 0; rank < coordinator->size; rank++) {
		if (!err)
			err = rd_table_write(&writer, coordinator->ranks[rank].identity);
		free(coordinator->ranks[rank].identity);
		coordinator->ranks[rank].identity = NULL;
	}
	coordinator->table = writer.parts;
	coordinator->part_count = writer.part_count;
	return err;
}

static void start_opening(struct rd_coordinator *coordinator)
{
	if (make_table(coordinator))
		rd_coordinator_decide(coordinator, RONDO_MEMORY, "rank 0: %s", rondo_last_error());
	coordinator->phase = RD_COORDINATOR_OPENING;
	coordinator->tables_due = coordinator->size;
	for (int i = 0; i < coordinator->connection_count; i++)
		if (coordinator->connections[i].open && coordinator->connections[i].rank < 0)
			coordinator->connections[i].dropped = true;
}

static void refuse_connection(struct rd_coordinator_connection *connection)
{
	connection->refused = true;
	connection->to_send = rd_control_bit(RD_CONTROL_VERDICT);
}

static void admit_rank(struct rd_coordinator *coordinator,
	struct rd_coordinator_connection *connection, const struct rd_control_message *hello)
{
	struct rd_coordinator_rank *state = &coordinator->ranks[hello->hello.rank];

	state->identity = malloc(sizeof(*state->identity));
	if (!state->identity) {
		rd_coordinator_decline(coordinator, 0, RONDO_MEMORY, "no memory for a member");
		refuse_connection(connection);
		return;
	}
	*state->identity = hello->hello.identity;
	connection->rank = hello->hello.rank;
	connection->to_send = rd_control_bit(RD_CONTROL_HEARTBEAT);
	connection->heartbeat_ms =
		connection->received_ms + RD_HEARTBEAT_MOST_MS; /* until its first HEARTBEAT */
	state->connection = (int)(connection - coordinator->connections);
	state->joined = true;
	state->place = hello->hello.identity.member.place;
	state->collective = -1;
	state->waiting_for = -1;
	if (++coordinator->joined == coordinator->size)
		start_opening(coordinator);
}

/* A rank whose connection broke before it received an answer comes again. It counts once. */
static void count_refused(struct rd_coordinator *coordinator, int rank)
{
	struct rd_coordinator_rank *state = NULL;

	if (rank >= 0 && rank < coordinator->size)
		state = &coordinator->ranks[rank];
	if (state && (state->refused || (state->joined && state->connection < 0)))
		return;
	coordinator->refused++;
	if (state)
		state->refused = true;
}

static void take_hello(struct rd_coordinator *coordinator,
	struct rd_coordinator_connection *connection, const struct rd_control_message *message)
{
	if (!coordinator->error)
		check_hello(coordinator, message);
	if (coordinator->error) {
		count_refused(coordinator, message->hello.rank);
		refuse_connection(connection);
	} else {
		admit_rank(coordinator, connection, message);
	}
}

/* Two jobs have one port, by chance: this one continues waiting for its own ranks. */
static bool is_of_other_job(
	const struct rd_coordinator *coordinator, const struct rd_control_message *hello)
{
	return hello->hello.version == RD_WIRE_VERSION &&
	       strcmp(hello->hello.job, coordinator->settings->job) != 0;
}

void rd_join_first(struct rd_coordinator *coordinator, struct rd_coordinator_connection *connection,
	const struct rd_control_message *message)
{
	int rank = message->kind == RD_CONTROL_REPORT ? message->report.culprit : -1;

	if (coordinator->phase != RD_COORDINATOR_JOINING) {
		connection->dropped = true;
	} else if (message->kind == RD_CONTROL_HELLO && is_of_other_job(coordinator, message)) {
		connection->dropped = true;
		coordinator->foreign++;
	} else if (message->kind == RD_CONTROL_HELLO) {
		take_hello(coordinator, connection, message);
	} else if (rank >= 0 && rank < coordinator->size) {
		rd_coordinator_decline(
			coordinator, rank, message->report.error, message->report.reason);
		count_refused(coordinator, rank);
		refuse_connection(connection);
	} else {
		connection->dropped = true;
	}
}
