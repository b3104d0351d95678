/*
 * How ranks meet, and how failure reaches all of them, as two state machines: the coordinator (one
 * a comm, in rank 0) and the participant (one a rank). Events go in by calls; what they want said
 * comes out when asked for. They make no system call, read no clock and do no I/O: time comes in as
 * now_ms, and only ever moves forward. control.c is their sockets and their thread; a test runs
 * them over a network of its own with delays from a seed.
 *
 * The course of things, a participant on the left and the coordinator on the right:
 *
 *   HELLO ->                     who I am, what I was started with
 *   <- BEAT                      welcome
 *   <- MEMBER * size, TABLE      once all are here
 *   LOST ->, <- FALLBACK           a link over some transport did not come about: both ranks of the
 *                                pair are told, and take another
 *   LOOKED ->                    I have looked at all my links, and some are not open yet
 *   <- ALL_LOOKED                everyone has, or is ready: a round, by which silence is measured
 *   READY ->                     my links are open, after so many fallbacks: stale once there is
 *                                another; how long messages all of them carry, and whether all
 *                                of them map memory
 *   <- GO                        once everyone's are; and what the links of all ranks can do
 *   REPORT ->                    something failed here; instead of HELLO: I cannot take part
 *   <- QUERY, ANSWER ->          what are you doing?
 *   <- VERDICT                   the comm is over: who is to blame; nothing follows
 *   SLOW ->                      a call waits for long, and goes on: answered by a QUERY to all
 *   BYE ->, <- FAREWELL          nothing follows; the others hear LEFT
 *   BEAT, both ways              four times in the other side's heartbeat_timeout_ms, or each 5 s
 *
 * Nothing is queued: each connection has a few bits for what it has still to be told, so that
 * memory does not grow with a peer that does not read. Losses are kept once, however many are told.
 */
#ifndef RD_RENDEZVOUS_H
#define RD_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "bootstrap/control_message.h"
#include "bootstrap/link_failure.h"
#include "bootstrap/member.h"

#define RD_STRANGERS_MAX 128 /* connections without a HELLO yet, at a time */
#define RD_STRANGER_MS 2000 /* and for how long one may stay so */
#define RD_CASE_MS 500 /* how long the coordinator collects answers before it blames */
#define RD_REPORT_MS 2000 /* how long a participant waits for the verdict on its report */
#define RD_BEAT_MOST_MS 5000
#define RD_NEVER INT64_MAX

/* How often to beat for one who counts us as lost after so much silence. */
int rd_beat_ms(uint32_t timeout_ms);

/* ---- The coordinator
 * ------------------------------------------------------------------------------- */

struct rd_coordinator;

/*
 * settings: of rank 0; outlive the coordinator. where: the address the coordinator listens at, for
 * reasons. Draws no random numbers: comm_id is given.
 */
int rd_coordinator_create(struct rd_coordinator **coordinator, const struct rd_settings *settings,
	const char *where, uint64_t comm_id, int64_t now_ms);
void rd_coordinator_destroy(struct rd_coordinator *coordinator);

/* Connections are numbered from 0 to this, exclusively. */
int rd_coordinator_line_count(const struct rd_coordinator *coordinator);
/* Whether anyone may still join, and whether there is room for one more unproved connection. */
bool rd_coordinator_listening(const struct rd_coordinator *coordinator);
bool rd_coordinator_has_room(const struct rd_coordinator *coordinator);
/* The connection to close first where room is short: of those without a HELLO the oldest, else of
   those that have been sent why they are refused. -1: none. */
int rd_coordinator_oldest_stranger(const struct rd_coordinator *coordinator);
/* A connection was made: its number; -1: no room. */
int rd_coordinator_open(struct rd_coordinator *coordinator, int64_t now_ms);

void rd_coordinator_take(struct rd_coordinator *coordinator, int line,
	const struct rd_control_message *message, int64_t now_ms);
/* Bytes came that are no message. */
void rd_coordinator_garbled(struct rd_coordinator *coordinator, int line, int64_t now_ms);
/* The connection is gone: error is its errno, 0 for an end of file. The number may be used again.
 */
void rd_coordinator_closed(struct rd_coordinator *coordinator, int line, int error);
/* Rank 0 cannot take part: ranks that come are sent the reason. */
void rd_coordinator_decline(struct rd_coordinator *coordinator, int error, const char *reason);
/* Something that the coordinator cannot do without has failed in rank 0: nobody can join any more.
 */
void rd_coordinator_fail(struct rd_coordinator *coordinator, int error, const char *reason);
void rd_coordinator_tick(struct rd_coordinator *coordinator, int64_t now_ms);

/* The next message to say to this connection; false: none now. */
bool rd_coordinator_next(
	struct rd_coordinator *coordinator, int line, struct rd_control_message *message);
