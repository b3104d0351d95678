/*
 * The coordinator: seats the ranks, tells everyone who is there, and judges failures. See rendezvous.h.
 */
#include "bootstrap/rendezvous.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/collective.h"

#define NAME_SIZE (RD_HOST_SIZE + 64)
#define NAMED_RANKS_MAX 6

/* What a connection has still to be told. */
enum {
	SAY_BEAT = 1,
	SAY_GO = 2,
	SAY_QUERY = 4,
	SAY_FAREWELL = 8,
	SAY_VERDICT = 16,
	SAY_ALL_LOOKED = 32,
};

struct line {
	bool open;
	bool dropped;
	bool turned_away; /* stays until it has read why */
	int rank; /* -1: a stranger, or one that was turned away */
	unsigned say;
	int members_told; /* of size; and one more, TABLE */
	int fallbacks_told; /* of coordinator->fallbacks: all up to here that concern its rank */
	int leavers_told; /* of coordinator->leavers */
	uint32_t timeout_ms; /* of the rank at the other end */
	uint64_t number; /* in the order in which connections were made */
	int64_t opened_ms, heard_ms, beat_ms;
};

/* A rank, as the coordinator knows it. */
struct seat {
	int line; /* -1: none, not yet or no longer */
	bool came, ready, left, answered;
	bool looked; /* in this round, and it is not ready */
	uint32_t fallbacks; /* that concern it */
	struct rd_link_limits limits; /* of its links, once it is ready */
	struct rd_member member;
	uint32_t calls; /* from its ANSWER or BYE */
	uint32_t done;
	int collective, waiting_for;
	uint32_t waited_ms; /* for that one */
	struct rd_signature slept_in; /* from its ANSWER; number 0: none */
	uint64_t digest; /* of its calls */
	bool lags; /* has not joined the call that is asked about */
	int blames; /* its latest report of the open case, or of a slow call: the culprit; */
	int report; /* the error, 0: none; */
	char reason[RD_REASON_SIZE]; /* and what it tells */
};

enum phase { GATHERING, OPENING, RUNNING };

struct rd_coordinator {
	const struct rd_settings *settings;
	int size;
	const char *where;
	uint64_t comm_id;
	enum phase phase;
	bool closed; /* to ranks that have not come */
	int came, ready, looked, turned_away;
	int strangers;
	uint64_t opened; /* connections, ever */
	struct rd_link_failures fallbacks; /* in the order in which they were heard of */
	int *leavers; /* ranks, in the order in which they left */
	int leaver_count;
	int64_t ticked_ms, init_ms, leave_ms; /* the latter two: deadlines */

	/* The case: reports that are being looked into. reporter -1: none. */
	int reporter;
	bool broken; /* one of its reports is of a broken link */
	uint32_t query;
	int64_t case_ms;

	/* The inquiry: a slow call that all ranks are asked about, while there is no case. */
	int inquirer, next_inquirer; /* whose calls are slow; -1: none */
	bool inquires_first; /* the inquirer's first of this wait: to be logged */
	bool noticed; /* the notice is to be logged */
	char notice[RD_REASON_SIZE];
	uint32_t noticed_call; /* the latest collective of which that was logged */

	int error; /* the verdict, once there is one */
	char reason[RD_REASON_SIZE];

	int line_count;
	struct line *lines;
	struct seat *seats;
};

/* ---- Words --------------------------------------------------------------------------------- */

const char *rd_duration(char text[RD_DURATION_SIZE], int64_t ms)
{
	if (ms % 1000 == 0)
		snprintf(text, RD_DURATION_SIZE, "%lld s", (long long)ms / 1000);
	else
		snprintf(text, RD_DURATION_SIZE, "%lld ms", (long long)ms);
	return text;
}

int rd_beat_ms(uint32_t timeout_ms)
{
	if (timeout_ms / 4 > RD_BEAT_MOST_MS)
		return RD_BEAT_MOST_MS;
	return timeout_ms < 4 ? 1 : (int)(timeout_ms / 4);
}

static const char *name_rank(const struct rd_coordinator *coordinator, int rank, char name[NAME_SIZE])
{
	const struct rd_place *place = &coordinator->seats[rank].member.place;

	snprintf(name, NAME_SIZE, "rank %d (host %s, pid %lld)", rank, place->host_name,
		(long long)place->pid);
	return name;
}

/* "all_reduce #17". */
static const char *name_call(int collective, uint32_t number, char name[NAME_SIZE])
{
	snprintf(name, NAME_SIZE, "%s #%u",
		collective < 0 ? "call" : rd_collective_name((enum rd_collective)collective),
		number);
	return name;
}

static bool has_not_come(const struct seat *seat)
{
	return !seat->came;
}

static bool is_not_ready(const struct seat *seat)
{
	return !seat->ready;
}

static bool has_not_left(const struct seat *seat)
{
	return !seat->left;
}

