/*
 * The coordinator: seats the ranks, has them open their links, and sees them leave. See
 * rendezvous.h; diagnose.c judges failures.
 */
#include "bootstrap/coordinator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "bootstrap/diagnose.h"
#include "bootstrap/verdict.h"

int rd_beat_ms(uint32_t timeout_ms)
{
	if (timeout_ms / 4 > RD_BEAT_MOST_MS)
		return RD_BEAT_MOST_MS;
	return timeout_ms < 4 ? 1 : (int)(timeout_ms / 4);
}

/* ---- Failing ------------------------------------------------------------------------------- */

void rd_coordinator_fail(struct rd_coordinator *coordinator, int error, const char *reason)
{
	coordinator->closed = true;
	rd_decide(coordinator, error, "%s", reason);
}

static void decline(struct rd_coordinator *coordinator, int rank, int error, const char *reason)
{
	rd_decide(coordinator, error, "rank %d of %d could not take part: %s", rank,
		coordinator->size, reason);
}

void rd_coordinator_decline(struct rd_coordinator *coordinator, int error, const char *reason)
{
	decline(coordinator, 0, error, reason);
}

int rd_coordinator_verdict(const struct rd_coordinator *coordinator, const char **reason)
{
	*reason = coordinator->reason;
	return coordinator->error;
}

/* ---- Life ---------------------------------------------------------------------------------- */

int rd_coordinator_create(struct rd_coordinator **created, const struct rd_settings *settings,
	const char *where, uint64_t comm_id, int64_t now_ms)
{
	struct rd_coordinator *coordinator = calloc(1, sizeof(*coordinator));

	if (!coordinator)
		goto no_memory;
	coordinator->settings = settings;
	coordinator->size = settings->size;
	coordinator->where = where;
	coordinator->comm_id = comm_id;
	coordinator->ticked_ms = now_ms;
	coordinator->init_ms = now_ms + settings->init_timeout_ms;
	coordinator->leave_ms = RD_NEVER;
	coordinator->reporter = -1;
	coordinator->inquirer = coordinator->next_inquirer = -1;
	coordinator->line_count = settings->size + RD_STRANGERS_MAX;
	coordinator->lines = calloc((size_t)coordinator->line_count, sizeof(*coordinator->lines));
	coordinator->seats = calloc((size_t)coordinator->size, sizeof(*coordinator->seats));
	coordinator->leavers = calloc((size_t)coordinator->size, sizeof(*coordinator->leavers));
	if (!coordinator->lines || !coordinator->seats || !coordinator->leavers)
		goto no_memory;
	for (int rank = 0; rank < coordinator->size; rank++)
		coordinator->seats[rank].line = -1;
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
	free(coordinator->lines);
	free(coordinator->seats);
	free(coordinator->leavers);
	rd_link_failures_finish(&coordinator->fallbacks);
	free(coordinator);
}

int rd_coordinator_line_count(const struct rd_coordinator *coordinator)
{
	return coordinator->line_count;
}

/* Once all are here a newcomer can only be a stray, or early for the next comm at this address: it
   is better refused, and so told to come back, than heard. A failed gathering still tells why. */
bool rd_coordinator_listening(const struct rd_coordinator *coordinator)
{
	return coordinator->phase == RD_COORDINATOR_GATHERING && !coordinator->closed;
}

bool rd_coordinator_has_room(const struct rd_coordinator *coordinator)
{
	return coordinator->strangers < RD_STRANGERS_MAX;
}

static bool goes_before(const struct rd_coordinator_line *a, const struct rd_coordinator_line *b)
{
	if (a->turned_away != b->turned_away)
		return b->turned_away;
	return a->number < b->number;
}

int rd_coordinator_oldest_stranger(const struct rd_coordinator *coordinator)
{
	const struct rd_coordinator_line *oldest = NULL;

	for (int i = 0; i < coordinator->line_count; i++) {
		const struct rd_coordinator_line *line = &coordinator->lines[i];
		if (line->open && line->rank < 0 && !line->say &&
			(!oldest || goes_before(line, oldest)))
			oldest = line;
	}
	return oldest ? (int)(oldest - coordinator->lines) : -1;
}

