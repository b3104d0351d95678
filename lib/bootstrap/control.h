/*
 * The control connection of one rank in one comm: a connection to rank 0, which the thread of its
 * job serves (job.h). Over it the ranks meet, and later learn of deaths and failures. Rank 0's
 * control connection also runs the coordinator, to which all ranks connect.
 *
 * Two state machines decide which messages are sent (rendezvous.h). They make no system call and
 * read no clock; this module is their sockets, and the thread calls them.
 *
 * A comm has one verdict: the first failure that the coordinator receives. The coordinator sends it
 * to all ranks, so that all name the same culprit and the same reason.
 *
 * - When a rank dies its control connection closes, which is a verdict at once. Where the
 *   connection stays open, another rank of the same host reports the death (peer_watch.h).
 * - A rank that reports a broken link waits for the verdict. The coordinator prefers "rank 2 died"
 *   to "rank 1 closed its connection", which may be a mere consequence.
 * - When a rank reports silence, the coordinator queries all ranks. The verdict names the rank that
 *   does not answer (stopped, cut off), or the one that has not joined the call.
 *
 * Two bounds: a rank without a heartbeat for heartbeat_timeout_ms is lost. One with heartbeats may
 * take timeout_ms to join a call.
 */
#ifndef RD_CONTROL_H
#define RD_CONTROL_H

#include <sys/socket.h>

#include "base/settings.h"
#include "bootstrap/listener.h"
#include "bootstrap/link_failure.h"
#include "bootstrap/cards.h"
#include "bootstrap/member.h"

struct rd_control;

/*
 * The links of the comm, which a rank opens when a call needs them, and which its peer opens too,
 * whatever its program does. The control thread calls serve() when links may have to be opened,
 * and while some are being opened at each event of *fd: an epoll, which other comms may have, too.
 * Nobody needs to take its events.
 */
struct rd_control_links {
	void *owner;
	enum rd_links_state {
		RD_LINKS_IDLE, /* none is being opened */
		RD_LINKS_WAIT, /* some are */
		RD_LINKS_BUSY, /* a call of this rank has the links, and opens them itself */
	} (*serve)(void *owner, int *fd);
};

struct rd_control_config {
	const struct rd_settings *settings; /* rank, size, address, port, rendezvous_fd, timeouts */
	const struct rd_identity *self; /* copied */
	struct rd_activity *activity; /* outlives the control connection */
	_Atomic int *failed; /* set to the verdict's error; outlives the control connection */
	int wake_fd; /* eventfd, written after *failed is set */
	struct rd_listener *listener; /* the rank's; NULL: one of its own */
	struct rd_control *parent; /* of the comm that this one is made from; NULL: none */
	const struct rd_lineage *lineage; /* of the comm that has shrunk to this one; NULL: none */
	/* The id of this comm, a group of the parent's ranks: settings have the place of the first
	   one. 0: the coordinator draws an id. */
	uint64_t group;
	/* The limits of this rank's links, where it opens none before it can call:
	   rd_control_create() waits until all ranks can. NULL: rd_control_ready() is due. */
	const struct rd_link_limits *limits;
	struct rd_control_links links; /* serve NULL: none are opened for others */
};

/*
 * Starts the thread and joins. Rank 0 listens on settings->rendezvous_fd, or at address:port. All
 * others connect, and retry a refused connection until init_timeout_ms is over. Returns when all
 * members are known, or an error that names the rank and the reason:
 *
 *   "rank 3: no one listens at 10.0.0.1:29500 (Connection refused, tried for 30 s)"
 *   "rank 2 of 4 has not come to 10.0.0.1:29500 within 30 s"
 *   "rank 2 (host a, pid 17) was started with WORLD_SIZE 3, rank 0 (host b, pid 18) with 4"
 *
 * On an error *control is NULL, nothing is left behind, and the other ranks receive the reason, as
 * by rd_control_decline(). Takes over settings->rendezvous_fd.
 */
int rd_control_create(struct rd_control **control, const struct rd_control_config *config);

/*
 * For a rank that failed before it could create a control connection: sends the reason to the
 * others, so that they do not wait. Returns within some two seconds, whether they received it or
 * not. Takes over config->settings->rendezvous_fd; of the rest it needs parent and group alone.
 */
void rd_control_decline(const struct rd_control_config *config, int error, const char *reason);

/* The creation is over. Until this call a verdict of config->parent ends this comm, too, so that no
   rank waits here for one that has died there. Afterwards the parent may be freed. The same goes
   for this thread's cancellation, whose verdict is RONDO_REVOKED. */
void rd_control_detach(struct rd_control *control);

/* The members, [size], once create has returned; owned by the control connection. */
const struct rd_member *rd_control_members(const struct rd_control *control);
/* The cards of each; the same. */
const struct rd_cards *rd_control_cards(const struct rd_control *control);
/* The lineage of this comm, where the ranks meet after a failure. Once create has returned. */
const struct rd_lineage *rd_control_lineage(const struct rd_control *control);
/* Another comm of the lineage has its place now: this one cannot shrink. */
void rd_control_end_lineage(struct rd_control *control);
/* A random number of the coordinator: the same on all ranks of this comm, and on no other comm. */
const struct rd_comm_id *rd_control_comm_id(const struct rd_control *control);
/* The local address of the control connection. */
const struct sockaddr_storage *rd_control_local(const struct rd_control *control);

/*
 * A link of this rank failed to open. The coordinator sends a fallback to both ends. RONDO_MEMORY,
 * or 0.
 */
