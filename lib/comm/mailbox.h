/*
 * The mailbox of a comm: a second set of endpoints, whose links carry tagged messages (messages.h)
 * beside the calls of the comm, which have the first set. It exists once this rank or a peer has
 * needed it. Its links are opened on demand, over shm and tcp alone: their stations are the job's,
 * so the cards that the ranks exchanged at init serve here too.
 *
 * The rank that needs a link opens its end and, by the coordinator, tells the peer. There the
 * control thread opens the other end, whatever the program does.
 *
 * Any thread may use it, with the lock. A thread that moves data keeps the lock for long, and gives
 * it up to those that wait for it.
 */
#ifndef RD_MAILBOX_H
#define RD_MAILBOX_H

#include "comm/comm.h"

struct rd_tagged;
struct rd_tagged_driver;

/* Messages in the order of their start, or of their acceptance. All 0: none. */
struct rd_tagged_list {
	struct rd_tagged *first, *last;
};

/* A peer's link, and the messages on it. */
struct rd_mailbox_peer {
	struct rd_link *link; /* NULL: not open */
	int endpoint; /* its number, of the link's */
	unsigned barred; /* endpoints (bits) that have failed this pair */
	bool listed; /* its opening has begun */
	bool asked; /* the peer has been told */
	bool reported; /* it has failed, and the coordinator is to send a fallback, or a verdict */
	bool failed; /* before it was ready, by the end of the peer */
	int64_t until_ms; /* for which the link may open without rank 0; 0: not set */
	int64_t left_ms; /* when this rank learnt that the peer has left; 0: it has not */

	/* Those of messages.c. Sends: not announced yet, offered, accepted, in the link whole. */
	struct rd_tagged_list fresh, offered, accepted, sent;
	/* Receives: whose acceptance is not in the link yet, whose data come. */
	struct rd_tagged_list accepting, filling;
	uint64_t offers; /* made so far */
	size_t eager; /* bytes sent without an offer that the peer has not taken, as it reports */
	size_t taken; /* of such bytes of the peer, taken here and not reported */
	bool ended; /* the link moves nothing more */
};

/* A message that has come, or is announced. */
struct rd_unexpected {
	struct rd_unexpected *next;
	int source, tag;
	size_t size;
	uint64_t offer;
	const char *data; /* NULL: it follows an acceptance */
	struct rd_tagged *own; /* a send of this rank to itself; NULL: another rank's */
	char kept[];
};

struct rd_mailbox {
	struct rondo_comm *comm;
	pthread_mutex_t lock;
	_Atomic int entering; /* threads that wait for the lock */
	/* Under the lock: */
	struct rd_settings settings; /* of its endpoints: one channel */
	struct rd_local local;
	struct rd_endpoint *endpoints[RD_TRANSPORTS_MAX]; /* as comm->endpoints; NULL: not made */
	struct rd_mailbox_peer *peers; /* [size] */
	int *linked; /* [linked_count]: peers that are listed */
	int linked_count;
	int fallbacks, opened; /* of the control connection's, taken so far */
	bool unready; /* a link is not ready */
	bool sleeps; /* a thread sleeps, with the links armed */

	/* Those of messages.c and matching.c: */
	struct rd_tagged_list posted; /* receives that have matched nothing */
	struct rd_unexpected *unexpected, *last_unexpected; /* that nobody receives yet */
	struct rd_tagged_list ended; /* for the owner, to be taken */
	int pending; /* messages under way */
	int last_ended; /* the peer whose link ended last; -1: none */
	bool deserted; /* all other ranks have left, and their links are listed */
	int64_t alone_until_ms; /* for which receives may lack a sender, without rank 0; 0: none */
	bool unsent; /* a link has accepted bytes that its advance() must push */
	bool over; /* a failure was reported: nothing moves any more */
	char reason[RD_REASON_SIZE]; /* of the failure */

	struct rd_tagged_driver *driver; /* (api/tagged_driver.h); NULL: no message was prepared */
};

/* The comm's mailbox, which is made if there is none. NULL: no memory, with the reason. */
struct rd_mailbox *rd_mailbox_get(struct rondo_comm *comm);

void rd_mailbox_enter(struct rd_mailbox *mailbox);
void rd_mailbox_exit(struct rd_mailbox *mailbox);

/* Whether a transport that tagged messages may use reaches the peer. */
bool rd_mailbox_reaches(struct rd_mailbox *mailbox, int peer);

/* Under the lock: */

/* Whether a thread waits for the lock. */
static inline bool rd_mailbox_is_awaited(const struct rd_mailbox *mailbox)
{
	return atomic_load_explicit(&mailbox->entering, memory_order_relaxed) > 0;
}
/* Opens this end of the link to a peer, if it is not open, and has the peer told, once. */
int rd_mailbox_open(struct rd_mailbox *mailbox, int peer);
/* Lets handshakes and queued bytes go on. True: something moved. */
bool rd_mailbox_advance(struct rd_mailbox *mailbox);
/* Whether the link can move nothing more; *reason says why. */
bool rd_mailbox_is_broken(struct rd_mailbox *mailbox, int peer, const char **reason);
void rd_mailbox_arm(struct rd_mailbox *mailbox);
void rd_mailbox_disarm(struct rd_mailbox *mailbox);

/* Without the lock: */

/* Wakes the thread that sleeps on the mailbox. */
void rd_mailbox_wake(const struct rd_mailbox *mailbox);

/* In the control thread: opens links that peers need, also while a call has the comm's links. For
   struct rd_control_links. */
enum rd_links_state rd_mailbox_serve(struct rondo_comm *comm, int *fd);

/* Closes the links, and frees the mailbox, which has no message. */
void rd_mailbox_close(struct rondo_comm *comm);
/* The same in a forked child. */
void rd_mailbox_abandon(struct rondo_comm *comm);

#endif
