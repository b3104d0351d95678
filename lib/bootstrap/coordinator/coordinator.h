/*
 * The coordinator: rank 0's state machine, by which ranks meet and failures become a verdict
 * (rendezvous.h). Connections are numbered (connections.c). For one thread at a time. send.c
 * defines rd_coordinator_next(), and coordinator.c the rest.
 */
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

/* settings: of rank 0; outlive the coordinator. address: the one where rank 0 listens, for
   reasons. */
int rd_coordinator_create(struct rd_coordinator **coordinator, const struct rd_settings *settings,
	const char *address, const struct rd_comm_id *id, int64_t now_ms);
void rd_coordinator_destroy(struct rd_coordinator *coordinator);

/* One more than the greatest number of a connection. */
int rd_coordinator_connection_count(const struct rd_coordinator *coordinator);
/* Whether a rank may still join. */
bool rd_coordinator_listening(const struct rd_coordinator *coordinator);
/* The number of a new connection, whose first message follows; -1: none is free. */
int rd_coordinator_open(struct rd_coordinator *coordinator, int64_t now_ms);
/* The connection to close where no number is free: the oldest that has been sent why it is refused.
   -1: none. */
int rd_coordinator_oldest_refused(const struct rd_coordinator *coordinator);
/* So many more connections did not prove to be of this job, or sent something else. */
void rd_coordinator_note_foreign(struct rd_coordinator *coordinator, unsigned count);
/* The errno by which rank 0 cannot accept a connection at present; 0: it can. For the reason, if
   ranks do not come. */
void rd_coordinator_note_accept_error(struct rd_coordinator *coordinator, int error);

/* This process runs again after a wait, before it takes what has come: for how long it did not run
   shows whether ranks that hung up meanwhile had given it up. */
void rd_coordinator_wake(struct rd_coordinator *coordinator, int64_t now_ms);
/* A message has come. */
void rd_coordinator_take(struct rd_coordinator *coordinator, int connection,
	const struct rd_control_message *message, int64_t now_ms);
/* The rank at the other end; -1: none yet, or it was refused. */
int rd_coordinator_rank_at(const struct rd_coordinator *coordinator, int connection);
/* Bytes have come that are no message, or a message at the wrong time. */
void rd_coordinator_bad_message(struct rd_coordinator *coordinator, int connection, int64_t now_ms);
/* The connection is closed: error is its errno, 0 for an end of file. Frees the number. */
void rd_coordinator_closed(struct rd_coordinator *coordinator, int connection, int error);
/* Rank 0 cannot take part: ranks that connect receive the reason. */
void rd_coordinator_decline(struct rd_coordinator *coordinator, int error, const char *reason);
/* A failure in rank 0 that ends the comm; no rank can join any more. */
void rd_coordinator_fail(struct rd_coordinator *coordinator, int error, const char *reason);
/* Time has passed. */
void rd_coordinator_tick(struct rd_coordinator *coordinator, int64_t now_ms);

/* A heartbeat is to be sent here, beside those that keep the bound of heartbeats. */
void rd_coordinator_beat(struct rd_coordinator *coordinator, int connection);
/* The next message to send over this connection; false: none now. */
bool rd_coordinator_next(
	struct rd_coordinator *coordinator, int connection, struct rd_control_message *message);
/* True: close this connection, then call rd_coordinator_closed(). */
bool rd_coordinator_dropped(const struct rd_coordinator *coordinator, int connection);
/* When rd_coordinator_tick() must be called next, at the latest. */
int64_t rd_coordinator_deadline(const struct rd_coordinator *coordinator);

/* Whether a line is due after waited_ms, the last one having come after logged_ms (0: none): about
   twice as late. Ranks that began to wait a little later are not logged again. */
static inline bool rd_coordinator_is_next_line(uint32_t waited_ms, uint32_t logged_ms)
{
	return waited_ms >= logged_ms + logged_ms / 2;
}

/* text: a line to log about a slow call. Returns for how long that has waited; 0: there is no line.
   A call has one line each time that its wait has doubled. */
uint32_t rd_coordinator_slow_call(struct rd_coordinator *coordinator, char text[RD_REASON_SIZE]);

/* The verdict: 0, or its error; *reason is the coordinator's. */
int rd_coordinator_verdict(const struct rd_coordinator *coordinator, const char **reason);
/* The rank that it is about, which died or was lost; -1: none. */
int rd_coordinator_lost(const struct rd_coordinator *coordinator);
/* Whether this rank lives, and was late for the call whose timeout is the verdict. */
bool rd_coordinator_is_late(const struct rd_coordinator *coordinator, int rank);
/* Rank 0 leaves, and waits for all others until then. */
void rd_coordinator_end_by(struct rd_coordinator *coordinator, int64_t deadline_ms);
/* There is a verdict, or all have left. */
bool rd_coordinator_decided(const struct rd_coordinator *coordinator);
/* Decided, and all ranks have left, or received the verdict and closed their connections. After a
   failure to meet, this waits for ranks that have yet to connect: bound the wait. */
bool rd_coordinator_over(const struct rd_coordinator *coordinator);

#endif