int rd_control_link_failed(struct rd_control *control, const struct rd_link_failure *link_failure);
/*
 * The fallbacks of this rank's links are numbered from 0, in the coordinator's order. True:
 * *fallback is the one of this number; false: it has not come. Each writes wake_fd when it comes.
 */
bool rd_control_fallback(struct rd_control *control, int number, struct rd_link_failure *fallback);

/*
 * After rd_control_ready(), once: rank 0 tells all others the costs of messages, a text of at most
 * RD_COSTS_SIZE bytes. Each other rank waits for them: text[RD_COSTS_SIZE + 1] gets them as a
 * string. Returns 0, RONDO_MEMORY, or the verdict.
 */
int rd_control_tell_costs(struct rd_control *control, const char *text);
int rd_control_await_costs(struct rd_control *control, char *text);

/* After rd_control_ready(): this rank opens links to these, each once; with RD_OPEN_TAGGED once
   more. They learn of it. RONDO_MEMORY, or 0. */
int rd_control_open(struct rd_control *control, const int *peers, int count);
/* The ranks that open links to this one are numbered from 0, as fallbacks are. */
bool rd_control_opened(struct rd_control *control, int number, int *peer);
/* Whether rank 0's process has ended, and so no rank learns any more what this one opens. */
bool rd_control_is_unattended(const struct rd_control *control);
/* Whether all ranks but this one have left. All that they opened to this one has come by then.
   Writes wake_fd once it is. */
bool rd_control_others_left(const struct rd_control *control);
/* A call of this rank no longer has the links: the control thread opens them. */
void rd_control_serve_links(struct rd_control *control);

/*
 * The first links of this rank are open, after this number of fallbacks; the limits are of all that
 * it may open. Waits for the others. Returns 0 when all ranks have come this far, with the least
 * limits of all in *limits; 1 when another fallback has come, and links have to be opened again; or
 * the verdict.
 */
int rd_control_ready(struct rd_control *control, int fallbacks, struct rd_link_limits *limits);

/*
 * Reports a failure of this rank, waits for the verdict (about a second at most), and returns it
 * with its reason recorded in this thread. culprit: the rank at fault, or -1. error:
 *
 *   RONDO_BROKEN    the link to culprit failed
 *   RONDO_MEMORY, RONDO_SYSTEM   this rank lacks something; its number is put before the reason
 *   RONDO_TIMEOUT   silence, while this rank waited for culprit
 *   RONDO_MISMATCH, RONDO_PROTOCOL, RONDO_REVOKED, ...   see the reason
 *
 * Where no verdict comes (the coordinator is gone), the reported error and reason stand.
 */
int rd_control_report(struct rd_control *control, int error, int culprit, const char *reason);

/* Where this rank stores how many calls it has finished, as in its activity: from there others of
   its host read it once it has died. Valid as long as the control connection, once create has
   returned; NULL: nobody reads it. */
_Atomic uint32_t *rd_control_done(struct rd_control *control);

/* Reports a failure, and returns at once. */
void rd_control_report_soon(struct rd_control *control, int error, int culprit, const char *reason);

/*
 * A call of this rank has waited for RD_SLOW_MS or more, and continues. The coordinator queries all
 * ranks. Ranks that wait for each other for heartbeat_timeout_ms are a verdict. Else rank 0 logs
 * which ranks hold the call up. line_ms: for how long the call has waited; 0: no line is due.
 * Returns at once.
 */
void rd_control_slow(struct rd_control *control, int64_t line_ms, int culprit, const char *reason);

/* Whether a rank has died, as this rank has learnt by now; or was lost: it may live on where no
   message comes through, or be stopped. Cut off by a reset, it may be reached again at once. Late:
   it lives, and held up the call whose timeout is the verdict. */
enum rd_presence { RD_PRESENT, RD_LATE, RD_CUT_OFF, RD_LOST, RD_DEAD };

static inline bool rd_has_failed(enum rd_presence presence)
{
	return presence > RD_LATE;
}

/* Any thread. Death is final. */
enum rd_presence rd_control_presence(const struct rd_control *control, int rank);
void rd_control_set_presence(struct rd_control *control, int rank, enum rd_presence state);

/* The verdict so far: 0, or its error, with the reason recorded in this thread. */
int rd_control_verdict(struct rd_control *control);

/*
 * Leaves, and frees. Sends the number of collective calls and a digest of them: equal numbers with
 * unequal digests are RONDO_MISMATCH. Leaving is no failure, unless another rank has begun a call
 * that the leaver never made: "rank 1 left after call #16; rank 0 is in all_reduce #17".
 *
 * Rank 0's coordinator continues by itself, in the thread, until all ranks have left or this
 * process ends. It tells the others that rank 0 leaves, so that the end of its process is no death.
 * Then they finish their last call without it, and judge its failure themselves. Returns once rank
 * 0 knows, or all do, in 100 ms at most; later, in heartbeat_timeout_ms at most, where the kernel
 * takes the goodbye no sooner. Returns 0, or the verdict so far.
 */
int rd_control_leave(struct rd_control *control);

/* The same, but rank 0 stays until all have left or died, timeout_ms at most. */
int rd_control_finalize(struct rd_control *control);

/* This process ends: leaves all comms in which it has no call under way, with the same bounds. The
   program may go on to use their memory, not their control connections. */
void rd_control_leave_all(void);

/*
 * Frees without leaving, after a verdict: other ranks see this one die. Rank 0 stays, a second at
 * most, until all have received the verdict and closed their connections.
 */
void rd_control_destroy(struct rd_control *control);

#endif