int rd_coordinator_open(struct rd_coordinator *coordinator, int64_t now_ms)
{
	if (!rd_coordinator_has_room(coordinator))
		return -1;
	for (int i = 0; i < coordinator->line_count; i++) {
		struct rd_coordinator_line *line = &coordinator->lines[i];
		if (line->open)
			continue;
		*line = (struct rd_coordinator_line){ .open = true,
			.rank = -1,
			.number = coordinator->opened++,
			.opened_ms = now_ms };
		coordinator->strangers++;
		return i;
	}
	return -1;
}

bool rd_coordinator_dropped(const struct rd_coordinator *coordinator, int line)
{
	return coordinator->lines[line].dropped;
}

static bool means_death(int error)
{
	return error == 0 || error == ECONNRESET || error == EPIPE;
}

void rd_coordinator_closed(struct rd_coordinator *coordinator, int index, int error)
{
	static const char *const when[] = {
		[RD_COORDINATOR_GATHERING] = " before all ranks had come",
		[RD_COORDINATOR_OPENING] = " while the ranks connected",
		[RD_COORDINATOR_RUNNING] = "",
	};
	struct rd_coordinator_line *line = &coordinator->lines[index];
	int rank = line->rank;
	char name[RD_RANK_NAME_SIZE];

	line->open = false;
	if (rank < 0) {
		coordinator->strangers--;
		return;
	}
	coordinator->seats[rank].line = -1;
	if (coordinator->seats[rank].left)
		return;
	rd_name_rank(coordinator, rank, name);
	if (means_death(error))
		rd_decide(coordinator, RONDO_DIED, "%s died%s", name, when[coordinator->phase]);
	else
		rd_decide(coordinator, RONDO_BROKEN, "the connection to %s failed%s: %s", name,
			when[coordinator->phase], strerror(error));
}

void rd_coordinator_garbled(struct rd_coordinator *coordinator, int index, int64_t now_ms)
{
	struct rd_coordinator_line *line = &coordinator->lines[index];
	char name[RD_RANK_NAME_SIZE];

	line->heard_ms = now_ms;
	if (line->rank < 0)
		line->dropped = true;
	else
		rd_decide(coordinator, RONDO_PROTOCOL, "%s sent bytes that make no sense",
			rd_name_rank(coordinator, line->rank, name));
}

bool rd_coordinator_settled(const struct rd_coordinator *coordinator)
{
	return coordinator->error || coordinator->leaver_count == coordinator->size;
}

/* A failed gathering is kept for those who are on their way, unless they have had their time. */
static bool expects_more(const struct rd_coordinator *coordinator)
{
	return rd_coordinator_listening(coordinator) && coordinator->error != RONDO_TIMEOUT &&
	       coordinator->came + coordinator->turned_away < coordinator->size;
}

bool rd_coordinator_over(const struct rd_coordinator *coordinator)
{
	if (expects_more(coordinator))
		return false;
	for (int rank = 0; rank < coordinator->size; rank++)
		if (coordinator->seats[rank].line >= 0)
			return false;
	return rd_coordinator_settled(coordinator);
}

/* ---- Seating ------------------------------------------------------------------------------- */

