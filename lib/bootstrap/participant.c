/*
 * The spoke: one rank's side of the lifeline. See rendezvous.h.
 */
#include "bootstrap/rendezvous.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/collective.h"

#define DIAL_LEAST_MS 10
#define DIAL_MOST_MS 250
#define LOOK_MS 20 /* how often to look at our own calls once a rank has left */
#define REASON_SIZE 160
#define NAME_SIZE (RD_HOST_SIZE + 64)

/* What the coordinator has still to be told. */
enum {
	SAY_HELLO = 1,
	SAY_BEAT = 2,
	SAY_READY = 4,
	SAY_ANSWER = 8,
	SAY_REPORT = 16,
	SAY_BYE = 32,
	SAY_LOOKED = 64,
	SAY_DEATH = 128,
	SAY_SLOW = 256,
};

struct rd_spoke {
	const struct rd_settings *settings;
	struct rd_member self;
	struct rd_activity *activity;
	const char *where;
	enum rd_spoke_phase phase;
	bool dialling;
	bool welcome; /* the coordinator has spoken: it is one */
	bool ready, reported, leaving;
	unsigned say;

	int64_t started_ms, ticked_ms, heard_ms;
	int64_t dial_ms, beat_ms, report_ms, leave_ms;
	int dial_wait_ms, beat_wait_ms;
	bool refused; /* the latest attempt was; reason: why it failed */
	char refusal[REASON_SIZE];

	struct rd_member *members;
	int member_count; /* that have been told so far */
	struct rd_losses losses, detours; /* ours, to be told; the coordinator's word on them */
	int losses_told;
	int rounds; /* in which all ranks have looked at their links */
	uint64_t comm_id;
	struct rd_link_limits limits; /* of our links; then, of all ranks' */
	uint32_t query;
	int leaver; /* with the fewest calls, leaver_calls; -1: none has left */
	uint32_t leaver_calls;
	uint64_t digest; /* of our calls, when leaving */

	int report, culprit; /* ours */
	char report_reason[RD_REASON_SIZE];
	int dead; /* a rank whose death the kernel has reported */
	bool slow_first; /* our call that waits for long */
	int slow_culprit;
	char slow_story[RD_REASON_SIZE];

	int error; /* the verdict */
	char reason[RD_REASON_SIZE];
};

/* ---- Life ---------------------------------------------------------------------------------- */

int rd_spoke_create(struct rd_spoke **created, const struct rd_settings *settings,
	const struct rd_member *self, struct rd_activity *activity, const char *where, int64_t now_ms)
{
	struct rd_spoke *spoke = calloc(1, sizeof(*spoke));

	if (!spoke)
		goto no_memory;
	spoke->settings = settings;
	spoke->self = *self;
	spoke->activity = activity;
	spoke->where = where;
	spoke->started_ms = now_ms;
	spoke->ticked_ms = now_ms;
	spoke->dial_ms = now_ms;
	spoke->dial_wait_ms = DIAL_LEAST_MS;
	spoke->beat_wait_ms = rd_beat_ms((uint32_t)settings->heartbeat_timeout_ms);
	spoke->report_ms = RD_NEVER;
	spoke->leave_ms = RD_NEVER;
	spoke->leaver = -1;
	spoke->members = calloc((size_t)settings->size, sizeof(*spoke->members));
	if (!spoke->members)
		goto no_memory;
	*created = spoke;
	return 0;

no_memory:
	rd_spoke_destroy(spoke);
	return rd_fail(RONDO_MEMORY, "no memory for the places of %d ranks", settings->size);
}

void rd_spoke_destroy(struct rd_spoke *spoke)
{
	if (!spoke)
		return;
	rd_losses_finish(&spoke->losses);
	rd_losses_finish(&spoke->detours);
	free(spoke->members);
	free(spoke);
}

enum rd_spoke_phase rd_spoke_phase(const struct rd_spoke *spoke)
{
	return spoke->phase;
}

