/*
 * How ranks meet, and how failure reaches all of them, as two state machines: the coordinator (one
 * a comm, in rank 0) and the participant (one a rank). Events go in by calls; what they want said
 * comes out when asked for. They make no system call, read no clock and do no I/O: time comes in as
 * now_ms, and only ever moves forward. control_thread.c drives them over sockets; a test runs
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

#include <stdint.h>

#define RD_PENDING_MAX 128 /* connections without a HELLO yet, at a time */
#define RD_PENDING_MS 2000 /* and for how long one may stay so */
#define RD_CASE_MS 500 /* how long the coordinator collects answers before it blames */
#define RD_REPORT_MS 2000 /* how long a participant waits for the verdict on its report */
#define RD_BEAT_MOST_MS 5000
#define RD_NEVER INT64_MAX

/* The interval of heartbeats to a peer that counts us as lost after timeout_ms of silence. */
static inline int rd_beat_ms(uint32_t timeout_ms)
{
	if (timeout_ms / 4 > RD_BEAT_MOST_MS)
		return RD_BEAT_MOST_MS;
	return timeout_ms < 4 ? 1 : (int)(timeout_ms / 4);
}

static inline int64_t rd_sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

#endif