/* "rank 2 of 4 has", "ranks 2, 3 and 5 of 8 have". */
static void name_ranks(
	const struct rd_coordinator *coordinator, bool (*which)(const struct seat *), char *text, size_t size)
{
	int ranks[NAMED_RANKS_MAX], count = 0;
	size_t at;

	for (int rank = 0; rank < coordinator->size; rank++) {
		if (!which(&coordinator->seats[rank]))
			continue;
		if (count < NAMED_RANKS_MAX)
			ranks[count] = rank;
		count++;
	}
	at = (size_t)snprintf(text, size, count == 1 ? "rank" : "ranks");
	for (int i = 0; i < count && i < NAMED_RANKS_MAX; i++) {
		const char *before = i == 0 ? " " : i == count - 1 ? " and " : ", ";
		at += (size_t)snprintf(text + at, size - at, "%s%d", before, ranks[i]);
	}
	if (count > NAMED_RANKS_MAX)
		at += (size_t)snprintf(
			text + at, size - at, " and %d more", count - NAMED_RANKS_MAX);
	snprintf(text + at, size - at, " of %d %s", coordinator->size, count == 1 ? "has" : "have");
}

/* ---- The verdict --------------------------------------------------------------------------- */

static void log_all(struct rd_coordinator *coordinator, unsigned what)
{
	for (int i = 0; i < coordinator->line_count; i++) {
		struct line *line = &coordinator->lines[i];
		if (line->open && line->rank >= 0 && !coordinator->seats[line->rank].left)
			line->say |= what;
	}
}

/* The first verdict stands; what comes later is likely its consequence. */
static void __attribute__((format(printf, 3, 4)))
decide(struct rd_coordinator *coordinator, int error, const char *format, ...)
{
	va_list args;

	if (coordinator->error)
		return;
	coordinator->error = error;
	va_start(args, format);
	vsnprintf(coordinator->reason, sizeof(coordinator->reason), format, args);
	va_end(args);
	coordinator->reporter = -1;
	coordinator->inquirer = coordinator->next_inquirer = -1;
	log_all(coordinator, SAY_VERDICT);
}

void rd_coordinator_fail(struct rd_coordinator *coordinator, int error, const char *reason)
{
	coordinator->closed = true;
	decide(coordinator, error, "%s", reason);
}

static void decline(struct rd_coordinator *coordinator, int rank, int error, const char *reason)
{
	decide(coordinator, error, "rank %d of %d could not take part: %s", rank, coordinator->size, reason);
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

int rd_coordinator_create(struct rd_coordinator **created, const struct rd_settings *settings, const char *where,
	uint64_t comm_id, int64_t now_ms)
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
	return coordinator->phase == GATHERING && !coordinator->closed;
}

bool rd_coordinator_has_room(const struct rd_coordinator *coordinator)
{
	return coordinator->strangers < RD_STRANGERS_MAX;
}

static bool goes_before(const struct line *a, const struct line *b)
{
	if (a->turned_away != b->turned_away)
		return b->turned_away;
	return a->number < b->number;
}

int rd_coordinator_oldest_stranger(const struct rd_coordinator *coordinator)
{
	const struct line *oldest = NULL;

	for (int i = 0; i < coordinator->line_count; i++) {
		const struct line *line = &coordinator->lines[i];
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
		struct line *line = &coordinator->lines[i];
		if (line->open)
			continue;
		*line = (struct line){
			.open = true, .rank = -1, .number = coordinator->opened++, .opened_ms = now_ms
		};
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
		[GATHERING] = " before all ranks had come",
		[OPENING] = " while the ranks connected",
		[RUNNING] = "",
	};
	struct line *line = &coordinator->lines[index];
	int rank = line->rank;
	char name[NAME_SIZE];

	line->open = false;
	if (rank < 0) {
		coordinator->strangers--;
		return;
	}
	coordinator->seats[rank].line = -1;
	if (coordinator->seats[rank].left)
		return;
	name_rank(coordinator, rank, name);
	if (means_death(error))
		decide(coordinator, RONDO_DIED, "%s died%s", name, when[coordinator->phase]);
	else
		decide(coordinator, RONDO_BROKEN, "the connection to %s failed%s: %s", name,
			when[coordinator->phase], strerror(error));
}