int rd_spoke_verdict(const struct rd_spoke *spoke, const char **reason)
{
	*reason = spoke->reason;
	return spoke->error;
}

const struct rd_member *rd_spoke_members(const struct rd_spoke *spoke)
{
	return spoke->members;
}

uint64_t rd_spoke_comm_id(const struct rd_spoke *spoke)
{
	return spoke->comm_id;
}

const struct rd_link_limits *rd_spoke_limits(const struct rd_spoke *spoke)
{
	return &spoke->limits;
}

int rd_spoke_rounds(const struct rd_spoke *spoke)
{
	return spoke->rounds;
}

const struct rd_losses *rd_spoke_detours(const struct rd_spoke *spoke)
{
	return &spoke->detours;
}

/* ---- Failing ------------------------------------------------------------------------------- */

static bool is_over(const struct rd_spoke *spoke)
{
	return spoke->phase == RD_SPOKE_GONE || spoke->phase == RD_SPOKE_FAILED;
}

static bool is_connected(const struct rd_spoke *spoke)
{
	return spoke->phase != RD_SPOKE_AWAY && !is_over(spoke);
}

static void __attribute__((format(printf, 3, 4)))
fail(struct rd_spoke *spoke, int error, const char *format, ...)
{
	va_list args;

	if (is_over(spoke))
		return;
	spoke->phase = RD_SPOKE_FAILED;
	spoke->error = error;
	va_start(args, format);
	vsnprintf(spoke->reason, sizeof(spoke->reason), format, args);
	va_end(args);
}

void rd_spoke_fail(struct rd_spoke *spoke, int error, const char *reason)
{
	fail(spoke, error, "%s", reason);
}

static const char *name_member(const struct rd_spoke *spoke, int rank, char name[NAME_SIZE])
{
	const struct rd_place *place = &spoke->members[rank].place;

	snprintf(name, NAME_SIZE, "rank %d (host %s, pid %lld)", rank, place->host_name,
		(long long)place->pid);
	return name;
}

/* Before the table has come only the address is known. */
static const char *name_coordinator(const struct rd_spoke *spoke, char name[NAME_SIZE])
{
	if (spoke->member_count > 0)
		return name_member(spoke, 0, name);
	snprintf(name, NAME_SIZE, "rank 0 (at %s)", spoke->where);
	return name;
}

/* ---- Connecting ---------------------------------------------------------------------------- */

bool rd_spoke_dials(struct rd_spoke *spoke, int64_t now_ms)
{
	if (spoke->phase != RD_SPOKE_AWAY || spoke->dialling || now_ms < spoke->dial_ms)
		return false;
	spoke->dialling = true;
	return true;
}

void rd_spoke_connected(struct rd_spoke *spoke, int64_t now_ms)
{
	if (spoke->phase != RD_SPOKE_AWAY)
		return;
	spoke->dialling = false;
	spoke->phase = RD_SPOKE_JOINING;
	/* A rank that failed before it got here cannot take part: it only sends the reason. */
	spoke->say = spoke->reported ? SAY_REPORT : SAY_HELLO | SAY_BEAT;
	spoke->heard_ms = now_ms;
	spoke->beat_ms = now_ms + spoke->beat_wait_ms;
}

void rd_spoke_refused(struct rd_spoke *spoke, bool refused, const char *reason, int64_t now_ms)
{
	if (spoke->phase != RD_SPOKE_AWAY)
		return;
	spoke->dialling = false;
	spoke->refused = refused;
	snprintf(spoke->refusal, sizeof(spoke->refusal), "%s", reason);
	spoke->dial_ms = now_ms + spoke->dial_wait_ms;
	spoke->dial_wait_ms *= 2;
	if (spoke->dial_wait_ms > DIAL_MOST_MS)
		spoke->dial_wait_ms = DIAL_MOST_MS;
}

