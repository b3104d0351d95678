/*
 * The participant: the state machine at each rank's end of the control connection (rendezvous.h).
 * For one thread at a time.
 *
 * receive.c defines rd_participant_take(), and send.c rd_participant_next(). failure.c defines
 * rd_participant_bad_message(), _report(), _cancel(), _died() and _fail(); participant.c defines
 * the rest.
 */
#ifndef RD_PARTICIPANT_H
#define RD_PARTICIPANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "bootstrap/control_message.h"
#include "bootstrap/link_failure.h"
#include "bootstrap/member.h"
#include "bootstrap/rank_list.h"
#include "bootstrap/rendezvous.h"

enum rd_participant_phase {
	RD_PARTICIPANT_CONNECTING, /* to rank 0 */
	RD_PARTICIPANT_JOINING, /* connected; not all ranks have joined */
	RD_PARTICIPANT_JOINED, /* all have: the members are known */
	RD_PARTICIPANT_OPEN, /* all ranks can call */
	RD_PARTICIPANT_LEFT, /* the connection may be closed */
	RD_PARTICIPANT_FAILED, /* there is a verdict: the connection may be closed */
};

struct rd_participant;

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

/* Another record of this rank's calls from now on. */
void rd_participant_set_activity(struct rd_participant *participant, struct rd_activity *activity);

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
   number of fallbacks; a failure; a slow call; the end. */
void rd_participant_link_failed(
	struct rd_participant *participant, const struct rd_link_failure *link_failure);
/* Rank 0's: the costs, once. It frees the text. */
void rd_participant_costs(struct rd_participant *participant, char *costs);
/* Another rank's: it waits for them. A rank 0 that made its calls and died sends none. */
void rd_participant_await_costs(struct rd_participant *participant);
void rd_participant_open(struct rd_participant *participant, int peer);
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
/* The control connection itself cannot go on. */
void rd_participant_fail(struct rd_participant *participant, int error, const char *reason);

enum rd_participant_phase rd_participant_phase(const struct rd_participant *participant);
/* The verdict: 0, or its error; *reason is the participant's. */
int rd_participant_verdict(const struct rd_participant *participant, const char **reason);
/* Rank 0 had left, and its process has ended: nothing is sent any more. */
bool rd_participant_is_unattended(const struct rd_participant *participant);
/* There is a verdict, and it waits until calls that it spares are done. */
bool rd_participant_spares(const struct rd_participant *participant);
/* The rank that it is about, which died or was lost; -1: none. */
int rd_participant_lost(const struct rd_participant *participant);
/* Whether this rank lives, and was late for the call whose timeout is the verdict. */
bool rd_participant_is_late(const struct rd_participant *participant, int rank);
/* From RD_PARTICIPANT_JOINED on. */
const struct rd_member *rd_participant_members(const struct rd_participant *participant);
/* The same. */
const struct rd_cards *rd_participant_cards(const struct rd_participant *participant);
const struct rd_comm_id *rd_participant_comm_id(const struct rd_participant *participant);
/* From RD_PARTICIPANT_OPEN on: the least limits of all ranks' links. */
const struct rd_link_limits *rd_participant_limits(const struct rd_participant *participant);
/* Rank 0's costs; NULL: they have not come. */
const char *rd_participant_known(const struct rd_participant *participant);
/* The ranks that open links to this one, in the order in which they said so. */
const struct rd_rank_list *rd_participant_opened(const struct rd_participant *participant);
/* The link failures of this rank's pairs so far, in the coordinator's order. */
const struct rd_link_failures *rd_participant_fallback(const struct rd_participant *participant);

#endif