static void check_settings(struct rd_coordinator *coordinator,
	const struct rd_control_message *hello, const char *name, const char *ours)
{
	const struct rd_settings *settings = coordinator->settings;

	if (strcmp(hello->hello.library, rondo_version()) != 0)
		rd_decide(coordinator, RONDO_PROTOCOL,
			"%s runs Rondo %s, %s runs %s: all ranks must run the same Rondo", name,
			hello->hello.library, ours, rondo_version());
	else if (hello->hello.channels != settings->channels)
		rd_decide(coordinator, RONDO_SETTING, "%s has RONDO_CHANNELS %d, %s has %d", name,
			hello->hello.channels, ours, settings->channels);
	else if (hello->hello.piece_size != settings->piece_size)
		rd_decide(coordinator, RONDO_SETTING, "%s has RONDO_PIECE %llu, %s has %zu", name,
			(unsigned long long)hello->hello.piece_size, ours, settings->piece_size);
	else if (strcmp(hello->hello.algo, settings->algo) != 0)
		rd_decide(coordinator, RONDO_SETTING,
			"%s has RONDO_ALGO \"%.60s\", %s has \"%.60s\"", name, hello->hello.algo,
			ours, settings->algo);
	else if (strcmp(hello->hello.plugins, settings->plugins) != 0)
		rd_decide(coordinator, RONDO_SETTING,
			"%s has the plug-in algorithms \"%.60s\", %s has \"%.60s\": "
			"RONDO_ALGO_PLUGIN "
			"must bring the same to every rank",
			name, hello->hello.plugins, ours, settings->plugins);
	else if (hello->hello.digest != rd_settings_digest(settings))
		rd_decide(coordinator, RONDO_SETTING,
			"%s and %s were started with different settings", name, ours);
}

/* May this one sit down? If not there is a verdict. Before our own rank 0 has, "rank 0" will do. */
static void check_hello(struct rd_coordinator *coordinator, const struct rd_control_message *hello)
{
	const struct rd_place *place = &hello->hello.member.place;
	int rank = hello->hello.rank;
	char name[RD_RANK_NAME_SIZE], other[RD_RANK_NAME_SIZE] = "rank 0";

	if (coordinator->seats[0].came)
		rd_name_rank(coordinator, 0, other);
	if (hello->hello.version != RD_WIRE_VERSION) {
		rd_decide(coordinator, RONDO_PROTOCOL,
			"rank %d speaks version %u of the protocol, %s speaks %d: all ranks must "
			"run "
			"the same Rondo",
			rank, hello->hello.version, other, RD_WIRE_VERSION);
		return;
	}
	snprintf(name, sizeof(name), "rank %d (host %s, pid %lld)", rank, place->host_name,
		(long long)place->pid);
	if (hello->hello.size != coordinator->size)
		rd_decide(coordinator, RONDO_SETTING,
			"%s was started with WORLD_SIZE %d, %s with %d", name, hello->hello.size,
			other, coordinator->size);
	else if (rank < 0 || rank >= coordinator->size)
		rd_decide(coordinator, RONDO_SETTING, "%s is not one of 0 to %d", name,
			coordinator->size - 1);
	else if (coordinator->seats[rank].came)
		rd_decide(coordinator, RONDO_SETTING,
			"two processes say they are rank %d: %s and %s", rank,
			rd_name_rank(coordinator, rank, other), name);
	else
		check_settings(coordinator, hello, name, other);
}

static void start_opening(struct rd_coordinator *coordinator)
{
	coordinator->phase = RD_COORDINATOR_OPENING;
	for (int i = 0; i < coordinator->line_count; i++)
		if (coordinator->lines[i].open && coordinator->lines[i].rank < 0)
			coordinator->lines[i].dropped = true;
}

static void sit_down(struct rd_coordinator *coordinator, struct rd_coordinator_line *line,
	const struct rd_control_message *hello)
{
	struct rd_seat *seat = &coordinator->seats[hello->hello.rank];

	line->rank = hello->hello.rank;
	line->say = RD_SAY_BEAT;
	line->beat_ms = line->heard_ms + RD_BEAT_MOST_MS; /* its BEAT, next, says better */
	coordinator->strangers--;
	seat->line = (int)(line - coordinator->lines);
	seat->came = true;
	seat->member = hello->hello.member;
	seat->collective = -1;
	seat->waiting_for = -1;
	if (++coordinator->came == coordinator->size)
		start_opening(coordinator);
}

static void turn_away(struct rd_coordinator *coordinator, struct rd_coordinator_line *line)
{
	coordinator->turned_away++;
	line->turned_away = true;
	line->say = RD_SAY_VERDICT;
}

static void take_hello(struct rd_coordinator *coordinator, struct rd_coordinator_line *line,
	const struct rd_control_message *message)
{
	if (!coordinator->error)
		check_hello(coordinator, message);
	if (coordinator->error)
		turn_away(coordinator, line);
	else
		sit_down(coordinator, line, message);
}