/* A connection that ends before the coordinator's welcome was not the coordinator's: the backlog of a comm that is
   through with listening, say. Such an end is a refusal. */
void rd_spoke_closed(struct rd_spoke *spoke, int error, int64_t now_ms)
{
	char name[NAME_SIZE];

	if (!is_connected(spoke))
		return;
	if (!spoke->welcome) {
		spoke->phase = RD_SPOKE_AWAY;
		rd_spoke_refused(spoke, false, error ? strerror(error) : "it hung up", now_ms);
		return;
	}
	if (spoke->reported && spoke->report != RONDO_BROKEN && spoke->report != RONDO_TIMEOUT)
		fail(spoke, spoke->report, "%s", spoke->report_reason);
	name_coordinator(spoke, name);
	if (error == 0 || error == ECONNRESET || error == EPIPE)
		fail(spoke, RONDO_DIED, "%s died", name);
	else
		fail(spoke, RONDO_BROKEN, "the connection to %s failed: %s", name, strerror(error));
}

void rd_spoke_garbled(struct rd_spoke *spoke)
{
	char name[NAME_SIZE];

	if (spoke->welcome)
		fail(spoke, RONDO_PROTOCOL, "%s sent bytes that make no sense",
			name_coordinator(spoke, name));
	else
		fail(spoke, RONDO_PROTOCOL, "rank %d: what listens at %s is not rank 0 of a comm",
			spoke->settings->rank, spoke->where);
}

/* ---- What this rank does ------------------------------------------------------------------- */

static void keep(struct rd_spoke *spoke, struct rd_losses *losses, const struct rd_loss *loss)
{
	if (!rd_losses_add(losses, loss))
		fail(spoke, RONDO_MEMORY, "rank %d: no memory for a loss", spoke->settings->rank);
}

void rd_spoke_lose(struct rd_spoke *spoke, const struct rd_loss *loss)
{
	/* The peer may have said so before. */
	if (spoke->phase == RD_SPOKE_MET && !spoke->ready &&
		!rd_losses_have(&spoke->detours, loss))
		keep(spoke, &spoke->losses, loss);
}

void rd_spoke_look(struct rd_spoke *spoke)
{
	if (spoke->phase == RD_SPOKE_MET && !spoke->ready)
		spoke->say |= SAY_LOOKED;
}

void rd_spoke_ready(struct rd_spoke *spoke, int detours, const struct rd_link_limits *limits)
{
	if (spoke->phase != RD_SPOKE_MET || spoke->ready || detours != spoke->detours.count)
		return;
	spoke->ready = true;
	spoke->limits = *limits;
	spoke->say |= SAY_READY;
}

void rd_spoke_report(
	struct rd_spoke *spoke, int error, int culprit, const char *reason, int64_t now_ms)
{
	if (is_over(spoke) || spoke->reported)
		return;
	spoke->reported = true;
	spoke->report = error;
	spoke->culprit = culprit;
	snprintf(spoke->report_reason, sizeof(spoke->report_reason), "%s", reason);
	spoke->report_ms = now_ms + RD_REPORT_MS;
	spoke->say |= SAY_REPORT;
}

void rd_spoke_slow(struct rd_spoke *spoke, bool first, int culprit, const char *reason)
{
	if (spoke->phase != RD_SPOKE_OPEN || spoke->reported || spoke->leaving)
		return;
	spoke->slow_first = first;
	spoke->slow_culprit = culprit;
	snprintf(spoke->slow_story, sizeof(spoke->slow_story), "%s", reason);
	spoke->say |= SAY_SLOW;
}

/* The coordinator knows whether the rank had left before. Of its own death nobody else can tell. */
void rd_spoke_died(struct rd_spoke *spoke, int rank)
{
	char name[NAME_SIZE];

	if (spoke->phase != RD_SPOKE_OPEN)
		return;
	if (rank == 0) {
		fail(spoke, RONDO_DIED, "%s died", name_coordinator(spoke, name));
		return;
	}
	spoke->dead = rank;
	spoke->say |= SAY_DEATH;
}

