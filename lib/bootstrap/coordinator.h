/* The coordinator: rank 0's state machine by which ranks meet and fail (rendezvous.h). */
#ifndef RD_COORDINATOR_H
#define RD_COORDINATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "bootstrap/control_message.h"
#include "bootstrap/link_failure.h"
#include "bootstrap/member.h"
#include "bootstrap/rendezvous.h"

struct rd_coordinator;

/*
 * settings: of rank 0; outlive the coordinator. where: the address the coordinator listens at, for
 * reasons. Draws no random numbers: comm_id is given.
 */
int rd_coordinator_create(struct rd_coordinator **coordinator, const struct rd_settings *settings,
	const char *where, uint64_t comm_id, int64_t now_ms);
void rd_coordinator_destroy(struct rd_coordinator *coordinator);

/* Connections are numbered from 0 to this, exclusively. */
int rd_coordinator_connection_count(const struct rd_coordinator *coordinator);
/* Whether anyone may still join, and whether there is room for one more unproved connection. */
bool rd_coordinator_listening(const struct rd_coordinator *coordinator);
bool rd_coordinator_has_room(const struct rd_coordinator *coordinator);
/* The connection to close first where room is short: of those without a HELLO the oldest, else of
   those that have been sent why they are refused. -1: none. */
int rd_coordinator_oldest_pending(const struct rd_coordinator *coordinator);
/* A connection was made: its number; -1: no room. */
int rd_coordinator_open(struct rd_coordinator *coordinator, int64_t now_ms);

void rd_coordinator_take(struct rd_coordinator *coordinator, int connection,
	const struct rd_control_message *message, int64_t now_ms);
/* Bytes came that are no message. */
void rd_coordinator_garbled(struct rd_coordinator *coordinator, int connection, int64_t now_ms);
/* The connection is gone: error is its errno, 0 for an end of file. The number may be used again.
 */
void rd_coordinator_closed(struct rd_coordinator *coordinator, int connection, int error);
/* Rank 0 cannot take part: ranks that come are sent the reason. */
void rd_coordinator_decline(struct rd_coordinator *coordinator, int error, const char *reason);
/* Something that the coordinator cannot do without has failed in rank 0: nobody can join any more.
 */
void rd_coordinator_fail(struct rd_coordinator *coordinator, int error, const char *reason);
void rd_coordinator_tick(struct rd_coordinator *coordinator, int64_t now_ms);

/* The next message to say to this connection; false: none now. */
bool rd_coordinator_next(
	struct rd_coordinator *coordinator, int connection, struct rd_control_message *message);
/* The coordinator wants nothing more to do with this connection: close it (and call
 * rd_coordinator_closed()). */
bool rd_coordinator_dropped(const struct rd_coordinator *coordinator, int connection);
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

#endif
