/*
 * The transport contract: everything that the writer of a transport needs. A transport of Rondo's
 * own is a line in transports/transports.c. One in a shared object ends in RONDO_PLUGIN_TRANSPORTS
 * (below), and RONDO_TRANSPORT_PLUGIN names it. docs/writing-a-transport.md describes how, with an
 * example.
 *
 * A transport makes links. A link moves messages to and from one peer, in order, in both
 * directions. Links are independent of collectives. Nothing here blocks: each call does the work
 * that is possible now, and returns.
 *
 * Life of an endpoint (one rank's presence on one transport, in one comm):
 *   listen()          makes it, and the card that peers need to reach it
 *   open()            makes one link per peer and channel, when a call of either rank needs it;
 *                     both sides call it, one maybe much later; it returns at once
 *   advance()         until every link is ready; later: pushes queued bytes, detects deaths
 *   attach()          announces memory that the program has registered; detach() ends that
 *   arm() / disarm()  before and after a sleep of the driver
 *   close()           frees the endpoint and every link it made
 *
 * A link holds at least two messages in each direction: one at the sender, and one at the peer. The
 * peer takes its one in during advance(), even if no recv() requests it. Plans rely on both. A rank
 * that forwards a message holds it until it has room for the next. One that exchanges data in place
 * waits until its message has left its memory before it receives.
 *
 * Units: sizes are bytes.
 *
 * Threading: one thread at a time uses an endpoint and its links: the program's, or while that
 * makes no call one of Rondo's. Beside it, another may call attach() or detach().
 *
 * Errors: a link that fails sets link->error (a negative rondo_error) and stays failed.
 * link->reason has the reason ("closed its connection", "reset by peer"); the caller puts the rank
 * before it. The link's functions then return NULL, false or 0.
 */
#ifndef RONDO_TRANSPORT_H
#define RONDO_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../rondo.h"
#include "place.h"

/* Version of this header, in the symbol rondo_transport_v3 as well. */
#define RD_TRANSPORT_ABI 3
#define RD_CARD_MAX 512
#define RD_TAG_SIZE 24

/* Travels with each message, unchanged: the layer above identifies the message by it. */
struct rd_tag {
	unsigned char bytes[RD_TAG_SIZE];
};

struct rd_message {
	const void *data; /* in place, or `into`; 8-byte aligned unless it is `into` */
	size_t size;
	const struct rd_tag *tag; /* both stay where they are until release() */
};

struct rd_link;

struct rd_link_ops {
	/*
	 * Returns room for one outgoing message of `size` bytes (at most message_max; may be 0), at
	 * least 8-byte aligned. The caller writes the payload there, then commits. NULL: no room
	 * now, or the link has failed. Without a commit, reserving again returns the same room.
	 */
	void *(*reserve)(struct rd_link *link, size_t size);
	/* Sends the reserved message. Never fails for want of room. */
	void (*commit)(struct rd_link *link, const struct rd_tag *tag, size_t size);
	/*
	 * Optional (NULL: not offered). Sends from the caller's memory, with no copy where
	 * possible. True: accepted. The memory must then stay unchanged until link->sent has
	 * reached the value of link->posted on return. False: no room now, or failed. `size` is at
	 * most message_max.
	 */
	bool (*send)(struct rd_link *link, const struct rd_tag *tag, const void *from, size_t size);

	/*
	 * Returns true if the next message has arrived whole, and *message describes it. Further
	 * calls return the same message until release().
	 *
	 * A transport may receive a message of exactly `size` bytes into `into` (may be NULL), and
	 * then sets message->data to `into`. The caller passes the same `into` and `size` until the
	 * message has arrived. Otherwise message->data points to where the message lies. With no
	 * `into`, `size` is the expected size, or 0: a hint of how much to read.
	 */
	bool (*recv)(struct rd_link *link, void *into, size_t size, struct rd_message *message);
	/* Ends the use of the message that recv() returned: its room goes back to the sender. */
	void (*release)(struct rd_link *link);
};

struct rd_link {
	const struct rd_link_ops *ops;
	const struct rd_transport *transport;
	int peer; /* rank at the other end */
	int channel;
	bool ready; /* open() has finished: both directions work */
	/*
	 * Set by the time the link is ready: the network port (rail) of this host that carries it,
	 * numbered from 0 in the transport's order. Links on different rails add up their
	 * bandwidth; links on one rail share it. 0 where one port carries all, or none does.
	 */
	int rail;
	size_t message_max; /* bytes per message: as many as the endpoint's, or more */
	size_t send_min; /* below this many bytes, reserve() and a copy cost less than send() */
	bool single_copy; /* the peer reads send()'s memory itself, then `sent` advances */
	bool shares_room; /* the peer reads reserve()'s room itself: it is in both's memory */
	bool more; /* in send() alone, by its caller: another follows at once, and this may wait */
	uint64_t posted; /* count of messages that send() has accepted */
	uint64_t sent; /* of those, how many no longer need the caller's memory; in order */
	bool unsent; /* some accepted message needs advance() to move on */
	int error;
	char reason[160];
};