/* What comes first over a connection: a HELLO, or from a rank that cannot take part a REPORT. */
static void take_first(struct rd_coordinator *coordinator, struct rd_coordinator_line *line,
	const struct rd_control_message *message)
{
	int rank = message->kind == RD_CONTROL_REPORT ? message->report.culprit : -1;

	if (coordinator->phase != RD_COORDINATOR_GATHERING) {
		line->dropped = true;
	} else if (message->kind == RD_CONTROL_HELLO) {
		take_hello(coordinator, line, message);
	} else if (rank >= 0 && rank < coordinator->size) {
		decline(coordinator, rank, message->report.error, message->report.reason);
		turn_away(coordinator, line);
	} else {
		line->dropped = true;
	}
}

/* ---- Opening links ------------------------------------------------------------------------- */

static void send_round(struct rd_coordinator *coordinator, struct rd_seat *seat)
{
	seat->fallbacks++;
	coordinator->ready -= seat->ready;
	seat->ready = false;
}

/* False: it makes no sense. Of the two of a pair each may lose the link; once is enough. */
static bool take_lost(
	struct rd_coordinator *coordinator, int rank, const struct rd_link_failure *link_failure)
{
	uint32_t most = (uint32_t)coordinator->size * RD_TRANSPORTS_MAX;

	if (coordinator->phase != RD_COORDINATOR_OPENING || coordinator->seats[rank].ready ||
		link_failure->by != rank || link_failure->high >= coordinator->size ||
		coordinator->seats[rank].fallbacks >= most)
		return false;
	if (rd_link_failures_have(&coordinator->fallbacks, link_failure))
		return true;
	if (!rd_link_failures_add(&coordinator->fallbacks, link_failure)) {
		rd_decide(coordinator, RONDO_MEMORY, "rank 0 has no memory for a link failure");
		return true;
	}
	send_round(coordinator, &coordinator->seats[link_failure->low]);
	send_round(coordinator, &coordinator->seats[link_failure->high]);
	return true;
}

/* What the links of all ranks can do. */
static struct rd_link_limits least_limits(const struct rd_coordinator *coordinator)
{
	struct rd_link_limits least = { UINT64_MAX, true };

	for (int rank = 0; rank < coordinator->size; rank++) {
		const struct rd_link_limits *limits = &coordinator->seats[rank].limits;

		if (limits->piece_size < least.piece_size)
			least.piece_size = limits->piece_size;
		least.maps &= limits->maps;
	}
	return least;
}

/* Begins another round of looks where all have looked in this one. */
static void end_round(struct rd_coordinator *coordinator)
{
	if (coordinator->looked == 0 ||
		coordinator->looked + coordinator->ready < coordinator->size)
		return;
	for (int rank = 0; rank < coordinator->size; rank++)
		coordinator->seats[rank].looked = false;
	coordinator->looked = 0;
	rd_say_to_all(coordinator, RD_SAY_ALL_LOOKED);
}

static void take_looked(struct rd_coordinator *coordinator, struct rd_seat *seat)
{
	coordinator->looked += !seat->looked;
	seat->looked = true;
	end_round(coordinator);
}

static void take_ready(struct rd_coordinator *coordinator, struct rd_seat *seat,
	const struct rd_control_message *message)
{
	/* Said before it heard of the latest fallback: it will say so again. */
	if (message->ready.fallbacks != seat->fallbacks)
		return;
	seat->limits = message->ready.limits;
	seat->ready = true;
	coordinator->looked -= seat->looked;
	seat->looked = false;
	if (++coordinator->ready < coordinator->size) {
		end_round(coordinator);
		return;
	}
	coordinator->phase = RD_COORDINATOR_RUNNING;
	rd_say_to_all(coordinator, RD_SAY_GO);
}

/* ---- Leaving ------------------------------------------------------------------------------- */

