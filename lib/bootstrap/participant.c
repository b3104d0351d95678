/*
 * The participant: one rank's side of the control connection. See rendezvous.h.
 */
#include "bootstrap/rendezvous.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
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

struct rd_participant {
	const struct rd_settings *settings;
	struct rd_member self;
	struct rd_activity *activity;
	const char *where;
	enum rd_participant_phase phase;
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
	struct rd_link_failures link_failures,
		fallbacks; /* ours, to be told; the coordinator's word on them */
	int link_failures_told;
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

int rd_participant_create(struct rd_participant **created, const struct rd_settings *settings,
	const struct rd_member *self, struct rd_activity *activity, const char *where,
	int64_t now_ms)
{
	struct rd_participant *participant = calloc(1, sizeof(*participant));

	if (!participant)
		goto no_memory;
	participant->settings = settings;
	participant->self = *self;
	participant->activity = activity;
	participant->where = where;
	participant->started_ms = now_ms;
	participant->ticked_ms = now_ms;
	participant->dial_ms = now_ms;
	participant->dial_wait_ms = DIAL_LEAST_MS;
	participant->beat_wait_ms = rd_beat_ms((uint32_t)settings->heartbeat_timeout_ms);
	participant->report_ms = RD_NEVER;
	participant->leave_ms = RD_NEVER;
	participant->leaver = -1;
	participant->members = calloc((size_t)settings->size, sizeof(*participant->members));
	if (!participant->members)
		goto no_memory;
	*created = participant;
	return 0;

no_memory:
	rd_participant_destroy(participant);
	return rd_fail(RONDO_MEMORY, "no memory for the places of %d ranks", settings->size);
}

void rd_participant_destroy(struct rd_participant *participant)
{
	if (!participant)
		return;
	rd_link_failures_finish(&participant->link_failures);
	rd_link_failures_finish(&participant->fallbacks);
	free(participant->members);
	free(participant);
}

enum rd_participant_phase rd_participant_phase(const struct rd_participant *participant)
{
	return participant->phase;
}

int rd_participant_verdict(const struct rd_participant *participant, const char **reason)
{
	*reason = participant->reason;
	return participant->error;
}

const struct rd_member *rd_participant_members(const struct rd_participant *participant)
{
	return participant->members;
}

uint64_t rd_participant_comm_id(const struct rd_participant *participant)
{
	return participant->comm_id;
}

const struct rd_link_limits *rd_participant_limits(const struct rd_participant *participant)
{
	return &participant->limits;
}

int rd_participant_rounds(const struct rd_participant *participant)
{
	return participant->rounds;
}

const struct rd_link_failures *rd_participant_fallback(const struct rd_participant *participant)
{
	return &participant->fallbacks;
}

/* ---- Failing ------------------------------------------------------------------------------- */

static bool is_over(const struct rd_participant *participant)
{
	return participant->phase == RD_SPOKE_GONE || participant->phase == RD_SPOKE_FAILED;
}

static bool is_connected(const struct rd_participant *participant)
{
	return participant->phase != RD_SPOKE_AWAY && !is_over(participant);
}

static void __attribute__((format(printf, 3, 4)))
fail(struct rd_participant *participant, int error, const char *format, ...)
{
	va_list args;

	if (is_over(participant))
		return;
	participant->phase = RD_SPOKE_FAILED;
	participant->error = error;
	va_start(args, format);
	vsnprintf(participant->reason, sizeof(participant->reason), format, args);
	va_end(args);
}

void rd_participant_fail(struct rd_participant *participant, int error, const char *reason)
{
	fail(participant, error, "%s", reason);
}

static const char *name_member(
	const struct rd_participant *participant, int rank, char name[NAME_SIZE])
{
	const struct rd_place *place = &participant->members[rank].place;

	snprintf(name, NAME_SIZE, "rank %d (host %s, pid %lld)", rank, place->host_name,
		(long long)place->pid);
	return name;
}

/* Before the table has come only the address is known. */
static const char *name_coordinator(const struct rd_participant *participant, char name[NAME_SIZE])
{
	if (participant->member_count > 0)
		return name_member(participant, 0, name);
	snprintf(name, NAME_SIZE, "rank 0 (at %s)", participant->where);
	return name;
}

/* ---- Connecting ---------------------------------------------------------------------------- */

bool rd_participant_dials(struct rd_participant *participant, int64_t now_ms)
{
	if (participant->phase != RD_SPOKE_AWAY || participant->dialling ||
		now_ms < participant->dial_ms)
		return false;
	participant->dialling = true;
	return true;
}

void rd_participant_connected(struct rd_participant *participant, int64_t now_ms)
{
	if (participant->phase != RD_SPOKE_AWAY)
		return;
	participant->dialling = false;
	participant->phase = RD_SPOKE_JOINING;
	/* A rank that failed before it got here cannot take part: it only sends the reason. */
	participant->say = participant->reported ? SAY_REPORT : SAY_HELLO | SAY_BEAT;
	participant->heard_ms = now_ms;
	participant->beat_ms = now_ms + participant->beat_wait_ms;
}

void rd_participant_refused(
	struct rd_participant *participant, bool refused, const char *reason, int64_t now_ms)
{
	if (participant->phase != RD_SPOKE_AWAY)
		return;
	participant->dialling = false;
	participant->refused = refused;
	snprintf(participant->refusal, sizeof(participant->refusal), "%s", reason);
	participant->dial_ms = now_ms + participant->dial_wait_ms;
	participant->dial_wait_ms *= 2;
	if (participant->dial_wait_ms > DIAL_MOST_MS)
		participant->dial_wait_ms = DIAL_MOST_MS;
}

/* A connection that ends before the coordinator's welcome was not the coordinator's: the backlog of
   a comm that is through with listening, say. Such an end is a refusal. */
void rd_participant_closed(struct rd_participant *participant, int error, int64_t now_ms)
{
	char name[NAME_SIZE];

	if (!is_connected(participant))
		return;
	if (!participant->welcome) {
		participant->phase = RD_SPOKE_AWAY;
		rd_participant_refused(
			participant, false, error ? strerror(error) : "it hung up", now_ms);
		return;
	}
	if (participant->reported && participant->report != RONDO_BROKEN &&
		participant->report != RONDO_TIMEOUT)
		fail(participant, participant->report, "%s", participant->report_reason);
	name_coordinator(participant, name);
	if (error == 0 || error == ECONNRESET || error == EPIPE)
		fail(participant, RONDO_DIED, "%s died", name);
	else
		fail(participant, RONDO_BROKEN, "the connection to %s failed: %s", name,
			strerror(error));
}

void rd_participant_garbled(struct rd_participant *participant)
{
	char name[NAME_SIZE];

	if (participant->welcome)
		fail(participant, RONDO_PROTOCOL, "%s sent bytes that make no sense",
			name_coordinator(participant, name));
	else
		fail(participant, RONDO_PROTOCOL,
			"rank %d: what listens at %s is not rank 0 of a comm",
			participant->settings->rank, participant->where);
}

/* ---- What this rank does ------------------------------------------------------------------- */

static void keep(struct rd_participant *participant, struct rd_link_failures *link_failures,
	const struct rd_link_failure *link_failure)
{
	if (!rd_link_failures_add(link_failures, link_failure))
		fail(participant, RONDO_MEMORY, "rank %d: no memory for a link failure",
			participant->settings->rank);
}

void rd_participant_lose(
	struct rd_participant *participant, const struct rd_link_failure *link_failure)
{
	/* The peer may have said so before. */
	if (participant->phase == RD_SPOKE_MET && !participant->ready &&
		!rd_link_failures_have(&participant->fallbacks, link_failure))
		keep(participant, &participant->link_failures, link_failure);
}

void rd_participant_look(struct rd_participant *participant)
{
	if (participant->phase == RD_SPOKE_MET && !participant->ready)
		participant->say |= SAY_LOOKED;
}

void rd_participant_ready(
	struct rd_participant *participant, int fallbacks, const struct rd_link_limits *limits)
{
	if (participant->phase != RD_SPOKE_MET || participant->ready ||
		fallbacks != participant->fallbacks.count)
		return;
	participant->ready = true;
	participant->limits = *limits;
	participant->say |= SAY_READY;
}

void rd_participant_report(struct rd_participant *participant, int error, int culprit,
	const char *reason, int64_t now_ms)
{
	if (is_over(participant) || participant->reported)
		return;
	participant->reported = true;
	participant->report = error;
	participant->culprit = culprit;
	snprintf(participant->report_reason, sizeof(participant->report_reason), "%s", reason);
	participant->report_ms = now_ms + RD_REPORT_MS;
	participant->say |= SAY_REPORT;
}

void rd_participant_slow(
	struct rd_participant *participant, bool first, int culprit, const char *reason)
{
	if (participant->phase != RD_SPOKE_OPEN || participant->reported || participant->leaving)
		return;
	participant->slow_first = first;
	participant->slow_culprit = culprit;
	snprintf(participant->slow_story, sizeof(participant->slow_story), "%s", reason);
	participant->say |= SAY_SLOW;
}

/* The coordinator knows whether the rank had left before. Of its own death nobody else can tell. */
void rd_participant_died(struct rd_participant *participant, int rank)
{
	char name[NAME_SIZE];

	if (participant->phase != RD_SPOKE_OPEN)
		return;
	if (rank == 0) {
		fail(participant, RONDO_DIED, "%s died", name_coordinator(participant, name));
		return;
	}
	participant->dead = rank;
	participant->say |= SAY_DEATH;
}

void rd_participant_leave(struct rd_participant *participant, uint64_t digest, int64_t now_ms)
{
	if (is_over(participant) || participant->leaving)
		return;
	participant->leaving = true;
	participant->digest = digest;
	participant->leave_ms = now_ms + participant->settings->heartbeat_timeout_ms;
	participant->say |= SAY_BYE;
}

/* ---- What the coordinator says
 * --------------------------------------------------------------------- */

static void take_member(
	struct rd_participant *participant, const struct rd_control_message *message)
{
	if (participant->phase != RD_SPOKE_JOINING ||
		participant->member_count == participant->settings->size ||
		message->member.rank != participant->member_count) {
		rd_participant_garbled(participant);
		return;
	}
	participant->members[participant->member_count++] = message->member.member;
}

static void take_table(struct rd_participant *participant, const struct rd_control_message *message)
{
	if (participant->phase != RD_SPOKE_JOINING ||
		participant->member_count < participant->settings->size) {
		rd_participant_garbled(participant);
		return;
	}
	participant->comm_id = message->table.comm_id;
	participant->phase = RD_SPOKE_MET;
}

static void take_go(struct rd_participant *participant, const struct rd_link_limits *limits)
{
	if (participant->phase != RD_SPOKE_MET || !participant->ready ||
		limits->piece_size > participant->limits.piece_size ||
		(limits->maps && !participant->limits.maps)) {
		rd_participant_garbled(participant);
		return;
	}
	participant->limits = *limits;
	participant->phase = RD_SPOKE_OPEN;
}

static void take_all_looked(struct rd_participant *participant)
{
	if (participant->phase == RD_SPOKE_MET)
		participant->rounds++;
	else
		rd_participant_garbled(participant);
}

/* Whatever was ready is so no more. */
static void take_fallbacks(
	struct rd_participant *participant, const struct rd_link_failure *link_failure)
{
	int rank = participant->settings->rank;

