/*
 * The participant: the state machine at each rank's end of the control connection (rendezvous.h).
 * For one thread at a time.
 *
 * participant.c holds its life, the rank's requests and the deadlines. messages.c takes messages
 * and chooses what is sent, and failure.c ends it. Callers read the state, and change it by the
 * functions alone.
 */
#ifndef RD_PARTICIPANT_H
#define RD_PARTICIPANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/settings.h"
#include "bootstrap/control_message.h"
#include "bootstrap/link_failure.h"
#include "bootstrap/member.h"
#include "bootstrap/rendezvous.h"

enum rd_participant_phase {
	RD_PARTICIPANT_CONNECTING, /* to rank 0 */
	RD_PARTICIPANT_JOINING, /* connected; not all ranks have joined */
	RD_PARTICIPANT_JOINED, /* all have: the members are known */
	RD_PARTICIPANT_OPEN, /* all ranks can call */
	RD_PARTICIPANT_LEFT, /* the connection may be closed */
	RD_PARTICIPANT_FAILED, /* there is a verdict: the connection may be closed */
};

/* The part of the state that ends once the members are known. */
struct rd_joining {
	struct rd_identity self;
	uint64_t group; /* of HELLO; 0: none */
	struct rd_table_reader table; /* how far the members have come */
};

struct rd_participant {
	const struct rd_settings *settings;
	struct rd_joining *joining; /* NULL: the members are known */
	struct rd_activity *activity; /* the caller may set another */
	const char *address;
	enum rd_participant_phase phase;
	bool connecting;
	bool accepted; /* a first message came from rank 0, so it is a coordinator */
	bool ready, reported, leaving;
	bool zero_left; /* rank 0 has, so the end of its process is no death */
	bool others_left; /* all have but this rank */
	bool unattended; /* it has ended: this rank judges its failures itself */
	bool cut_off; /* or the network has ended the connection to it */
	bool spares; /* a verdict waits until so many calls of this rank are done: */
	uint32_t spared;
	/* Before its first call: it waits for rank 0's costs. A rank 0 that made its calls and died
	   sends none. The caller sets it. */
	bool awaits_costs;
	int64_t ended_ms; /* rank 0 died: until when another may report its calls */
	rd_control_kinds to_send; /* beside link failures and a death: */

	int64_t started_ms, ticked_ms, received_ms;
	int64_t connect_ms, heartbeat_ms, report_ms, leave_ms;
	int64_t hold_ms; /* when our report goes out, where it waits; else RD_NEVER */
	int connect_wait_ms, heartbeat_wait_ms;
	bool refused; /* the latest attempt to connect was */
	char *refusal; /* why it failed; NULL: it was not */

	struct rd_member *members; /* [size]: from RD_PARTICIPANT_JOINED on, as `cards` and `id` */
	struct rd_cards cards; /* of each */
	struct rd_link_failures link_failures; /* of our links, to be sent */
	struct rd_link_failures fallbacks; /* of our pairs, in the coordinator's order */
	int link_failures_sent;
	struct rd_rank_list opens; /* ranks to which we open links */
	struct rd_rank_list opened; /* that do to us, in the order in which they said so */
	int opens_sent;
	struct rd_comm_id id;
	struct rd_link_limits limits; /* of our links; from RD_PARTICIPANT_OPEN on, of all ranks' */
	char *costs; /* rank 0's own, or as they came; NULL: not yet */
	uint32_t query;
	int leaver; /* with the fewest calls, leaver_calls; -1: none has left */
	uint32_t leaver_calls;
	uint64_t digest; /* of our calls, when leaving */

	int report, culprit; /* of our own report: its error */
	char *report_reason; /* base/error.h */
	int dead; /* a rank whose death is to be reported; -1: none */
	uint32_t dead_done; /* calls that it had finished */
	int64_t slow_line_ms; /* our call that waits for long; 0: before READY */
	int slow_culprit;
	char *slow_reason;

	int error; /* the verdict */
	int lost; /* the rank that it is about, which died or was lost; -1: none */
	bool *late; /* [size]: of its STRAGGLERS; NULL: none has come, or no memory for them */
	char *reason;
};

static inline bool rd_participant_is_over(const struct rd_participant *participant)
{
	return participant->phase == RD_PARTICIPANT_LEFT ||
	       participant->phase == RD_PARTICIPANT_FAILED;
}

static inline bool rd_participant_is_connected(const struct rd_participant *participant)
{
	return participant->phase != RD_PARTICIPANT_CONNECTING && !participant->unattended &&
	       !rd_participant_is_over(participant);
}

/* settings, activity: outlive the participant. self: copied. address: the one of rank 0, for
   reasons. */
int rd_participant_create(struct rd_participant **participant, const struct rd_settings *settings,
	const struct rd_identity *self, struct rd_activity *activity, const char *address,
	int64_t now_ms);
void rd_participant_destroy(struct rd_participant *participant);

/* Before HELLO: where this rank can be met after a failure. */
void rd_participant_set_lineage(
	struct rd_participant *participant, const struct rd_lineage_address *place);