/* All leavers so far made the same calls; does this one agree with the first of them? */
static void compare_calls(struct rd_coordinator *coordinator, int rank)
{
	const struct rd_seat *seat = &coordinator->seats[rank];
	int first = coordinator->leavers[0];
	const struct rd_seat *other = &coordinator->seats[first];
	char name[RD_RANK_NAME_SIZE], other_name[RD_RANK_NAME_SIZE];

	rd_name_rank(coordinator, rank, name);
	rd_name_rank(coordinator, first, other_name);
	if (seat->calls != other->calls)
		rd_decide(coordinator, RONDO_LEFT, "%s left after call #%u; %s after call #%u",
			other_name, other->calls, name, seat->calls);
	else if (seat->digest != other->digest)
		rd_decide(coordinator, RONDO_MISMATCH,
			"%s and %s both left after call #%u, but did not make the same calls",
			other_name, name, seat->calls);
}

static void take_bye(struct rd_coordinator *coordinator, struct rd_coordinator_line *line,
	const struct rd_control_message *message)
{
	struct rd_seat *seat = &coordinator->seats[line->rank];
	char name[RD_RANK_NAME_SIZE];

	seat->calls = message->bye.calls;
	seat->digest = message->bye.digest;
	if (coordinator->phase != RD_COORDINATOR_RUNNING)
		rd_decide(coordinator, RONDO_LEFT, "%s left before all links were open",
			rd_name_rank(coordinator, line->rank, name));
	else if (coordinator->leaver_count > 0)
		compare_calls(coordinator, line->rank);
	if (coordinator->error)
		return;
	seat->left = true;
	coordinator->leavers[coordinator->leaver_count++] = line->rank;
	line->say = RD_SAY_FAREWELL;
	if (line->rank == 0)
		coordinator->leave_ms = line->heard_ms + coordinator->settings->timeout_ms;
	rd_diagnose_leaver(coordinator, line->rank);
}

bool rd_coordinator_slow_call(struct rd_coordinator *coordinator, char text[RD_REASON_SIZE])
{
	if (!coordinator->noticed)
		return false;
	coordinator->noticed = false;
	memcpy(text, coordinator->notice, RD_REASON_SIZE);
	return true;
}

/* ---- Events -------------------------------------------------------------------------------- */

static void take_beat(struct rd_coordinator_line *line, uint32_t timeout_ms)
{
	if (line->timeout_ms == timeout_ms)
		return;
	line->timeout_ms = timeout_ms;
	line->beat_ms = line->heard_ms + rd_beat_ms(timeout_ms);
}

void rd_coordinator_take(struct rd_coordinator *coordinator, int index,
	const struct rd_control_message *message, int64_t now_ms)
{
	struct rd_coordinator_line *line = &coordinator->lines[index];
	struct rd_seat *seat;

	if (line->dropped || line->turned_away)
		return;
	line->heard_ms = now_ms;
	if (line->rank < 0) {
		take_first(coordinator, line, message);
		return;
	}
	seat = &coordinator->seats[line->rank];
	if (coordinator->error || seat->left)
		return;
	switch (message->kind) {
	case RD_CONTROL_BEAT:
		take_beat(line, message->beat.timeout_ms);
		return;
	case RD_CONTROL_REPORT:
		rd_diagnose_report(coordinator, line->rank, message, now_ms);
		return;
	case RD_CONTROL_ANSWER:
		rd_diagnose_answer(coordinator, line->rank, message, now_ms);
		return;
	case RD_CONTROL_SLOW:
		if (coordinator->phase != RD_COORDINATOR_RUNNING)
			break;
		rd_diagnose_slow(coordinator, line->rank, message, now_ms);
		return;
	case RD_CONTROL_READY:
		if (coordinator->phase != RD_COORDINATOR_OPENING || seat->ready)
			break;
		take_ready(coordinator, seat, message);
		return;
	case RD_CONTROL_LOOKED:
		if (coordinator->phase != RD_COORDINATOR_OPENING || seat->ready)
			break;
		take_looked(coordinator, seat);
		return;
	case RD_CONTROL_LOST:
		if (!take_lost(coordinator, line->rank, &message->lost))
			break;
		return;
	case RD_CONTROL_BYE:
		if (coordinator->phase == RD_COORDINATOR_GATHERING)
			break;
		take_bye(coordinator, line, message);
		return;
	default:
		break;
	}
	rd_coordinator_garbled(coordinator, index, now_ms);
}