void rd_spoke_leave(struct rd_spoke *spoke, uint64_t digest, int64_t now_ms)
{
	if (is_over(spoke) || spoke->leaving)
		return;
	spoke->leaving = true;
	spoke->digest = digest;
	spoke->leave_ms = now_ms + spoke->settings->heartbeat_timeout_ms;
	spoke->say |= SAY_BYE;
}

/* ---- What the coordinator says --------------------------------------------------------------------- */

static void take_member(struct rd_spoke *spoke, const struct rd_note *note)
{
	if (spoke->phase != RD_SPOKE_JOINING || spoke->member_count == spoke->settings->size ||
		note->member.rank != spoke->member_count) {
		rd_spoke_garbled(spoke);
		return;
	}
	spoke->members[spoke->member_count++] = note->member.member;
}

static void take_table(struct rd_spoke *spoke, const struct rd_note *note)
{
	if (spoke->phase != RD_SPOKE_JOINING || spoke->member_count < spoke->settings->size) {
		rd_spoke_garbled(spoke);
		return;
	}
	spoke->comm_id = note->table.comm_id;
	spoke->phase = RD_SPOKE_MET;
}

static void take_go(struct rd_spoke *spoke, const struct rd_link_limits *limits)
{
	if (spoke->phase != RD_SPOKE_MET || !spoke->ready ||
		limits->piece_size > spoke->limits.piece_size ||
		(limits->maps && !spoke->limits.maps)) {
		rd_spoke_garbled(spoke);
		return;
	}
	spoke->limits = *limits;
	spoke->phase = RD_SPOKE_OPEN;
}

static void take_all_looked(struct rd_spoke *spoke)
{
	if (spoke->phase == RD_SPOKE_MET)
		spoke->rounds++;
	else
		rd_spoke_garbled(spoke);
}

/* Whatever was ready is so no more. */
static void take_detour(struct rd_spoke *spoke, const struct rd_loss *loss)
{
	int rank = spoke->settings->rank;

	if (spoke->phase != RD_SPOKE_MET || (loss->low != rank && loss->high != rank) ||
		loss->high >= spoke->settings->size) {
		rd_spoke_garbled(spoke);
		return;
	}
	spoke->ready = false;
	spoke->say &= ~(unsigned)SAY_READY;
	keep(spoke, &spoke->detours, loss);
}

/* Our call is one that the leaver never made: it cannot end well. */
static void check_calls(struct rd_spoke *spoke, int64_t now_ms)
{
	int collective = atomic_load(&spoke->activity->collective);
	uint32_t calls = atomic_load(&spoke->activity->calls);
	char reason[RD_REASON_SIZE];

	if (spoke->leaver < 0 || spoke->leaving || calls <= spoke->leaver_calls)
		return;
	snprintf(reason, sizeof(reason), "rank %d is in %s #%u", spoke->settings->rank,
		collective < 0 ? "call" : rd_collective_name((enum rd_collective)collective),
		calls);
	rd_spoke_report(spoke, RONDO_LEFT, spoke->leaver, reason, now_ms);
}

static void take_left(struct rd_spoke *spoke, const struct rd_note *note, int64_t now_ms)
{
	if (spoke->phase != RD_SPOKE_OPEN || note->left.rank >= spoke->settings->size) {
		rd_spoke_garbled(spoke);
		return;
	}
	if (spoke->leaver < 0 || note->left.calls < spoke->leaver_calls) {
		spoke->leaver = note->left.rank;
		spoke->leaver_calls = note->left.calls;
	}
	check_calls(spoke, now_ms);
}

static void take_beat(struct rd_spoke *spoke, uint32_t timeout_ms, int64_t now_ms)
{
	int wait_ms = rd_beat_ms(timeout_ms);

	if (wait_ms == spoke->beat_wait_ms)
		return;
	spoke->beat_wait_ms = wait_ms;
	spoke->beat_ms = now_ms + wait_ms;
}

