/*
 * How ranks meet, and how failure reaches all of them. Two state machines: the coordinator (one a
 * comm, in rank 0; coordinator/) and the participant (one a rank; participant/). They take events
 * by calls, and return the messages to send when asked. They make no system call, read no clock and
 * do no I/O. Their callers pass the time as now_ms, which never goes back. control_thread.c drives
 * them over sockets; tests drive them over a simulated network with delays from a seed.
 *
 * The course of events, a participant on the left and the coordinator on the right:
 *
 *   HELLO ->                      identity and settings of this rank
 *   <- HEARTBEAT                  the first one: the coordinator accepts this rank
 *   <- TABLE * parts              once all ranks have joined
 *   READY ->                      the first links are open: the limits of all that this rank may
 *                                 open, and the number of fallbacks so far, by which the
 *                                 coordinator drops a READY that is stale
 *   <- READY                      once all are ready: the least limits of all ranks' links
 *   COSTS ->                      rank 0 knows the costs of messages
 *   <- COSTS                      those, to all others
 *   OPEN ->                       this rank opens links to others: of calls, or of tagged messages
 *   <- OPEN                       others open links to this rank
 *   LINK_FAILED ->, <-            a link over some transport failed to open: both ranks of the pair
 *                                 receive it, and fall back to the next transport. Without a
 *                                 transport: the other rank has left
 *   REPORT ->                     a failure; in place of HELLO: this rank cannot take part
 *   <- QUERY, ANSWER ->           the state of this rank's calls
 *   <- STRAGGLERS * parts         before the VERDICT of a timeout: the ranks that are late
 *   <- VERDICT                    the comm is over, with the reason; nothing follows
 *   VERDICT ->                    rank 0 is silent: this rank has given it up; nothing follows
 *   SLOW ->                       a call waits for long; a QUERY to all follows. Before READY:
 *                                 init_timeout_ms has passed; a VERDICT follows, unless READY
 *                                 crosses it
 *   BYE ->, <- LEFT               this rank leaves; nothing follows. The others receive LEFT, too:
 *                                 of the first one that leaves, and of rank 0; the last of them,
 *                                 once all others have left
 *   HEARTBEAT, both ways          four times in the other side's heartbeat_timeout_ms, at least
 *                                 each 5 s; a participant answers each one, and so rarely has to
 *
 * Nothing is queued: a set of kinds and some counters hold what is to be sent over a connection, so
 * memory does not grow with a peer that does not read. Link failures are stored once, and so is who
 * opened a link to whom.
 */
#ifndef RD_RENDEZVOUS_H
#define RD_RENDEZVOUS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define RD_PENDING_MAX 128 /* connections beside those of ranks, at a time */
#define RD_PENDING_MS 2000 /* for which one may stay without its first message, or refused */
/* For which the coordinator collects answers before it judges. For as long, the end of a connection
   waits for the report of the death, which tells the calls that the dead rank had finished. */
#define RD_QUERY_MS 500
#define RD_REPORT_MS 2000 /* for which a participant waits for the verdict on its report */
#define RD_CANCEL_MS 100 /* the same, of a rank that cancels before rank 0 has accepted it */
/* For which a participant keeps a report of a broken link: rank 0 may have died, and the end of the
   control connection is about to show it. Bytes that come there before would make the kernel reset
   it, which proves nothing. */
#define RD_HOLD_MS 100
#define RD_HEARTBEAT_MOST_MS 5000

/* The interval of heartbeats to a peer whose heartbeat_timeout_ms is this. */
static inline int rd_heartbeat_ms(uint32_t timeout_ms)
{
	if (timeout_ms / 4 > RD_HEARTBEAT_MOST_MS)
		return RD_HEARTBEAT_MOST_MS;
	return timeout_ms < 4 ? 1 : (int)(timeout_ms / 4);
}

/* Whether a connection ended by a reset alone, which the network may have sent; a reset behind an
   end is EPIPE. Within a host nothing is between the ends: drivers pass EPIPE there. */
static inline bool rd_means_reset(int error)
{
	return error == ECONNRESET || error == ECONNABORTED;
}

/* Whether a connection ended as the kernel of a rank that has died ends it. One that lives says
   goodbye, or resets it. */
static inline bool rd_means_death(int error)
{
	return error == 0 || error == EPIPE;
}

/* Whether a connection failed by silence of the other host's kernel, or of the way there. */
static inline bool rd_means_silence(int error)
{
	return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

#endif