/* ---- Time ---------------------------------------------------------------------------------- */

/* Where this very process was stopped for a while, the silence was ours. */
static void forgive(struct rd_coordinator *coordinator, int64_t now_ms)
{
	int64_t gap_ms = now_ms - coordinator->ticked_ms;

	coordinator->ticked_ms = now_ms;
	if (gap_ms <= coordinator->settings->heartbeat_timeout_ms / 2)
		return;
	for (int i = 0; i < coordinator->line_count; i++)
		coordinator->lines[i].heard_ms += gap_ms;
	if (coordinator->reporter >= 0 && coordinator->case_ms < now_ms)
		coordinator->case_ms = now_ms + RD_CASE_MS;
}

static void tick_line(
	struct rd_coordinator *coordinator, struct rd_coordinator_line *line, int64_t now_ms)
{
	char name[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE];

	if (line->rank < 0) {
		if (now_ms >= line->opened_ms + RD_STRANGER_MS)
			line->dropped = true;
		return;
	}
	if (coordinator->seats[line->rank].left || coordinator->error)
		return;
	if (now_ms >= line->beat_ms) {
		line->say |= RD_SAY_BEAT;
		line->beat_ms = now_ms + rd_beat_ms(line->timeout_ms);
	}
	if (now_ms > line->heard_ms + coordinator->settings->heartbeat_timeout_ms)
		rd_decide(coordinator, RONDO_TIMEOUT,
			"%s has not been heard of for %s: stopped or cut off",
			rd_name_rank(coordinator, line->rank, name),
			rd_duration(duration, coordinator->settings->heartbeat_timeout_ms));
}

static bool has_not_left(const struct rd_seat *seat)
{
	return !seat->left;
}

static void tick_leave(struct rd_coordinator *coordinator)
{
	char name[RD_RANK_NAME_SIZE], ranks[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE];

	rd_name_ranks(coordinator, has_not_left, ranks, sizeof(ranks));
	rd_decide(coordinator, RONDO_TIMEOUT, "%s not left %s after %s has", ranks,
		rd_duration(duration, coordinator->settings->timeout_ms),
		rd_name_rank(coordinator, 0, name));
}