void rd_spoke_take(struct rd_spoke *spoke, const struct rd_note *note, int64_t now_ms)
{
	if (!is_connected(spoke))
		return;
	/* Only a welcome, or a verdict instead, may come first. */
	if (!spoke->welcome && note->kind != RD_NOTE_BEAT && note->kind != RD_NOTE_VERDICT) {
		rd_spoke_garbled(spoke);
		return;
	}
	spoke->welcome = true;
	spoke->heard_ms = now_ms;
	switch (note->kind) {
	case RD_NOTE_BEAT:
		take_beat(spoke, note->beat.timeout_ms, now_ms);
		return;
	case RD_NOTE_MEMBER:
		take_member(spoke, note);
		return;
	case RD_NOTE_TABLE:
		take_table(spoke, note);
		return;
	case RD_NOTE_DETOUR:
		take_detour(spoke, &note->detour);
		return;
	case RD_NOTE_ALL_LOOKED:
		take_all_looked(spoke);
		return;
	case RD_NOTE_GO:
		take_go(spoke, &note->go.limits);
		return;
	case RD_NOTE_QUERY:
		spoke->query = note->query.number;
		spoke->say |= SAY_ANSWER;
		return;
	case RD_NOTE_VERDICT:
		fail(spoke, note->verdict.error, "%s", note->verdict.reason);
		return;
	case RD_NOTE_LEFT:
		take_left(spoke, note, now_ms);
		return;
	case RD_NOTE_FAREWELL:
		if (spoke->leaving)
			spoke->phase = RD_SPOKE_GONE;
		else
			rd_spoke_garbled(spoke);
		return;
	default:
		rd_spoke_garbled(spoke);
	}
}

/* ---- Time ---------------------------------------------------------------------------------- */

/* Until when all must have met, and connected once this rank has. */
static int64_t init_deadline(const struct rd_spoke *spoke)
{
	bool waits = spoke->phase == RD_SPOKE_AWAY || spoke->phase == RD_SPOKE_JOINING ||
		     (spoke->phase == RD_SPOKE_MET && spoke->ready);

	if (!waits || spoke->reported)
		return RD_NEVER;
	return spoke->started_ms + spoke->settings->init_timeout_ms;
}

static int64_t silence_deadline(const struct rd_spoke *spoke)
{
	/* A connection may wait unseen in rank 0's backlog, for as long as a rendezvous lasts. */
	if (!is_connected(spoke) || !spoke->welcome)
		return RD_NEVER;
	return spoke->heard_ms + spoke->settings->heartbeat_timeout_ms + 1;
}

static void give_up(struct rd_spoke *spoke, int64_t now_ms)
{
	int rank = spoke->settings->rank;
	char duration[RD_DURATION_SIZE], reason[REASON_SIZE];

	rd_duration(duration, spoke->settings->init_timeout_ms);
	if (spoke->phase == RD_SPOKE_AWAY && spoke->refused)
		fail(spoke, RONDO_UNREACHABLE, "rank %d: no one listens at %s (%s, tried for %s)",
			rank, spoke->where, spoke->refusal, duration);
	else if (spoke->phase == RD_SPOKE_AWAY)
		fail(spoke, RONDO_UNREACHABLE,
			"rank %d: cannot reach rank 0 at %s (%s, tried for %s)", rank, spoke->where,
			spoke->refusal[0] ? spoke->refusal : "no answer", duration);
	else if (!spoke->welcome)
		fail(spoke, RONDO_TIMEOUT, "rank %d: rank 0 at %s does not answer (tried for %s)",
			rank, spoke->where, duration);
	if (is_over(spoke))
		return;
	snprintf(reason, sizeof(reason), "rank %d waited %s for the other ranks", rank, duration);
	rd_spoke_report(spoke, RONDO_TIMEOUT, -1, reason, now_ms);
}