/* The same: the id of the group that this comm is. */
void rd_participant_set_group(struct rd_participant *participant, uint64_t id);
/* The same: this rank can call once it knows the members, with these limits of its links. */
void rd_participant_set_limits(
	struct rd_participant *participant, const struct rd_link_limits *limits);

/* True: connect now, then call rd_participant_connected() or rd_participant_refused(). */
bool rd_participant_connects(struct rd_participant *participant, int64_t now_ms);
void rd_participant_connected(struct rd_participant *participant, int64_t now_ms);
/* refused: no process listens there; false: another failure, maybe of the network. */
void rd_participant_refused(
	struct rd_participant *participant, bool refused, const char *reason, int64_t now_ms);

/* A message has come. */
void rd_participant_take(struct rd_participant *participant,
	const struct rd_control_message *message, int64_t now_ms);
/* Bytes have come that are no message, or a message at the wrong time. */
void rd_participant_bad_message(struct rd_participant *participant);
/* The connection is closed: error is its errno, 0 for an end of file. */
void rd_participant_closed(struct rd_participant *participant, int error, int64_t now_ms);
/* Time has passed. */
void rd_participant_tick(struct rd_participant *participant, int64_t now_ms);

/* Where nothing has come since then, a heartbeat is to be sent, beside the usual ones. */
void rd_participant_beat(struct rd_participant *participant, int64_t since_ms);

/* The next message to send; false: none now. */
bool rd_participant_next(struct rd_participant *participant, struct rd_control_message *message);
/* When rd_participant_tick() must be called next, at the latest. */
int64_t rd_participant_deadline(const struct rd_participant *participant);

/* The rank's own events, as in control.h: a link failed; it opens a link; it can call, after this
   number of fallbacks; a failure; a slow call; the end. The first two return false without memory
   for them. */
bool rd_participant_link_failed(
	struct rd_participant *participant, const struct rd_link_failure *link_failure);
/* Rank 0's: the costs, once. It frees the text. */
void rd_participant_costs(struct rd_participant *participant, char *costs);
bool rd_participant_open(struct rd_participant *participant, int peer);
void rd_participant_ready(
	struct rd_participant *participant, int fallbacks, const struct rd_link_limits *limits);
void rd_participant_report(struct rd_participant *participant, int error, int culprit,
	const char *reason, int64_t now_ms);
/* RONDO_REVOKED, which is reported where there is a connection to rank 0. */
void rd_participant_cancel(struct rd_participant *participant, const char *reason, int64_t now_ms);
void rd_participant_slow(
	struct rd_participant *participant, int64_t line_ms, int culprit, const char *reason);
void rd_participant_leave(struct rd_participant *participant, uint64_t digest, int64_t now_ms);
/* Whether rd_participant_next() has returned its goodbye. */
bool rd_participant_has_said_goodbye(const struct rd_participant *participant);
/* The kernel has reported the death of a rank of this host, which had finished so many calls
   (peer_watch.h). */
void rd_participant_died(struct rd_participant *participant, int rank, uint32_t done);
/* Ends the participant with this verdict. The first stands. */
void rd_participant_end(struct rd_participant *participant, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The verdict: 0, or its error; *reason is the participant's. */
int rd_participant_verdict(const struct rd_participant *participant, const char **reason);
/* Rank 0 had left, and its process has ended: nothing is sent any more. */
bool rd_participant_is_unattended(const struct rd_participant *participant);
/* There is a verdict, and it waits until calls that it spares are done. */
bool rd_participant_spares(const struct rd_participant *participant);
/* Whether this rank lives, and was late for the call whose timeout is the verdict. */
bool rd_participant_is_late(const struct rd_participant *participant, int rank);

/* ---- Among its own files: how it fails, and what it reports ---------------------------------- */

/* As rd_participant_end(), where the reason is that this rank died or was lost. */
void rd_participant_end_without(struct rd_participant *participant, int lost, int error,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same, but calls of this rank up to number `spared` may end well before it. */
void rd_participant_end_sparing(struct rd_participant *participant, uint32_t spared, int lost,
	int error, const char *reason);

/* Whether the death of rank 0 may spare calls: with the coordinator gone, ranks of other hosts do
   not learn which, and do not finish theirs. */
bool rd_participant_may_spare(const struct rd_participant *participant);

/* The same by this rank's own report, where nobody else judges it. */
void rd_participant_end_alone(struct rd_participant *participant);
/* The same where rank 0 has not answered the report within RD_REPORT_MS. */
void rd_participant_end_unanswered(struct rd_participant *participant);

/* "rank 0 (host a, pid 17)"; "rank 0 (at 10.0.0.1:29500)" before the members are known. */
const char *rd_participant_name_0(
	const struct rd_participant *participant, char name[RD_RANK_NAME_SIZE]);

/* Append a rank, a link failure; without memory for it the participant ends. */
void rd_participant_list(
	struct rd_participant *participant, struct rd_rank_list *list, int32_t rank);
void rd_participant_keep(struct rd_participant *participant, struct rd_link_failures *link_failures,
	const struct rd_link_failure *link_failure);

/* Reports a call of this rank that a rank which has left never made: it cannot end well. */
void rd_participant_check_calls(struct rd_participant *participant, int64_t now_ms);

#endif