void rd_coordinator_garbled(struct rd_coordinator *coordinator, int index, int64_t now_ms)
{
	struct line *line = &coordinator->lines[index];
	char name[NAME_SIZE];

	line->heard_ms = now_ms;
	if (line->rank < 0)
		line->dropped = true;
	else
		decide(coordinator, RONDO_PROTOCOL, "%s sent bytes that make no sense",
			name_rank(coordinator, line->rank, name));
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

static void check_settings(
	struct rd_coordinator *coordinator, const struct rd_control_message *hello, const char *name, const char *ours)
{
	const struct rd_settings *settings = coordinator->settings;

	if (strcmp(hello->hello.library, rondo_version()) != 0)
		decide(coordinator, RONDO_PROTOCOL,
			"%s runs Rondo %s, %s runs %s: all ranks must run the same Rondo", name,
			hello->hello.library, ours, rondo_version());
	else if (hello->hello.channels != settings->channels)
		decide(coordinator, RONDO_SETTING, "%s has RONDO_CHANNELS %d, %s has %d", name,
			hello->hello.channels, ours, settings->channels);
	else if (hello->hello.piece_size != settings->piece_size)
		decide(coordinator, RONDO_SETTING, "%s has RONDO_PIECE %llu, %s has %zu", name,
			(unsigned long long)hello->hello.piece_size, ours, settings->piece_size);
	else if (strcmp(hello->hello.algo, settings->algo) != 0)
		decide(coordinator, RONDO_SETTING, "%s has RONDO_ALGO \"%.60s\", %s has \"%.60s\"", name,
			hello->hello.algo, ours, settings->algo);
	else if (strcmp(hello->hello.plugins, settings->plugins) != 0)
		decide(coordinator, RONDO_SETTING,
			"%s has the plug-in algorithms \"%.60s\", %s has \"%.60s\": RONDO_ALGO_PLUGIN "
			"must bring the same to every rank",
			name, hello->hello.plugins, ours, settings->plugins);
	else if (hello->hello.digest != rd_settings_digest(settings))
		decide(coordinator, RONDO_SETTING, "%s and %s were started with different settings", name,
			ours);
}

/* May this one sit down? If not there is a verdict. Before our own rank 0 has, "rank 0" will do. */
static void check_hello(struct rd_coordinator *coordinator, const struct rd_control_message *hello)
{
	const struct rd_place *place = &hello->hello.member.place;
	int rank = hello->hello.rank;
	char name[NAME_SIZE], other[NAME_SIZE] = "rank 0";

	if (coordinator->seats[0].came)
		name_rank(coordinator, 0, other);
	if (hello->hello.version != RD_WIRE_VERSION) {
		decide(coordinator, RONDO_PROTOCOL,
			"rank %d speaks version %u of the protocol, %s speaks %d: all ranks must "
			"run "
			"the same Rondo",
			rank, hello->hello.version, other, RD_WIRE_VERSION);
		return;
	}
	snprintf(name, sizeof(name), "rank %d (host %s, pid %lld)", rank, place->host_name,
		(long long)place->pid);
	if (hello->hello.size != coordinator->size)
		decide(coordinator, RONDO_SETTING, "%s was started with WORLD_SIZE %d, %s with %d", name,
			hello->hello.size, other, coordinator->size);
	else if (rank < 0 || rank >= coordinator->size)
		decide(coordinator, RONDO_SETTING, "%s is not one of 0 to %d", name, coordinator->size - 1);
	else if (coordinator->seats[rank].came)
		decide(coordinator, RONDO_SETTING, "two processes say they are rank %d: %s and %s", rank,
			name_rank(coordinator, rank, other), name);
	else
		check_settings(coordinator, hello, name, other);
}

static void start_opening(struct rd_coordinator *coordinator)
{
	coordinator->phase = OPENING;
	for (int i = 0; i < coordinator->line_count; i++)
		if (coordinator->lines[i].open && coordinator->lines[i].rank < 0)
			coordinator->lines[i].dropped = true;
}

static void sit_down(struct rd_coordinator *coordinator, struct line *line, const struct rd_control_message *hello)
{
	struct seat *seat = &coordinator->seats[hello->hello.rank];

	line->rank = hello->hello.rank;
	line->say = SAY_BEAT;
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

static void turn_away(struct rd_coordinator *coordinator, struct line *line)
{
	coordinator->turned_away++;
	line->turned_away = true;
	line->say = SAY_VERDICT;
}

static void take_hello(struct rd_coordinator *coordinator, struct line *line, const struct rd_control_message *message)
{
	if (!coordinator->error)
		check_hello(coordinator, message);
	if (coordinator->error)
		turn_away(coordinator, line);
	else
		sit_down(coordinator, line, message);
}

/* What comes first over a connection: a HELLO, or from a rank that cannot take part a REPORT. */
static void take_first(struct rd_coordinator *coordinator, struct line *line, const struct rd_control_message *message)
{
	int rank = message->kind == RD_CONTROL_REPORT ? message->report.culprit : -1;

	if (coordinator->phase != GATHERING) {
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

static void send_round(struct rd_coordinator *coordinator, struct seat *seat)
{
	seat->fallbacks++;
	coordinator->ready -= seat->ready;
	seat->ready = false;
}

/* False: it makes no sense. Of the two of a pair each may lose the link; once is enough. */
static bool take_lost(struct rd_coordinator *coordinator, int rank, const struct rd_link_failure *link_failure)
{
	uint32_t most = (uint32_t)coordinator->size * RD_TRANSPORTS_MAX;

	if (coordinator->phase != OPENING || coordinator->seats[rank].ready || link_failure->by != rank ||
		link_failure->high >= coordinator->size || coordinator->seats[rank].fallbacks >= most)
		return false;
	if (rd_link_failures_have(&coordinator->fallbacks, link_failure))
		return true;
	if (!rd_link_failures_add(&coordinator->fallbacks, link_failure)) {
		decide(coordinator, RONDO_MEMORY, "rank 0 has no memory for a link failure");
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
	if (coordinator->looked == 0 || coordinator->looked + coordinator->ready < coordinator->size)
		return;
	for (int rank = 0; rank < coordinator->size; rank++)
		coordinator->seats[rank].looked = false;
	coordinator->looked = 0;
	log_all(coordinator, SAY_ALL_LOOKED);
}

static void take_looked(struct rd_coordinator *coordinator, struct seat *seat)
{
	coordinator->looked += !seat->looked;
	seat->looked = true;
	end_round(coordinator);
}

static void take_ready(struct rd_coordinator *coordinator, struct seat *seat, const struct rd_control_message *message)
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
	coordinator->phase = RUNNING;
	log_all(coordinator, SAY_GO);
}

/* ---- Leaving ------------------------------------------------------------------------------- */

static void blame_leaver(struct rd_coordinator *coordinator, int leaver, const char *reason)
{
	char name[NAME_SIZE];

	decide(coordinator, RONDO_LEFT, "%s left after call #%u; %s", name_rank(coordinator, leaver, name),
		coordinator->seats[leaver].calls, reason);
}

/* All leavers so far made the same calls; does this one agree with the first of them? */
static void compare_calls(struct rd_coordinator *coordinator, int rank)
{
	const struct seat *seat = &coordinator->seats[rank];
	int first = coordinator->leavers[0];
	const struct seat *other = &coordinator->seats[first];
	char name[NAME_SIZE], other_name[NAME_SIZE];

	name_rank(coordinator, rank, name);
	name_rank(coordinator, first, other_name);
	if (seat->calls != other->calls)
		decide(coordinator, RONDO_LEFT, "%s left after call #%u; %s after call #%u", other_name,
			other->calls, name, seat->calls);
	else if (seat->digest != other->digest)
		decide(coordinator, RONDO_MISMATCH,
			"%s and %s both left after call #%u, but did not make the same calls",
			other_name, name, seat->calls);
}

static void take_bye(struct rd_coordinator *coordinator, struct line *line, const struct rd_control_message *message)
{
	struct seat *seat = &coordinator->seats[line->rank];
	char name[NAME_SIZE];

	seat->calls = message->bye.calls;
	seat->digest = message->bye.digest;
	if (coordinator->phase != RUNNING)
		decide(coordinator, RONDO_LEFT, "%s left before all links were open",
			name_rank(coordinator, line->rank, name));
	else if (coordinator->leaver_count > 0)
		compare_calls(coordinator, line->rank);
	if (coordinator->error)
		return;
	seat->left = true;
	coordinator->leavers[coordinator->leaver_count++] = line->rank;
	line->say = SAY_FAREWELL;
	if (line->rank == 0)
		coordinator->leave_ms = line->heard_ms + coordinator->settings->timeout_ms;
	for (int rank = 0; rank < coordinator->size; rank++)
		if (coordinator->seats[rank].report && coordinator->seats[rank].blames == line->rank)
			blame_leaver(coordinator, line->rank, coordinator->seats[rank].reason);
}

/* ---- Judging ------------------------------------------------------------------------------- */

/* Whom the reports lead to: the culprit's own report tells more than those about it. */
static int last_reporter(const struct rd_coordinator *coordinator)
{
	int rank = coordinator->reporter;

	for (int i = 0; i < coordinator->size; i++) {
		int next = coordinator->seats[rank].blames;
		if (next < 0 || !coordinator->seats[next].report)
			return rank;
		rank = next;
	}
	return coordinator->reporter; /* they blame each other */
}

/* A rank that does not answer, the one that is blamed before others; -1: all answer. */
static int find_mute(const struct rd_coordinator *coordinator, int blamed)
{
	if (blamed >= 0 && !coordinator->seats[blamed].left && !coordinator->seats[blamed].answered)
		return blamed;
	for (int rank = 0; rank < coordinator->size; rank++)
		if (!coordinator->seats[rank].left && !coordinator->seats[rank].answered)
			return rank;
	return -1;
}

/* The rank that has made the fewest calls, if they are fewer than this; else -1. */
static int find_laggard(const struct rd_coordinator *coordinator, uint32_t number, int blamed)
{
	int found = -1;

	if (blamed >= 0 && !coordinator->seats[blamed].left && coordinator->seats[blamed].calls < number)
		return blamed;
	for (int rank = 0; rank < coordinator->size; rank++) {
		const struct seat *seat = &coordinator->seats[rank];
		if (seat->left || seat->calls >= number)
			continue;
		if (found < 0 || seat->calls < coordinator->seats[found].calls)
			found = rank;
	}
	return found;
}

/* Follows who waits for whom, to one who waits for nobody; -1: they wait in a circle. */
static int find_idler(const struct rd_coordinator *coordinator, int rank)
{
	for (int i = 0; i < coordinator->size; i++) {
		int next = coordinator->seats[rank].waiting_for;
		if (next < 0 || next >= coordinator->size || coordinator->seats[next].left)
			return rank;
		rank = next;
	}
	return -1;
}

/* How the reason of a rank's silence ends: "rank 0 (...) waited 600 s for it in all_reduce #17". */
static const char *log_wait(const struct rd_coordinator *coordinator, int reporter, char text[RD_REASON_SIZE])
{
	const struct seat *seat = &coordinator->seats[reporter];
	char name[NAME_SIZE], call[NAME_SIZE], duration[RD_DURATION_SIZE];

	if (!seat->answered || seat->calls == seat->done) {
		snprintf(text, RD_REASON_SIZE, "%s", seat->reason);
		return text;
	}
	snprintf(text, RD_REASON_SIZE, "%s waited %s for it in %s", name_rank(coordinator, reporter, name),
		rd_duration(duration, coordinator->settings->timeout_ms),
		name_call(seat->collective, seat->done + 1, call));
	return text;
}

/* The collective that a rank is in, or was last. */
static uint32_t present_call(const struct seat *seat)
{
	return seat->calls == seat->done ? seat->calls : seat->done + 1;
}

/* Two that wait in calls of one number which are not one call: each for what the other never sends.
   False: there are none. */
static bool judge_calls(struct rd_coordinator *coordinator)
{
	char there[128], here[128];

	for (int rank = 1; rank < coordinator->size; rank++) {
		const struct seat *seat = &coordinator->seats[rank];

		for (int other = 0; other < rank && seat->slept_in.number > 0; other++) {
			if (!rd_signature_mismatches(&seat->slept_in, &coordinator->seats[other].slept_in))
				continue;
			rd_signature_print(&seat->slept_in, there, sizeof(there));
			rd_signature_print(&coordinator->seats[other].slept_in, here, sizeof(here));
			decide(coordinator, RONDO_MISMATCH,
				"ranks made different calls: rank %d %s, rank %d %s", rank, there,
				other, here);
			return true;
		}
	}
	return false;
}

static void judge_silence(struct rd_coordinator *coordinator, int reporter)
{
	const struct seat *seat = &coordinator->seats[reporter];
	uint32_t number = present_call(seat);
	int laggard = find_laggard(coordinator, number, seat->blames);
	int idler = find_idler(coordinator, reporter);
	char name[NAME_SIZE], call[NAME_SIZE], wait[RD_REASON_SIZE];

	log_wait(coordinator, reporter, wait);
	if (judge_calls(coordinator))
		return;
	if (laggard >= 0)
		decide(coordinator, RONDO_TIMEOUT, "%s has not joined %s (it has made %u call%s); %s",
			name_rank(coordinator, laggard, name), name_call(seat->collective, number, call),
			coordinator->seats[laggard].calls, RD_PLURAL(coordinator->seats[laggard].calls), wait);
	else if (seat->calls != seat->done && idler >= 0 && idler != reporter)
		decide(coordinator, RONDO_TIMEOUT, "%s holds up %s, waiting for nobody; %s",
			name_rank(coordinator, idler, name), name_call(seat->collective, number, call),
			wait);
	else
		decide(coordinator, RONDO_TIMEOUT, "%s", seat->reason);
}

static void judge(struct rd_coordinator *coordinator)
{
	int last = last_reporter(coordinator);
	int mute = find_mute(coordinator, coordinator->seats[last].blames);
	char name[NAME_SIZE], text[RD_REASON_SIZE];

	if (mute >= 0)
		decide(coordinator, RONDO_TIMEOUT, "%s does not answer: stopped or cut off; %s",
			name_rank(coordinator, mute, name), log_wait(coordinator, last, text));
	else if (coordinator->seats[last].report == RONDO_BROKEN)
		decide(coordinator, RONDO_BROKEN, "%s (seen by rank %d)", coordinator->seats[last].reason, last);
	else
		judge_silence(coordinator, last);
}

static void ask_all(struct rd_coordinator *coordinator, int64_t now_ms)
{
	coordinator->query++;
	coordinator->case_ms = now_ms + RD_CASE_MS;
	for (int rank = 0; rank < coordinator->size; rank++)
		coordinator->seats[rank].answered = false;
	log_all(coordinator, SAY_QUERY);
}

static void open_case(struct rd_coordinator *coordinator, int reporter, int64_t now_ms)
{
	coordinator->reporter = reporter;
	coordinator->inquirer = coordinator->next_inquirer = -1;
	ask_all(coordinator, now_ms);
}

/* ---- Slow calls ---------------------------------------------------------------------------- */

static bool has_not_joined(const struct seat *seat)
{
	return seat->lags;
}

static int count_laggards(struct rd_coordinator *coordinator, uint32_t number)
{
	int count = 0;

	for (int rank = 0; rank < coordinator->size; rank++) {
		struct seat *seat = &coordinator->seats[rank];

		seat->lags = !seat->left && seat->answered && seat->calls < number;
		count += seat->lags;
	}
	return count;
}

static void __attribute__((format(printf, 2, 3)))
notice(struct rd_coordinator *coordinator, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(coordinator->notice, sizeof(coordinator->notice), format, args);
	va_end(args);
	coordinator->noticed = true;
}

/* Once for each collective, however many wait in it. */
static void notice_slow_call(struct rd_coordinator *coordinator)
{
	const struct seat *seat = &coordinator->seats[coordinator->inquirer];
	int mute = find_mute(coordinator, seat->blames);
	uint32_t number = present_call(seat);
	char name[NAME_SIZE], call[NAME_SIZE];

	if (!seat->answered || (seat->calls != seat->done && number == coordinator->noticed_call))
		return;
	if (mute >= 0) {
		notice(coordinator, "%s does not answer; %s", name_rank(coordinator, mute, name), seat->reason);
	} else if (count_laggards(coordinator, number) > 0) {
		name_ranks(coordinator, has_not_joined, name, sizeof(name));
		notice(coordinator, "%s not joined %s; %s", name, name_call(seat->collective, number, call),
			seat->reason);
	}
	if (coordinator->noticed)
		coordinator->noticed_call = number;
}

bool rd_coordinator_slow_call(struct rd_coordinator *coordinator, char text[RD_REASON_SIZE])
{
	if (!coordinator->noticed)
		return false;
	coordinator->noticed = false;
	memcpy(text, coordinator->notice, RD_REASON_SIZE);
	return true;
}

/* The next in a circle of ranks that wait for each other, all of them for long; -1: no circle. */
static int follow_circle(const struct rd_coordinator *coordinator, int rank)
{
	const struct seat *seat = &coordinator->seats[rank];
	int next = seat->waiting_for;

	if (!seat->answered || seat->left || next < 0 || next >= coordinator->size ||
		seat->waited_ms < (uint32_t)coordinator->settings->heartbeat_timeout_ms)
		return -1;
	return next;
}

/* No rank of a circle can ever go on: a network does not carry what their links sent, say. */
static void judge_circle(struct rd_coordinator *coordinator)
{
	char name[NAME_SIZE], next_name[NAME_SIZE], call[NAME_SIZE], duration[RD_DURATION_SIZE];
	int rank = coordinator->inquirer, next;

	for (int i = 0; i < coordinator->size && rank >= 0; i++)
		rank = follow_circle(coordinator, rank);
	next = rank < 0 ? -1 : follow_circle(coordinator, rank);
	if (next < 0)
		return;

	const struct seat *seat = &coordinator->seats[rank];

	decide(coordinator, RONDO_TIMEOUT,
		"%s waited %s for %s in %s: ranks wait for each other, and nothing comes through",
		name_rank(coordinator, rank, name),
		rd_duration(duration, coordinator->settings->heartbeat_timeout_ms),
		name_rank(coordinator, next, next_name),
		seat->calls == seat->done ? "a transfer"
					  : name_call(seat->collective, seat->done + 1, call));
}

static void open_inquiry(struct rd_coordinator *coordinator, int rank, bool first, int64_t now_ms)
{
	coordinator->inquirer = rank;
	coordinator->next_inquirer = -1;
	coordinator->inquires_first = first;
	ask_all(coordinator, now_ms);
}

static void close_inquiry(struct rd_coordinator *coordinator, int64_t now_ms)
{
	int next = coordinator->next_inquirer;

	if (coordinator->inquires_first)
		notice_slow_call(coordinator);
	if (!judge_calls(coordinator))
		judge_circle(coordinator);
	coordinator->inquirer = -1;
	if (next >= 0 && !coordinator->error)
		open_inquiry(coordinator, next, false, now_ms);
}

/* Of those that come while one is looked into, one more is: they are likely of the same call. */
static void take_slow(struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message, int64_t now_ms)
{
	struct seat *seat = &coordinator->seats[rank];

	if (seat->report || coordinator->reporter >= 0)
		return;
	seat->blames = message->slow.culprit < coordinator->size ? message->slow.culprit : -1;
	memcpy(seat->reason, message->slow.reason, sizeof(seat->reason));
	if (coordinator->inquirer < 0)
		open_inquiry(coordinator, rank, message->slow.first, now_ms);
	else
		coordinator->next_inquirer = rank;
}

/* ---- Reports ------------------------------------------------------------------------------- */

/* A participant that has waited long enough for the others: so have we, then. */
static void give_up(struct rd_coordinator *coordinator)
{
	char ranks[NAME_SIZE], duration[RD_DURATION_SIZE];

	rd_duration(duration, coordinator->settings->init_timeout_ms);
	if (coordinator->phase == GATHERING) {
		name_ranks(coordinator, has_not_come, ranks, sizeof(ranks));
		decide(coordinator, RONDO_TIMEOUT, "%s not come to %s within %s", ranks, coordinator->where,
			duration);
	} else if (coordinator->phase == OPENING) {
		name_ranks(coordinator, is_not_ready, ranks, sizeof(ranks));
		decide(coordinator, RONDO_TIMEOUT, "%s not opened all links within %s", ranks, duration);
	}
}

/* Its connection may stay open, if a child of its holds the socket; nobody waits for that. One that
   had left may end as it likes. */
static void bury(struct rd_coordinator *coordinator, int rank)
{
	const struct seat *seat = &coordinator->seats[rank];
	char name[NAME_SIZE];

	if (seat->left)
		return;
	decide(coordinator, RONDO_DIED, "%s died", name_rank(coordinator, rank, name));
	if (seat->line >= 0)
		coordinator->lines[seat->line].dropped = true;
}

static void take_report(struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message, int64_t now_ms)
{
	int error = message->report.error, culprit = message->report.culprit;
	struct seat *seat = &coordinator->seats[rank];
	char name[NAME_SIZE];

	if (culprit >= coordinator->size) {
		decide(coordinator, RONDO_PROTOCOL, "%s blames rank %d of %d", name_rank(coordinator, rank, name),
			culprit, coordinator->size);
	} else if (error == RONDO_DIED && culprit > 0) {
		bury(coordinator, culprit);
	} else if (error == RONDO_TIMEOUT && culprit < 0 && coordinator->phase != RUNNING) {
		give_up(coordinator);
	} else if (culprit >= 0 && coordinator->seats[culprit].left) {
		blame_leaver(coordinator, culprit, message->report.reason);
	} else if (error == RONDO_TIMEOUT || (error == RONDO_BROKEN && culprit >= 0)) {
		seat->report = error;
		seat->blames = culprit;
		memcpy(seat->reason, message->report.reason, sizeof(seat->reason));
		coordinator->broken |= error == RONDO_BROKEN;
		if (coordinator->reporter < 0)
			open_case(coordinator, rank, now_ms);
	} else {
		decide(coordinator, error, "%s", message->report.reason);
	}
}

/* Mere silence is judged as soon as all have answered. Where a link broke, the rest of the time
   is for the news of a death, which may be slower over this connection. */
static void take_answer(
	struct rd_coordinator *coordinator, struct seat *seat, const struct rd_control_message *message, int64_t now_ms)
{
	if ((coordinator->reporter < 0 && coordinator->inquirer < 0) || message->answer.number != coordinator->query)
		return;
	seat->answered = true;
	seat->calls = message->answer.calls;
	seat->done = message->answer.done;
	seat->collective = message->answer.collective;
	seat->waiting_for = message->answer.waiting_for;
	seat->waited_ms = message->answer.waited_ms;
	seat->slept_in = message->answer.slept_in;
	if (find_mute(coordinator, -1) >= 0)
		return;
	if (coordinator->inquirer >= 0)
		close_inquiry(coordinator, now_ms);
	else if (!coordinator->broken)
		judge(coordinator);
}

/* ---- Events -------------------------------------------------------------------------------- */

static void take_beat(struct line *line, uint32_t timeout_ms)
{
	if (line->timeout_ms == timeout_ms)
		return;
	line->timeout_ms = timeout_ms;
	line->beat_ms = line->heard_ms + rd_beat_ms(timeout_ms);
}

void rd_coordinator_take(struct rd_coordinator *coordinator, int index, const struct rd_control_message *message, int64_t now_ms)
{
	struct line *line = &coordinator->lines[index];
	struct seat *seat;

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
		take_report(coordinator, line->rank, message, now_ms);
		return;
	case RD_CONTROL_ANSWER:
		take_answer(coordinator, seat, message, now_ms);
		return;
	case RD_CONTROL_SLOW:
		if (coordinator->phase != RUNNING)
			break;
		take_slow(coordinator, line->rank, message, now_ms);
		return;
	case RD_CONTROL_READY:
		if (coordinator->phase != OPENING || seat->ready)
			break;
		take_ready(coordinator, seat, message);
		return;
	case RD_CONTROL_LOOKED:
		if (coordinator->phase != OPENING || seat->ready)
			break;
		take_looked(coordinator, seat);
		return;
	case RD_CONTROL_LOST:
		if (!take_lost(coordinator, line->rank, &message->lost))
			break;
		return;
	case RD_CONTROL_BYE:
		if (coordinator->phase == GATHERING)
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

static void tick_line(struct rd_coordinator *coordinator, struct line *line, int64_t now_ms)
{
	char name[NAME_SIZE], duration[RD_DURATION_SIZE];

	if (line->rank < 0) {
		if (now_ms >= line->opened_ms + RD_STRANGER_MS)
			line->dropped = true;
		return;
	}
	if (coordinator->seats[line->rank].left || coordinator->error)
		return;
	if (now_ms >= line->beat_ms) {
		line->say |= SAY_BEAT;
		line->beat_ms = now_ms + rd_beat_ms(line->timeout_ms);
	}
	if (now_ms > line->heard_ms + coordinator->settings->heartbeat_timeout_ms)
		decide(coordinator, RONDO_TIMEOUT, "%s has not been heard of for %s: stopped or cut off",
			name_rank(coordinator, line->rank, name),
			rd_duration(duration, coordinator->settings->heartbeat_timeout_ms));
}

static void tick_leave(struct rd_coordinator *coordinator)
{
	char name[NAME_SIZE], ranks[NAME_SIZE], duration[RD_DURATION_SIZE];

	name_ranks(coordinator, has_not_left, ranks, sizeof(ranks));
	decide(coordinator, RONDO_TIMEOUT, "%s not left %s after %s has", ranks,
		rd_duration(duration, coordinator->settings->timeout_ms), name_rank(coordinator, 0, name));
}

void rd_coordinator_tick(struct rd_coordinator *coordinator, int64_t now_ms)
{
	forgive(coordinator, now_ms);
	for (int i = 0; i < coordinator->line_count; i++)
		if (coordinator->lines[i].open)
			tick_line(coordinator, &coordinator->lines[i], now_ms);
	if (coordinator->error)
		return;
	if (coordinator->phase != RUNNING && now_ms >= coordinator->init_ms)
		give_up(coordinator);
	else if (coordinator->reporter >= 0 && now_ms >= coordinator->case_ms)
		judge(coordinator);
	else if (coordinator->inquirer >= 0 && now_ms >= coordinator->case_ms)
		close_inquiry(coordinator, now_ms);
	else if (coordinator->leaver_count < coordinator->size && now_ms >= coordinator->leave_ms)
		tick_leave(coordinator);
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t line_deadline(const struct rd_coordinator *coordinator, const struct line *line)
{
	if (!line->open || line->dropped)
		return RD_NEVER;
	if (line->rank < 0)
		return line->opened_ms + RD_STRANGER_MS;
	if (coordinator->error || coordinator->seats[line->rank].left)
		return RD_NEVER;
	return sooner(line->beat_ms, line->heard_ms + coordinator->settings->heartbeat_timeout_ms + 1);
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
		coordinator->ticked_ms + rd_beat_ms((uint32_t)coordinator->settings->heartbeat_timeout_ms));
	if (coordinator->phase != RUNNING)
		deadline = sooner(deadline, coordinator->init_ms);
	if (coordinator->reporter >= 0 || coordinator->inquirer >= 0)
		deadline = sooner(deadline, coordinator->case_ms);
	if (coordinator->leaver_count < coordinator->size)
		deadline = sooner(deadline, coordinator->leave_ms);
	return deadline;
}

/* ---- What is said -------------------------------------------------------------------------- */

static bool spend(struct line *line, unsigned what)
{
	bool due = line->say & what;

	line->say &= ~what;
	return due;
}

static void say_member(const struct rd_coordinator *coordinator, struct line *line, struct rd_control_message *message)
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

static void say_left(const struct rd_coordinator *coordinator, struct line *line, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_LEFT;
	message->left.rank = coordinator->leavers[line->leavers_told++];
	message->left.calls = coordinator->seats[message->left.rank].calls;
}

/* The next link failure of which this rank is one end, if there is one. */
static bool say_fallbacks(const struct rd_coordinator *coordinator, struct line *line, struct rd_control_message *message)
{
	while (line->fallbacks_told < coordinator->fallbacks.count) {
		const struct rd_link_failure *link_failure = &coordinator->fallbacks.at[line->fallbacks_told++];

		if (link_failure->low != line->rank && link_failure->high != line->rank)
			continue;
		message->kind = RD_CONTROL_FALLBACK;
		message->fallback = *link_failure;
		return true;
	}
	return false;
}

static bool say_verdict(const struct rd_coordinator *coordinator, struct line *line, struct rd_control_message *message)
{
	if (!spend(line, SAY_VERDICT))
		return false;
	message->kind = RD_CONTROL_VERDICT;
	message->verdict.error = coordinator->error;
	memcpy(message->verdict.reason, coordinator->reason, sizeof(message->verdict.reason));
	return true;
}

/* The last word to one who leaves. */
static bool say_farewell(struct line *line, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_FAREWELL;
	return spend(line, SAY_FAREWELL);
}

bool rd_coordinator_next(struct rd_coordinator *coordinator, int index, struct rd_control_message *message)
{
	struct line *line = &coordinator->lines[index];

	if (!line->open || line->dropped)
		return false;
	if (line->rank >= 0 && coordinator->seats[line->rank].left)
		return say_farewell(line, message);
	if (coordinator->error)
		return say_verdict(coordinator, line, message);
	if (line->rank < 0)
		return false;
	if (spend(line, SAY_BEAT)) {
		message->kind = RD_CONTROL_BEAT;
		message->beat.timeout_ms = (uint32_t)coordinator->settings->heartbeat_timeout_ms;
	} else if (coordinator->phase != GATHERING && line->members_told <= coordinator->size) {
		say_member(coordinator, line, message);
	} else if (coordinator->phase == OPENING && say_fallbacks(coordinator, line, message)) {
		return true;
	} else if (coordinator->phase == OPENING && spend(line, SAY_ALL_LOOKED)) {
		message->kind = RD_CONTROL_ALL_LOOKED;
	} else if (spend(line, SAY_GO)) {
		message->kind = RD_CONTROL_GO;
		message->go.limits = least_limits(coordinator);
	} else if (line->leavers_told < coordinator->leaver_count) {
		say_left(coordinator, line, message);
	} else if (spend(line, SAY_QUERY)) {
		message->kind = RD_CONTROL_QUERY;
		message->query.number = coordinator->query;
	} else {
		return false;
	}
	return true;
}