	if (participant->phase != RD_SPOKE_MET ||
		(link_failure->low != rank && link_failure->high != rank) ||
		link_failure->high >= participant->settings->size) {
		rd_participant_garbled(participant);
		return;
	}
	participant->ready = false;
	participant->say &= ~(unsigned)SAY_READY;
	keep(participant, &participant->fallbacks, link_failure);
}

/* Our call is one that the leaver never made: it cannot end well. */
static void check_calls(struct rd_participant *participant, int64_t now_ms)
{
	int collective = atomic_load(&participant->activity->collective);
	uint32_t calls = atomic_load(&participant->activity->calls);
	char reason[RD_REASON_SIZE];

	if (participant->leaver < 0 || participant->leaving || calls <= participant->leaver_calls)
		return;
	snprintf(reason, sizeof(reason), "rank %d is in %s #%u", participant->settings->rank,
		collective < 0 ? "call" : rd_collective_name((enum rd_collective)collective),
		calls);
	rd_participant_report(participant, RONDO_LEFT, participant->leaver, reason, now_ms);
}

static void take_left(struct rd_participant *participant, const struct rd_control_message *message,
	int64_t now_ms)
{
	if (participant->phase != RD_SPOKE_OPEN ||
		message->left.rank >= participant->settings->size) {
		rd_participant_garbled(participant);
		return;
	}
	if (participant->leaver < 0 || message->left.calls < participant->leaver_calls) {
		participant->leaver = message->left.rank;
		participant->leaver_calls = message->left.calls;
	}
	check_calls(participant, now_ms);
}

static void take_beat(struct rd_participant *participant, uint32_t timeout_ms, int64_t now_ms)
{
	int wait_ms = rd_beat_ms(timeout_ms);

	if (wait_ms == participant->beat_wait_ms)
		return;
	participant->beat_wait_ms = wait_ms;
	participant->beat_ms = now_ms + wait_ms;
}

void rd_participant_take(struct rd_participant *participant,
	const struct rd_control_message *message, int64_t now_ms)
{
	if (!is_connected(participant))
		return;
	/* Only a welcome, or a verdict instead, may come first. */
	if (!participant->welcome && message->kind != RD_CONTROL_BEAT &&
		message->kind != RD_CONTROL_VERDICT) {
		rd_participant_garbled(participant);
		return;
	}
	participant->welcome = true;
	participant->heard_ms = now_ms;
	switch (message->kind) {
	case RD_CONTROL_BEAT:
		take_beat(participant, message->beat.timeout_ms, now_ms);
		return;
	case RD_CONTROL_MEMBER:
		take_member(participant, message);
		return;
	case RD_CONTROL_TABLE:
		take_table(participant, message);
		return;
	case RD_CONTROL_FALLBACK:
		take_fallbacks(participant, &message->fallback);
		return;
	case RD_CONTROL_ALL_LOOKED:
		take_all_looked(participant);
		return;
	case RD_CONTROL_GO:
		take_go(participant, &message->go.limits);
		return;
	case RD_CONTROL_QUERY:
		participant->query = message->query.number;
		participant->say |= SAY_ANSWER;
		return;
	case RD_CONTROL_VERDICT:
		fail(participant, message->verdict.error, "%s", message->verdict.reason);
		return;
	case RD_CONTROL_LEFT:
		take_left(participant, message, now_ms);
		return;
	case RD_CONTROL_FAREWELL:
		if (participant->leaving)
			participant->phase = RD_SPOKE_GONE;
		else
			rd_participant_garbled(participant);
		return;
	default:
		rd_participant_garbled(participant);
	}
}

/* ---- Time ---------------------------------------------------------------------------------- */

/* Until when all must have met, and connected once this rank has. */
static int64_t init_deadline(const struct rd_participant *participant)
{
	bool waits = participant->phase == RD_SPOKE_AWAY ||
		     participant->phase == RD_SPOKE_JOINING ||
		     (participant->phase == RD_SPOKE_MET && participant->ready);

	if (!waits || participant->reported)
		return RD_NEVER;
	return participant->started_ms + participant->settings->init_timeout_ms;
}

static int64_t silence_deadline(const struct rd_participant *participant)
{
	/* A connection may wait unseen in rank 0's backlog, for as long as a rendezvous lasts. */
	if (!is_connected(participant) || !participant->welcome)
		return RD_NEVER;
	return participant->heard_ms + participant->settings->heartbeat_timeout_ms + 1;
}

static void give_up(struct rd_participant *participant, int64_t now_ms)
{
	int rank = participant->settings->rank;
	char duration[RD_DURATION_SIZE], reason[REASON_SIZE];

	rd_duration(duration, participant->settings->init_timeout_ms);
	if (participant->phase == RD_SPOKE_AWAY && participant->refused)
		fail(participant, RONDO_UNREACHABLE,
			"rank %d: no one listens at %s (%s, tried for %s)", rank,
			participant->where, participant->refusal, duration);
	else if (participant->phase == RD_SPOKE_AWAY)
		fail(participant, RONDO_UNREACHABLE,
			"rank %d: cannot reach rank 0 at %s (%s, tried for %s)", rank,
			participant->where,
			participant->refusal[0] ? participant->refusal : "no answer", duration);
	else if (!participant->welcome)
		fail(participant, RONDO_TIMEOUT,
			"rank %d: rank 0 at %s does not answer (tried for %s)", rank,
			participant->where, duration);
	if (is_over(participant))
		return;
	snprintf(reason, sizeof(reason), "rank %d waited %s for the other ranks", rank, duration);
	rd_participant_report(participant, RONDO_TIMEOUT, -1, reason, now_ms);
}

static void forgive(struct rd_participant *participant, int64_t now_ms)
{
	int64_t gap_ms = now_ms - participant->ticked_ms;

	participant->ticked_ms = now_ms;
	if (gap_ms > participant->settings->heartbeat_timeout_ms / 2)
		participant->heard_ms += gap_ms;
}

void rd_participant_tick(struct rd_participant *participant, int64_t now_ms)
{
	char name[NAME_SIZE], duration[RD_DURATION_SIZE];

	forgive(participant, now_ms);
	if (now_ms >= init_deadline(participant))
		give_up(participant, now_ms);
	if (now_ms >= participant->report_ms)
		fail(participant, participant->report, "%s", participant->report_reason);
	if (now_ms >= silence_deadline(participant))
		fail(participant, RONDO_TIMEOUT,
			"%s has not been heard of for %s: stopped or cut off",
			name_coordinator(participant, name),
			rd_duration(duration, participant->settings->heartbeat_timeout_ms));
	if (now_ms >= participant->leave_ms)
		fail(participant, RONDO_TIMEOUT, "%s did not answer a goodbye within %s",
			name_coordinator(participant, name),
			rd_duration(duration, participant->settings->heartbeat_timeout_ms));
	if (!is_connected(participant))
		return;
	check_calls(participant, now_ms);
	if (now_ms < participant->beat_ms)
		return;
	participant->say |= SAY_BEAT;
	participant->beat_ms = now_ms + participant->beat_wait_ms;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t rd_participant_deadline(const struct rd_participant *participant)
{
	int64_t deadline;

	if (is_over(participant))
		return RD_NEVER;
	deadline = sooner(init_deadline(participant), silence_deadline(participant));
	deadline = sooner(deadline, sooner(participant->report_ms, participant->leave_ms));
	/* Often enough that a gap shows when it is this process that was stopped. */
	if (is_connected(participant))
		deadline = sooner(sooner(deadline, participant->beat_ms),
			participant->ticked_ms +
				rd_beat_ms((uint32_t)participant->settings->heartbeat_timeout_ms));
	else if (!participant->dialling)
		deadline = sooner(deadline, participant->dial_ms);
	if (participant->leaver >= 0 && !participant->leaving && !participant->reported)
		deadline = sooner(deadline, participant->ticked_ms + LOOK_MS);
	return deadline;
}

/* ---- What is said -------------------------------------------------------------------------- */

static void say_hello(const struct rd_participant *participant, struct rd_control_message *message)
{
	const struct rd_settings *settings = participant->settings;

	message->kind = RD_CONTROL_HELLO;
	message->hello.version = RD_WIRE_VERSION;
	message->hello.rank = settings->rank;
	message->hello.size = settings->size;
	snprintf(message->hello.library, sizeof(message->hello.library), "%s", rondo_version());
	message->hello.digest = rd_settings_digest(settings);
	message->hello.channels = settings->channels;
	message->hello.piece_size = settings->piece_size;
	memcpy(message->hello.algo, settings->algo, sizeof(message->hello.algo));
	memcpy(message->hello.plugins, settings->plugins, sizeof(message->hello.plugins));
	message->hello.member = participant->self;
}

/* For how long our call has waited for one and the same peer; 0: it does not. */
static uint32_t waited_ms(const struct rd_participant *participant)
{
	int64_t since_ms = atomic_load(&participant->activity->waiting_since_ms);
	int64_t seen_ms = atomic_load(&participant->activity->waiting_seen_ms);
	int64_t now_ms = participant->ticked_ms;

	return now_ms - seen_ms > RD_WAIT_SEEN_MS || now_ms < since_ms
		       ? 0
		       : (uint32_t)(now_ms - since_ms);
}

static void say_slow(const struct rd_participant *participant, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_SLOW;
	message->slow.first = participant->slow_first;
	message->slow.culprit = participant->slow_culprit;
	memcpy(message->slow.reason, participant->slow_story, sizeof(message->slow.reason));
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

static void say_answer(const struct rd_participant *participant, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_ANSWER;
	message->answer.number = participant->query;
	message->answer.calls = atomic_load(&participant->activity->calls);
	message->answer.done = atomic_load(&participant->activity->done);
	message->answer.collective = atomic_load(&participant->activity->collective);
	message->answer.waiting_for = atomic_load(&participant->activity->waiting_for);
	message->answer.waited_ms = waited_ms(participant);
	load_slept_in(participant->activity, &message->answer.slept_in);
}

static void say_report(const struct rd_participant *participant, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_REPORT;
	message->report.error = participant->report;
	message->report.culprit = participant->culprit;
	memcpy(message->report.reason, participant->report_reason, sizeof(message->report.reason));
}

static void say_death(const struct rd_participant *participant, struct rd_control_message *message)
{
	char name[NAME_SIZE];

	message->kind = RD_CONTROL_REPORT;
	message->report.error = RONDO_DIED;
	message->report.culprit = participant->dead;
	snprintf(message->report.reason, sizeof(message->report.reason), "%s died",
		name_member(participant, participant->dead, name));
}

static bool spend(struct rd_participant *participant, unsigned what)
{
	bool due = participant->say & what;

	participant->say &= ~what;
	return due;
}

bool rd_participant_next(struct rd_participant *participant, struct rd_control_message *message)
{
	if (!is_connected(participant))
		return false;
	if (spend(participant, SAY_HELLO)) {
		say_hello(participant, message);
	} else if (spend(participant, SAY_BEAT)) {
		message->kind = RD_CONTROL_BEAT;
		message->beat.timeout_ms = (uint32_t)participant->settings->heartbeat_timeout_ms;
	} else if (participant->link_failures_told < participant->link_failures.count) {
		message->kind = RD_CONTROL_LOST;
		message->lost = participant->link_failures.at[participant->link_failures_told++];
	} else if (spend(participant, SAY_LOOKED)) {
		message->kind = RD_CONTROL_LOOKED;
	} else if (spend(participant, SAY_READY)) {
		message->kind = RD_CONTROL_READY;
		message->ready.fallbacks = (uint32_t)participant->fallbacks.count;
		message->ready.limits = participant->limits;
	} else if (spend(participant, SAY_ANSWER)) {
		say_answer(participant, message);
	} else if (spend(participant, SAY_SLOW)) {
		say_slow(participant, message);
	} else if (spend(participant, SAY_DEATH)) {
		say_death(participant, message);
	} else if (spend(participant, SAY_REPORT)) {
		say_report(participant, message);
	} else if (spend(participant, SAY_BYE)) {
		message->kind = RD_CONTROL_BYE;
		message->bye.calls = atomic_load(&participant->activity->calls);
		message->bye.digest = participant->digest;
	} else {
		return false;
	}
	return true;
}