struct rd_endpoint {
	const struct rd_transport *transport;
	/*
	 * Maximum bytes per message, on each link, at least 64. listen() sets it. All ranks cut
	 * messages by the least of any endpoint.
	 */
	size_t message_max;
	/* The transport's own data follows. */
};

/* A region of this process: memory that the program has registered, or that Rondo allocated. */
struct rd_registration {
	uint64_t id; /* not 0; no other region of this process has it, or has had it */
	void *base; /* neither end need be aligned */
	size_t size; /* not 0 */
	/*
	 * Device memory: a dma-buf that holds it from dmabuf_offset (bytes) on. The caller closes
	 * the descriptor when attach() has returned. The processor cannot access `base`. -1: host
	 * memory.
	 */
	int dmabuf_fd;
	size_t dmabuf_offset;
};

struct rd_settings; /* a plug-in reads it with rd_number() and rd_text() */
struct rd_shared; /* of Rondo's own transports (transports/shared.h) */

#define RD_COMM_KEY_SIZE 16

/* A rank's description of itself for a transport. Lives as long as the endpoint. */
struct rd_local {
	int rank, size;
	struct rd_place place;
	const struct rd_settings *settings;
	/* The same on every rank of this comm, and on no other. 0 in listen(); set before any
	   other call. */
	uint64_t comm_id;
	int epoll_fd; /* add descriptors that wake a sleeper, with EPOLLET (data.u64 = 0) */
	/* Random, and known to the ranks of this comm alone; set when comm_id is. */
	unsigned char key[RD_COMM_KEY_SIZE];
	struct rd_shared *shared; /* with other comms of this rank; NULL: with none */
};

struct rd_transport {
	unsigned abi; /* RD_TRANSPORT_ABI */
	const char *name; /* at most 15 characters: small letters, digits and _ */

	/*
	 * Returns 0 where the hardware is present, else an error whose reason names the missing
	 * part. NULL: always present. A plug-in's probe runs first in a forked process. It may
	 * crash or hang there, and Rondo reports that.
	 */
	int (*probe)(const struct rd_settings *settings);
	/* Approximate cost of a byte from here to there, in picoseconds; negative: unreachable. */
	int (*reach)(const struct rd_place *here, const struct rd_place *there);

	/*
	 * Creates this rank's endpoint, and writes its card: *card_size bytes, at most RD_CARD_MAX.
	 * `local` outlives the endpoint. After an error there is no endpoint.
	 */
	int (*listen)(struct rd_endpoint **endpoint, const struct rd_local *local,
		unsigned char card[RD_CARD_MAX], size_t *card_size);
	/*
	 * Opens a link to `peer`, from its card (checked: it came over a wire). Returns at once;
	 * advance() later sets link->ready or link->error. The endpoint owns the link.
	 * The transport drops a connection from another comm or an unexpected rank.
	 */
	int (*open)(struct rd_endpoint *endpoint, int peer, int channel, const unsigned char *card,
		size_t card_size, struct rd_link **link);
	/*
	 * Optional. Returns over how many rails links to the rank with this card spread: at least
	 * 1. NULL: one.
	 */
	int (*rails)(struct rd_endpoint *endpoint, const unsigned char *card, size_t card_size);
	/*
	 * Moves work that needs no call: handshakes, queued output, detection of deaths. Returns
	 * true if a link moved or failed; a waiting call counts that as a sign of life. A
	 * connecting process that is no peer does not count.
	 */
	bool (*advance)(struct rd_endpoint *endpoint);

	/*
	 * Optional. After arm(), peers wake this rank when they send or release. The caller checks
	 * its links once more after arming, then sleeps in epoll_wait(); then disarm().
	 */
	void (*arm)(struct rd_endpoint *endpoint);
	void (*disarm)(struct rd_endpoint *endpoint);

	/*
	 * Optional. Returns memory of the link to the system, where no message sent from here lies
	 * in it: a later one costs page faults. No message is reserved.
	 */
	void (*trim)(struct rd_link *link);

	/*
	 * Optional, all three or none: direct access to peers' memory. offer() announces a region
	 * of this process to every peer linked here (fd: its memory). Where links have opened
	 * since, the region is offered again, and peers that have it keep it where it is.
	 * withdraw() ends the offer, and peers unmap it in time.
	 *
	 * map() returns the address here of a region that the link's peer has offered. NULL: the
	 * offer has not arrived (yet), or the region cannot be mapped. An offer made before a
	 * message was committed has arrived at the rank that received that message.
	 */
	bool (*offer)(struct rd_endpoint *endpoint, uint64_t id, int fd, size_t size);
	void (*withdraw)(struct rd_endpoint *endpoint, uint64_t id);
	void *(*map)(struct rd_link *link, uint64_t id, size_t *size);