static void forgive(struct rd_spoke *spoke, int64_t now_ms)
{
	int64_t gap_ms = now_ms - spoke->ticked_ms;

	spoke->ticked_ms = now_ms;
	if (gap_ms > spoke->settings->heartbeat_timeout_ms / 2)
		spoke->heard_ms += gap_ms;
}

void rd_spoke_tick(struct rd_spoke *spoke, int64_t now_ms)
{
	char name[NAME_SIZE], duration[RD_DURATION_SIZE];

	forgive(spoke, now_ms);
	if (now_ms >= init_deadline(spoke))
		give_up(spoke, now_ms);
	if (now_ms >= spoke->report_ms)
		fail(spoke, spoke->report, "%s", spoke->report_reason);
	if (now_ms >= silence_deadline(spoke))
		fail(spoke, RONDO_TIMEOUT, "%s has not been heard of for %s: stopped or cut off",
			name_coordinator(spoke, name),
			rd_duration(duration, spoke->settings->heartbeat_timeout_ms));
	if (now_ms >= spoke->leave_ms)
		fail(spoke, RONDO_TIMEOUT, "%s did not answer a goodbye within %s",
			name_coordinator(spoke, name),
			rd_duration(duration, spoke->settings->heartbeat_timeout_ms));
	if (!is_connected(spoke))
		return;
	check_calls(spoke, now_ms);
	if (now_ms < spoke->beat_ms)
		return;
	spoke->say |= SAY_BEAT;
	spoke->beat_ms = now_ms + spoke->beat_wait_ms;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t rd_spoke_deadline(const struct rd_spoke *spoke)
{
	int64_t deadline;

	if (is_over(spoke))
		return RD_NEVER;
	deadline = sooner(init_deadline(spoke), silence_deadline(spoke));
	deadline = sooner(deadline, sooner(spoke->report_ms, spoke->leave_ms));
	/* Often enough that a gap shows when it is this process that was stopped. */
	if (is_connected(spoke))
		deadline = sooner(sooner(deadline, spoke->beat_ms),
			spoke->ticked_ms +
				rd_beat_ms((uint32_t)spoke->settings->heartbeat_timeout_ms));
	else if (!spoke->dialling)
		deadline = sooner(deadline, spoke->dial_ms);
	if (spoke->leaver >= 0 && !spoke->leaving && !spoke->reported)
		deadline = sooner(deadline, spoke->ticked_ms + LOOK_MS);
	return deadline;
}

/* ---- What is said -------------------------------------------------------------------------- */

static void say_hello(const struct rd_spoke *spoke, struct rd_note *note)
{
	const struct rd_settings *settings = spoke->settings;

	note->kind = RD_NOTE_HELLO;
	note->hello.version = RD_WIRE_VERSION;
	note->hello.rank = settings->rank;
	note->hello.size = settings->size;
	snprintf(note->hello.library, sizeof(note->hello.library), "%s", rondo_version());
	note->hello.digest = rd_settings_digest(settings);
	note->hello.channels = settings->channels;
	note->hello.piece_size = settings->piece_size;
	memcpy(note->hello.algo, settings->algo, sizeof(note->hello.algo));
	memcpy(note->hello.plugins, settings->plugins, sizeof(note->hello.plugins));
	note->hello.member = spoke->self;
}

/* For how long our call has waited for one and the same peer; 0: it does not. */
static uint32_t waited_ms(const struct rd_spoke *spoke)
{
	int64_t since_ms = atomic_load(&spoke->activity->waiting_since_ms);
	int64_t seen_ms = atomic_load(&spoke->activity->waiting_seen_ms);
	int64_t now_ms = spoke->ticked_ms;

	return now_ms - seen_ms > RD_WAIT_SEEN_MS || now_ms < since_ms
		       ? 0
		       : (uint32_t)(now_ms - since_ms);
}

static void say_slow(const struct rd_spoke *spoke, struct rd_note *note)
{
	note->kind = RD_NOTE_SLOW;
	note->slow.first = spoke->slow_first;
	note->slow.culprit = spoke->slow_culprit;
	memcpy(note->slow.reason, spoke->slow_story, sizeof(note->slow.reason));
}

/* What is being changed at this moment is none. */
static void load_slept_in(struct rd_activity *activity, struct rd_signature *signature)
{
	uint32_t number = atomic_load(&activity->slept_in);
	uint64_t words[RD_SIGNATURE_WORDS];

	for (int i = 0; i < RD_SIGNATURE_WORDS; i++)
		words[i] = atomic_load(&activity->slept_call[i]);
	memcpy(signature, words, sizeof(*signature));
	signature->chunk = 0;
	if (number == 0 || number != atomic_load(&activity->slept_in))
		*signature = (struct rd_signature){ .number = 0 };
}

static void say_answer(const struct rd_spoke *spoke, struct rd_note *note)
{
	note->kind = RD_NOTE_ANSWER;
	note->answer.number = spoke->query;
	note->answer.calls = atomic_load(&spoke->activity->calls);
	note->answer.done = atomic_load(&spoke->activity->done);
	note->answer.collective = atomic_load(&spoke->activity->collective);
	note->answer.waiting_for = atomic_load(&spoke->activity->waiting_for);
	note->answer.waited_ms = waited_ms(spoke);
	load_slept_in(spoke->activity, &note->answer.slept_in);
}

static void say_report(const struct rd_spoke *spoke, struct rd_note *note)
{
	note->kind = RD_NOTE_REPORT;
	note->report.error = spoke->report;
	note->report.culprit = spoke->culprit;
	memcpy(note->report.reason, spoke->report_reason, sizeof(note->report.reason));
}

static void say_death(const struct rd_spoke *spoke, struct rd_note *note)
{
	char name[NAME_SIZE];

	note->kind = RD_NOTE_REPORT;
	note->report.error = RONDO_DIED;
	note->report.culprit = spoke->dead;
	snprintf(note->report.reason, sizeof(note->report.reason), "%s died",
		name_member(spoke, spoke->dead, name));
}

static bool spend(struct rd_spoke *spoke, unsigned what)
{
	bool due = spoke->say & what;

	spoke->say &= ~what;
	return due;
}

bool rd_spoke_next(struct rd_spoke *spoke, struct rd_note *note)
{
	if (!is_connected(spoke))
		return false;
	if (spend(spoke, SAY_HELLO)) {
		say_hello(spoke, note);
	} else if (spend(spoke, SAY_BEAT)) {
		note->kind = RD_NOTE_BEAT;
		note->beat.timeout_ms = (uint32_t)spoke->settings->heartbeat_timeout_ms;
	} else if (spoke->losses_told < spoke->losses.count) {
		note->kind = RD_NOTE_LOST;
		note->lost = spoke->losses.at[spoke->losses_told++];
	} else if (spend(spoke, SAY_LOOKED)) {
		note->kind = RD_NOTE_LOOKED;
	} else if (spend(spoke, SAY_READY)) {
		note->kind = RD_NOTE_READY;
		note->ready.detours = (uint32_t)spoke->detours.count;
		note->ready.limits = spoke->limits;
	} else if (spend(spoke, SAY_ANSWER)) {
		say_answer(spoke, note);
	} else if (spend(spoke, SAY_SLOW)) {
		say_slow(spoke, note);
	} else if (spend(spoke, SAY_DEATH)) {
		say_death(spoke, note);
	} else if (spend(spoke, SAY_REPORT)) {
		say_report(spoke, note);
	} else if (spend(spoke, SAY_BYE)) {
		note->kind = RD_NOTE_BYE;
		note->bye.calls = atomic_load(&spoke->activity->calls);
		note->bye.digest = spoke->digest;
	} else {
		return false;
	}
	return true;
}