void rd_coordinator_tick(struct rd_coordinator *coordinator, int64_t now_ms)
{
	forgive(coordinator, now_ms);
	for (int i = 0; i < coordinator->line_count; i++)
		if (coordinator->lines[i].open)
			tick_line(coordinator, &coordinator->lines[i], now_ms);
	if (coordinator->error)
		return;
	if (!rd_diagnose_tick(coordinator, now_ms) &&
		coordinator->leaver_count < coordinator->size && now_ms >= coordinator->leave_ms)
		tick_leave(coordinator);
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t line_deadline(
	const struct rd_coordinator *coordinator, const struct rd_coordinator_line *line)
{
	if (!line->open || line->dropped)
		return RD_NEVER;
	if (line->rank < 0)
		return line->opened_ms + RD_STRANGER_MS;
	if (coordinator->error || coordinator->seats[line->rank].left)
		return RD_NEVER;
	return sooner(
		line->beat_ms, line->heard_ms + coordinator->settings->heartbeat_timeout_ms + 1);
}

int64_t rd_coordinator_deadline(const struct rd_coordinator *coordinator)
{
	int64_t deadline = RD_NEVER;

	for (int i = 0; i < coordinator->line_count; i++)
		deadline = sooner(deadline, line_deadline(coordinator, &coordinator->lines[i]));
	if (coordinator->error)
		return deadline;
	/* Often enough that a gap shows when it is this process that was stopped. */
	deadline = sooner(deadline,
		coordinator->ticked_ms +
			rd_beat_ms((uint32_t)coordinator->settings->heartbeat_timeout_ms));
	if (coordinator->phase != RD_COORDINATOR_RUNNING)
		deadline = sooner(deadline, coordinator->init_ms);
	if (coordinator->reporter >= 0 || coordinator->inquirer >= 0)
		deadline = sooner(deadline, coordinator->case_ms);
	if (coordinator->leaver_count < coordinator->size)
		deadline = sooner(deadline, coordinator->leave_ms);
	return deadline;
}

/* ---- What is said -------------------------------------------------------------------------- */

static bool spend(struct rd_coordinator_line *line, unsigned what)
{
	bool due = line->say & what;

	line->say &= ~what;
	return due;
}

static void say_member(const struct rd_coordinator *coordinator, struct rd_coordinator_line *line,
	struct rd_control_message *message)
{
	int rank = line->members_told++;

	if (rank == coordinator->size) {
		message->kind = RD_CONTROL_TABLE;
		message->table.comm_id = coordinator->comm_id;
		return;
	}
	message->kind = RD_CONTROL_MEMBER;
	message->member.rank = rank;
	message->member.member = coordinator->seats[rank].member;
}

static void say_left(const struct rd_coordinator *coordinator, struct rd_coordinator_line *line,
	struct rd_control_message *message)
{
	message->kind = RD_CONTROL_LEFT;
	message->left.rank = coordinator->leavers[line->leavers_told++];
	message->left.calls = coordinator->seats[message->left.rank].calls;
}

/* The next link failure of which this rank is one end, if there is one. */
static bool say_fallbacks(const struct rd_coordinator *coordinator,
	struct rd_coordinator_line *line, struct rd_control_message *message)
{
	while (line->fallbacks_told < coordinator->fallbacks.count) {
		const struct rd_link_failure *link_failure =
			&coordinator->fallbacks.at[line->fallbacks_told++];

		if (link_failure->low != line->rank && link_failure->high != line->rank)
			continue;
		message->kind = RD_CONTROL_FALLBACK;
		message->fallback = *link_failure;
		return true;
	}
	return false;
}

static bool say_verdict(const struct rd_coordinator *coordinator, struct rd_coordinator_line *line,
	struct rd_control_message *message)
{
	if (!spend(line, RD_SAY_VERDICT))
		return false;
	message->kind = RD_CONTROL_VERDICT;
	message->verdict.error = coordinator->error;
	memcpy(message->verdict.reason, coordinator->reason, sizeof(message->verdict.reason));
	return true;
}

/* The last word to one who leaves. */
static bool say_farewell(struct rd_coordinator_line *line, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_FAREWELL;
	return spend(line, RD_SAY_FAREWELL);
}

bool rd_coordinator_next(
	struct rd_coordinator *coordinator, int index, struct rd_control_message *message)
{
	struct rd_coordinator_line *line = &coordinator->lines[index];

	if (!line->open || line->dropped)
		return false;
	if (line->rank >= 0 && coordinator->seats[line->rank].left)
		return say_farewell(line, message);
	if (coordinator->error)
		return say_verdict(coordinator, line, message);
	if (line->rank < 0)
		return false;
	if (spend(line, RD_SAY_BEAT)) {
		message->kind = RD_CONTROL_BEAT;
		message->beat.timeout_ms = (uint32_t)coordinator->settings->heartbeat_timeout_ms;
	} else if (coordinator->phase != RD_COORDINATOR_GATHERING &&
		   line->members_told <= coordinator->size) {
		say_member(coordinator, line, message);
	} else if (coordinator->phase == RD_COORDINATOR_OPENING &&
		   say_fallbacks(coordinator, line, message)) {
		return true;
	} else if (coordinator->phase == RD_COORDINATOR_OPENING && spend(line, RD_SAY_ALL_LOOKED)) {
		message->kind = RD_CONTROL_ALL_LOOKED;
	} else if (spend(line, RD_SAY_GO)) {
		message->kind = RD_CONTROL_GO;
		message->go.limits = least_limits(coordinator);
	} else if (line->leavers_told < coordinator->leaver_count) {
		say_left(coordinator, line, message);
	} else if (spend(line, RD_SAY_QUERY)) {
		message->kind = RD_CONTROL_QUERY;
		message->query.number = coordinator->query;
	} else {
		return false;
	}
	return true;
}
