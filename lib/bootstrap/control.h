/*
 * The control connection of one rank in one comm: a thread and a control connection to rank 0, over
 * which the ranks meet, and later learn of deaths and failures. Rank 0's control connection also
 * runs the coordinator, to which all are connected (rank 0 too).
 *
 * What is said over it is decided by two state machines, events in and actions out, that make no
 * system call and read no clock: rendezvous.h. This file is their sockets and their thread.
 *
 * One verdict a comm: the first failure that the coordinator learns of. The coordinator tells every
 * rank, so that all of them name the same culprit for the same reason. A dead rank's control
 * connection closes: that is a verdict at once. So is the death of a process whose connection stays
 * open, or closes late, where another rank of its host watches over it (peer_watch.h). A rank that
 * reports a broken link waits for the coordinator's word on it: the coordinator prefers "rank 2
 * died" to "rank 1 closed its connection", which may be a mere consequence. A rank that reports
 * silence has the coordinator ask every rank what it is doing; the verdict names the rank that does
 * not answer (stopped, cut off), or the one that has not joined the call. Two bounds: a rank whose
 * heartbeat is missing for heartbeat_timeout_ms is lost, whatever it was to do; one that beats may
 * take timeout_ms to join a call.
 */
#ifndef RD_CONTROL_H
#define RD_CONTROL_H

#include <sys/socket.h>

#include "base/settings.h"
#include "bootstrap/link_failure.h"
#include "bootstrap/member.h"

struct rd_control;

struct rd_control_config {
	const struct rd_settings *settings; /* rank, size, address, port, rendezvous_fd, timeouts */
	const struct rd_member *self; /* copied */
	struct rd_activity *activity; /* outlives the control connection */
	_Atomic int *failed; /* set to the verdict's error; outlives the control connection */
	int wake_fd; /* eventfd, written after *failed is set */
	struct rd_control *parent; /* of the comm that this one is made from; NULL: none */
};

/*
 * Starts the thread and joins: rank 0 listens (on settings->rendezvous_fd, or address:port), all
 * connect, retrying a refused connection until init_timeout_ms is over. Returns when every rank's
 * member is known, or an error that names the rank and the reason: "rank 3: no one listens at
 * 10.0.0.1:29500 (connection refused, tried for 30 s)", "rank 2 has not come within 30 s (3 of 4
 * ranks are here)", "rank 2 was started with WORLD_SIZE 3, here 4", "two processes say they are
 * rank 1 (host a pid 17, host a pid 18)", "rank 1 has RONDO_PIECE ... " (settings digest differs).
 * On an error *control connection is NULL, nothing is left behind, and the other ranks get the
 * reason, as by rd_control_decline(). Takes over settings->rendezvous_fd.
 */
int rd_control_create(struct rd_control **control, const struct rd_control_config *config);

/*
 * For a rank that has failed before it could create a control connection: sends the others the
 * reason, so that they do not wait for it. Best effort: returns within some two seconds, whether
 * they got it or not. Takes over settings->rendezvous_fd.
 */
void rd_control_decline(const struct rd_settings *settings, int error, const char *reason);

/* From here on a verdict on config->parent is none on this comm, and the parent may go. Until then
   no rank waits here for one that has died since it was in the parent. */
void rd_control_detach(struct rd_control *control);

/* The members, [size], once create has returned; owned by the control connection. */
const struct rd_member *rd_control_members(const struct rd_control *control);
/* Drawn by the coordinator at random: the same on every rank of this comm, and on no other comm. */
uint64_t rd_control_comm_id(const struct rd_control *control);
/* The interface address used for the control connection, for logs: "lo:127.0.0.1<29500>". */
const char *rd_control_describe(const struct rd_control *control);

/* The address of this host on the way to rank 0, or in rank 0 the one where it listens: where
   others of this comm can be expected to reach this rank. Its port is of no use. */
void rd_control_address(const struct rd_control *control, struct sockaddr_storage *address);

/*
 * A link of this rank's did not come about, before rd_control_ready(): the coordinator tells both
 * ends. What it has told of this rank's links is counted from 0 and comes in one order: true, and
 * *fallback is the link failure of that number; false: there are not so many yet. Each that comes
 * writes wake_fd.
 */
int rd_control_link_failed(struct rd_control *control, const struct rd_link_failure *link_failure);
bool rd_control_fallback(struct rd_control *control, int number, struct rd_link_failure *fallback);

/*
 * While links are not open: says that this rank has looked at all of them since the last round
 * ended. A round ends when all ranks have, or are ready; each end writes wake_fd.
 * rd_control_rounds() is how many have ended; read it before rd_control_fallback(), which then has
 * all that came earlier.
 */
void rd_control_look(struct rd_control *control);
int rd_control_rounds(const struct rd_control *control);

/*
 * Says that this rank's links are open, after so many fallbacks, and what all of them can do.
 * Returns 0 when all ranks' are open, and *limits is what the links of all ranks can do; 1 when
 * there is a fallback more and links have to be opened again; or the verdict.
 */
int rd_control_ready(struct rd_control *control, int fallbacks, struct rd_link_limits *limits);

/*
 * Reports a failure seen here and waits (bounded, about a second) for the coordinator's verdict,
 * which is returned with its reason recorded in this thread. culprit: the rank at fault, or -1.
 * error: RONDO_BROKEN    the link to culprit failed RONDO_TIMEOUT   silence, waiting for culprit
 *   RONDO_MISMATCH, RONDO_PROTOCOL, RONDO_ABORTED, ...   as the reason says
 * Where no verdict comes (the coordinator is gone), the reported error and reason stand.
 */
int rd_control_report(struct rd_control *control, int error, int culprit, const char *reason);

/*
 * A call of this rank has waited for long, and goes on. The coordinator asks all ranks what they
 * do. Where they wait for each other, and have for heartbeat_timeout_ms, that is a verdict. Else
 * rank 0 logs who holds the call up, if this is the `first` report of the wait. Waits for nothing.
 */
void rd_control_slow(struct rd_control *control, bool first, int culprit, const char *reason);

/* The verdict so far: 0, or its error, with the reason recorded in this thread. */
int rd_control_verdict(struct rd_control *control);

/*
 * Goodbye: tells the coordinator how many collective calls were made, and a digest of them (two
 * ranks with equal counts and unequal digests made different calls: RONDO_MISMATCH). Rank 0 waits
 * until all have left or died, at most timeout_ms. A rank that has left is no failure; but another
 * rank whose `calls` exceed the leaver's gets a verdict at once: "rank 1 left after call #16; rank
 * 0 is in all_reduce #17". Frees. Returns 0 or the verdict, which may be the news of this very
 * moment.
 */
int rd_control_leave(struct rd_control *control, uint64_t digest);

/*
 * Frees without a goodbye: peers see this rank die. For failed comms (after the verdict). Rank 0
 * stays, a second at most, until all have heard the verdict and hung up.
 */
void rd_control_destroy(struct rd_control *control);

/* Frees in a forked child, where the thread does not run: closes this process's descriptors, and
   sends nothing. */
void rd_control_abandon(struct rd_control *control);

#endif