	/*
	 * Optional, both or neither: registered memory, from and into which links may move messages
	 * with no copy (RDMA). attach() adds a region to an endpoint that has a ready link: each
	 * region that exists by then, and each that the program registers later. No two overlap.
	 * detach() removes one; then this endpoint pins none of its pages. close() removes all.
	 *
	 * send() and recv() take any host memory: it may lie in a region wholly, in part, or not at
	 * all. If attach() fails, Rondo logs the reason, and messages of that region are copied.
	 *
	 * Any thread of the process calls these two, one at a time, while another uses the
	 * endpoint. No message from or into the region is under way then, except on links that have
	 * failed. So send() needs no lock to find a region: an endpoint can keep its own table of
	 * them, and renew it when an atomic version has changed.
	 */
	int (*attach)(struct rd_endpoint *endpoint, const struct rd_registration *registration);
	void (*detach)(struct rd_endpoint *endpoint, uint64_t id);

	/*
	 * Optional. A call has failed, and all links have an error: the callers' memory is theirs
	 * again. After halt() neither this endpoint nor a peer accesses memory that send() or
	 * recv() was given. Only detach() and close() follow. NULL: the transport accesses such
	 * memory within calls of these functions alone.
	 */
	void (*halt)(struct rd_endpoint *endpoint);
	/*
	 * Frees the endpoint and its links. Messages already committed or sent still reach a peer
	 * that reads. Only after the last of them does that peer get link->error RONDO_BROKEN
	 * ("closed its connection").
	 */
	void (*close)(struct rd_endpoint *endpoint);
	/*
	 * Optional. Frees the endpoint and its links in a forked child, whose parent goes on using
	 * them. Closes this process's descriptors, and does nothing else. Sockets, epolls and
	 * shared memory are the parent's too: it sends nothing, shuts nothing down, writes nothing,
	 * and removes nothing from an epoll. Not called where the comm was in a call at the fork.
	 * NULL: descriptors stay open until the child ends.
	 */
	void (*abandon)(struct rd_endpoint *endpoint);
	/* For transports of Rondo: it wakes sleepers by local->shared where that is set, and adds
	   nothing to local->epoll_fd, which may then be -1. */
	bool shares;
	/* With that: it adds its links to local->epoll_fd, which is there from open() on. */
	bool watches_links;
};

/* ---- Plug-ins ------------------------------------------------------------------------------- */

/* Functions of Rondo that a plug-in may call. It finds no others, not those of rondo.h either. */
struct rd_transport_calls {
	/* Records a failure's reason (printf style, one line) for this thread; returns `error`. */
	int (*fail)(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
	/* As fail() with RONDO_SYSTEM; appends ": " and the text of errno. */
	int (*fail_errno)(const char *format, ...) __attribute__((format(printf, 1, 2)));
	/*
	 * Write a line to the log: warn() at WARN; info() at INFO, if RONDO_DEBUG_SUBSYS has NET.
	 */
	void (*warn)(const char *format, ...) __attribute__((format(printf, 1, 2)));
	void (*info)(const char *format, ...) __attribute__((format(printf, 1, 2)));
	bool (*same_host)(const struct rd_place *a, const struct rd_place *b);
	/*
	 * A setting by its variable (docs/environment.md): "RONDO_PIECE", "RONDO_INTERFACE". -1, or
	 * NULL, for an unknown variable or one of the other kind.
	 */
	int64_t (*number)(const struct rd_settings *settings, const char *variable);
	const char *(*text)(const struct rd_settings *settings, const char *variable);
};

/* A plug-in exports this, under the name rondo_transport_v3. */
struct rd_transport_plugin {
	unsigned abi; /* RD_TRANSPORT_ABI */
	uint64_t layout; /* RD_TRANSPORT_LAYOUT */
	const struct rd_transport *const *transports; /* NULL at the end */
	const struct rd_transport_calls **calls; /* set before Rondo calls the plug-in */
};

/* Differs where two headers of one version differ in the data that both sides share. */
#define RD_TRANSPORT_LAYOUT \
	((uint64_t)sizeof(struct rd_transport) | (uint64_t)sizeof(struct rd_local) << 16 | \
		(uint64_t)sizeof(struct rd_link) << 32 | \
		(uint64_t)sizeof(struct rd_transport_calls) << 48)

#ifndef RD_INSIDE /* Rondo itself defines it: its own transports call these by name */
extern const struct rd_transport_calls *rd_transport_calls __attribute__((visibility("hidden")));
extern const struct rd_transport_plugin rondo_transport_v3 __attribute__((visibility("default")));

#define rd_fail (rd_transport_calls->fail)
#define rd_fail_errno (rd_transport_calls->fail_errno)
#define rd_warn (rd_transport_calls->warn)
#define rd_info (rd_transport_calls->info)
#define rd_place_same_host (rd_transport_calls->same_host)
#define rd_number (rd_transport_calls->number)
#define rd_text (rd_transport_calls->text)

/* Once in a plug-in, at the end of one file: RONDO_PLUGIN_TRANSPORTS(&mine). */
#define RONDO_PLUGIN_TRANSPORTS(...) \
	const struct rd_transport_calls *rd_transport_calls; \
	static const struct rd_transport *const rd_plugin_transports[] = { __VA_ARGS__, NULL }; \
	const struct rd_transport_plugin rondo_transport_v3 = { \
		.abi = RD_TRANSPORT_ABI, \
		.layout = RD_TRANSPORT_LAYOUT, \
		.transports = rd_plugin_transports, \
		.calls = &rd_transport_calls, \
	}
#endif

#endif
