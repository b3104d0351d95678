#include "bootstrap/coordinator/coordinator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Life ---------------------------------------------------------------------------------- */

int rd_coordinator_create(struct rd_coordinator **created, const struct rd_settings *settings,
	const char *address, const struct rd_comm_id *id, int64_t now_ms)
{
	struct rd_coordinator *coordinator = calloc(1, sizeof(*coordinator));

	if (!coordinator)
		goto no_memory;
	coordinator->settings = settings;
	coordinator->size = settings->size;
	coordinator->address = address;
	coordinator->id = *id;
	coordinator->ticked_ms = now_ms;
	coordinator->init_ms = now_ms + settings->init_timeout_ms;
	coordinator->leave_ms = RD_NEVER;
	coordinator->failure_reporter = coordinator->first_leaver = -1;
	coordinator->lost = coordinator->gone = -1;
	coordinator->slow_rank = coordinator->next_slow_rank = -1;
	coordinator->connection_count = settings->size;
	coordinator->connections =
		calloc((size_t)coordinator->connection_count, sizeof(*coordinator->connections));
	coordinator->ranks = calloc((size_t)coordinator->size, sizeof(*coordinator->ranks));
	if (!coordinator->connections || !coordinator->ranks)
		goto no_memory;
	for (int rank = 0; rank < coordinator->size; rank++)
		coordinator->ranks[rank].connection = -1;
	*created = coordinator;
	return 0;

no_memory:
	rd_coordinator_destroy(coordinator);
	return rd_fail(RONDO_MEMORY, "no memory for a coordinator of %d ranks", settings->size);
}

void rd_coordinator_destroy(struct rd_coordinator *coordinator)
{
	if (!coordinator)
		return;
	for (int rank = 0; coordinator->ranks && rank < coordinator->size; rank++) {
		free(coordinator->ranks[rank].identity);
		free(coordinator->ranks[rank].reason);
		rd_rank_list_finish(&coordinator->ranks[rank].opened);
	}
	free(coordinator->connections);
	free(coordinator->ranks);
	free(coordinator->table);
	free(coordinator->costs);
	free(coordinator->slow_text);
	free(coordinator->reason);
	rd_link_failures_finish(&coordinator->fallbacks);
	free(coordinator);
}

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

/* ---- Leaving ------------------------------------------------------------------------------- */

/* All leavers so far made the same calls: compares this one with the first of them. */
static void compare_calls(struct rd_coordinator *coordinator, int rank)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[rank];
	int first = coordinator->first_leaver;
	const struct rd_coordinator_rank *other = &coordinator->ranks[first];
	char name[RD_RANK_NAME_SIZE], other_name[RD_RANK_NAME_SIZE];

	rd_coordinator_name_rank(coordinator, rank, name);
	rd_coordinator_name_rank(coordinator, first, other_name);
	if (state->calls != other->calls) {
		rd_coordinator_spare(
			coordinator, state->calls < other->calls ? state->calls : other->calls);
		rd_coordinator_decide(coordinator, RONDO_LEFT,
			"%s left after call #%u; %s after call #%u", other_name, other->calls, name,
			state->calls);
	} else if (state->digest != other->digest)
		rd_coordinator_decide(coordinator, RONDO_MISMATCH,
			"%s and %s both left after call #%u, but did not make the same calls",
			other_name, name, state->calls);
}

void rd_join_bye(struct rd_coordinator *coordinator, struct rd_coordinator_connection *connection,
	const struct rd_control_message *message)
{
	struct rd_coordinator_rank *state = &coordinator->ranks[connection->rank];
	char name[RD_RANK_NAME_SIZE];

	state->calls = message->bye.calls;
	state->digest = message->bye.digest;
	if (coordinator->phase != RD_COORDINATOR_RUNNING)
		rd_coordinator_decide(coordinator, RONDO_LEFT, "%s left before all links were open",
			rd_coordinator_name_rank(coordinator, connection->rank, name));
	else if (coordinator->leaver_count > 0)
		compare_calls(coordinator, connection->rank);
	if (coordinator->error)
		return;
	/* The others learn after which call they can make none; of rank 0, that the end of its
	   process will be no death; and the last one, that it is. */
	if (coordinator->leaver_count++ == 0)
		coordinator->first_leaver = connection->rank;
	if (coordinator->leaver_count == 1 || connection->rank == 0 ||
		coordinator->leaver_count == coordinator->size - 1)
		rd_coordinator_send_to_all(coordinator, RD_CONTROL_LEFT);
	state->left = true;
	connection->to_send = rd_control_bit(RD_CONTROL_LEFT);
	rd_links_left(coordinator, connection->rank);
	rd_diagnose_leaver(coordinator, connection->rank);
}

void rd_coordinator_end_by(struct rd_coordinator *coordinator, int64_t deadline_ms)
{
	if (coordinator->leave_ms == RD_NEVER)
		coordinator->leave_ms = deadline_ms;
}