/* The coordinator wants nothing more to do with this connection: close it (and call
 * rd_coordinator_closed()). */
bool rd_coordinator_dropped(const struct rd_coordinator *coordinator, int line);
/* When rd_coordinator_tick() must be called next, at the latest. */
int64_t rd_coordinator_deadline(const struct rd_coordinator *coordinator);

/* True: a call waits for a rank that has not been named for it before; to be logged. */
bool rd_coordinator_slow_call(struct rd_coordinator *coordinator, char text[RD_REASON_SIZE]);

/* The verdict: 0, or its error; *reason is the coordinator's. */
int rd_coordinator_verdict(const struct rd_coordinator *coordinator, const char **reason);
/* Nothing more will happen: there is a verdict, or all have left. */
bool rd_coordinator_settled(const struct rd_coordinator *coordinator);
/* And nobody listens to the coordinator any more: all have left, or heard the verdict, and hung up.
   A gathering that failed early goes on until each rank has come to hear of it: bound the wait. */
bool rd_coordinator_over(const struct rd_coordinator *coordinator);

/* ---- The participant
 * ----------------------------------------------------------------------------- */

enum rd_participant_phase {
	RD_SPOKE_AWAY, /* to dial, or dialling */
	RD_SPOKE_JOINING, /* connected; not all are here yet */
	RD_SPOKE_MET, /* the members are known */
	RD_SPOKE_OPEN, /* all links are open */
	RD_SPOKE_GONE, /* has left: hang up */
	RD_SPOKE_FAILED, /* there is a verdict: hang up */
};

struct rd_participant;

/* settings, activity: outlive the participant. self: copied. where: the address it dials, for
 * reasons. */
int rd_participant_create(struct rd_participant **participant, const struct rd_settings *settings,
	const struct rd_member *self, struct rd_activity *activity, const char *where,
	int64_t now_ms);
void rd_participant_destroy(struct rd_participant *participant);

/* True: dial now, and say how it went by rd_participant_connected() or rd_participant_refused(). */
bool rd_participant_dials(struct rd_participant *participant, int64_t now_ms);
void rd_participant_connected(struct rd_participant *participant, int64_t now_ms);
/* refused: nobody listens there (anything else may be a fault of the network). reason: in words. */
void rd_participant_refused(
	struct rd_participant *participant, bool refused, const char *reason, int64_t now_ms);

void rd_participant_take(struct rd_participant *participant,
	const struct rd_control_message *message, int64_t now_ms);
void rd_participant_garbled(struct rd_participant *participant);
void rd_participant_closed(struct rd_participant *participant, int error, int64_t now_ms);
void rd_participant_tick(struct rd_participant *participant, int64_t now_ms);
bool rd_participant_next(struct rd_participant *participant, struct rd_control_message *message);
int64_t rd_participant_deadline(const struct rd_participant *participant);

/* What this rank does: a link to a peer did not come about; it has looked at its links, and some
   are not open; its links are open, after so many fallbacks, and can do so much; it saw a failure;
   it leaves. */
void rd_participant_lose(
	struct rd_participant *participant, const struct rd_link_failure *link_failure);
void rd_participant_look(struct rd_participant *participant);
void rd_participant_ready(
	struct rd_participant *participant, int fallbacks, const struct rd_link_limits *limits);
void rd_participant_report(struct rd_participant *participant, int error, int culprit,
	const char *reason, int64_t now_ms);
void rd_participant_leave(struct rd_participant *participant, uint64_t digest, int64_t now_ms);
/* A call here has waited for long, and goes on; first: not reported before. */
void rd_participant_slow(
	struct rd_participant *participant, bool first, int culprit, const char *reason);
/* The kernel has reported the death of a rank of this host (peer_watch.h). */
void rd_participant_died(struct rd_participant *participant, int rank);
/* This rank's control connection itself cannot go on. */
void rd_participant_fail(struct rd_participant *participant, int error, const char *reason);

enum rd_participant_phase rd_participant_phase(const struct rd_participant *participant);
int rd_participant_verdict(const struct rd_participant *participant, const char **reason);
/* From RD_SPOKE_MET on. */
const struct rd_member *rd_participant_members(const struct rd_participant *participant);
uint64_t rd_participant_comm_id(const struct rd_participant *participant);
/* From RD_SPOKE_OPEN on: what every link of every rank can do. */
const struct rd_link_limits *rd_participant_limits(const struct rd_participant *participant);
/* How many rounds of looks have ended. */
int rd_participant_rounds(const struct rd_participant *participant);
/* So far: the link failures of this rank's pairs, in the coordinator's order. */
const struct rd_link_failures *rd_participant_fallback(const struct rd_participant *participant);

#endif
