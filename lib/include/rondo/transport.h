/*
 * The transport contract: all that a writer of a transport needs to know. A transport of Rondo's own is
 * a line in transports/transports.c; one in a shared object ends in RONDO_PLUGIN_TRANSPORTS (below) and
 * is named in RONDO_TRANSPORT_PLUGIN. docs/writing-a-transport.md says how, with an example.
 *
 * A transport makes links; a link moves messages to and from one peer, in order, in both directions.
 * Links know nothing of collectives. Nothing here blocks: each call does what it can and returns.
 *
 * Life of an endpoint (one rank's presence on one transport, in one comm):
 *   listen()          make it, and the card that peers need to reach it
 *   open()            one link a peer and channel; both sides call it; it returns at once
 *   advance()         until every link is ready; later: pushes queued bytes, notices deaths
 *   arm() / disarm()  around a sleep of the driver
 *   close()           frees the endpoint and every link it made
 *
 * A link holds at least two messages in each direction: one at the sender, and one at the peer, who
 * takes it in during advance() also when nobody asks for it by recv(). Plans rely on both: a rank
 * that passes a message on holds it until it has room for the next, and one that exchanges data in
 * place waits until its message has left its memory before it receives.
 *
 * Units: sizes are bytes. Threading: an endpoint and its links are used by one thread at a time.
 * Errors: a link that fails sets link->error (a negative rondo_error), has the reason in
 * link->reason ("closed its connection", "reset by peer": the caller puts the rank before it), and
 * stays failed; its functions then return NULL, false or 0.
 */
#ifndef RONDO_TRANSPORT_H
#define RONDO_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../rondo.h"
#include "place.h"

/* The version of this header, in the symbol rondo_transport_v1 as well. */
#define RD_TRANSPORT_ABI 1
#define RD_CARD_MAX 512
#define RD_TAG_SIZE 24

/* Travels with each message, untouched: the layer above says in it what the message is. */
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
	 * Room for one outgoing message of `size` bytes (at most message_max; may be 0), at least
	 * 8-byte aligned: the caller writes the payload there, then commits. NULL: no room now, or the
	 * link has failed. Without a commit, reserving again gives the same room.
	 */
	void *(*reserve)(struct rd_link *link, size_t size);
	/* Sends what was reserved. Never fails for want of room. */
	void (*commit)(struct rd_link *link, const struct rd_tag *tag, size_t size);
	/*
	 * Optional (NULL: not offered). Sends from the caller's memory, with no copy where possible.
	 * True: accepted; the memory must stay as it is until link->sent has reached the value that
	 * link->posted has on return. False: no room now, or failed. size is at most message_max.
	 */
	bool (*send)(struct rd_link *link, const struct rd_tag *tag, const void *from, size_t size);

	/*
	 * The next message, if it has arrived whole: true, and *message describes it; the same one
	 * again until release(). A transport that can lands a message of exactly `size` bytes in
	 * `into` (may be NULL) and says so with message->data == into; the caller passes the same
	 * `into` and `size` until the message has come. Otherwise it shows the message where it lies.
	 * With no `into`, `size` is what the caller expects, or 0: a hint of how much to read.
	 */
	bool (*recv)(struct rd_link *link, void *into, size_t size, struct rd_message *message);
	/* Done with the message that recv() showed: its room goes back to the sender. */
	void (*release)(struct rd_link *link);
};

struct rd_link {
	const struct rd_link_ops *ops;
	const struct rd_transport *transport;
	int peer;            /* rank at the other end */
	int channel;
	bool ready;          /* open() has finished: both directions work */
	/* Most bytes in one message, 64 or more. All ranks cut what they send by the least of any link. */
	size_t message_max;
	size_t send_min;     /* of fewer bytes than this, reserve() and a copy cost less than send() */
	bool single_copy;          /* what send() accepts is lent to the peer, and back when it has been read */
	uint64_t posted;     /* messages ever accepted by send() */
	uint64_t sent;       /* of those, how many no longer need the caller's memory; in order */
	bool unsent;         /* messages were accepted that only advance() will move on */
	int error;
	char reason[160];
};

struct rd_endpoint {
	const struct rd_transport *transport;
	/* Beyond this, what the transport needs. */
};

struct rd_settings; /* for a plug-in: asked with rd_number() and rd_text() */

/* What a rank tells a transport about itself. Lives as long as the endpoint. */
struct rd_local {
	int rank, size;
	struct rd_place place;
	const struct rd_settings *settings;
	uint64_t comm_id; /* the same on every rank of this comm, and on no other comm; 0 until open() */
	int epoll_fd;     /* add what should wake a sleeping rank, with EPOLLET (data.u64 = 0) */
};

struct rd_transport {
	unsigned abi; /* RD_TRANSPORT_ABI */
	const char *name; /* at most 15 characters: small letters, digits and _ */

	/* Is the hardware here at all? 0, or an error whose reason says what is missing. NULL: always. A
	   plug-in's is first called in a forked process, which may crash or hang and be told of. */
	int (*probe)(const struct rd_settings *settings);
	/* What a byte costs from here to there, in picoseconds, roughly; negative: no way there. */
	int (*reach)(const struct rd_place *here, const struct rd_place *there);

	int (*listen)(struct rd_endpoint **endpoint, const struct rd_local *local,
		unsigned char card[RD_CARD_MAX], size_t *card_size);
	/*
	 * A link to `peer`, from its card (checked: it came over a wire). Returns at once; link->ready
	 * turns true, or link->error is set, during advance(). The endpoint owns the link. local->comm_id
	 * is set by now; a connection from another comm or an unexpected rank is dropped.
	 */
	int (*open)(struct rd_endpoint *endpoint, int peer, int channel, const unsigned char *card,
		size_t card_size, struct rd_link **link);
	/* Moves what can be moved without being asked: handshakes, queued output, news of deaths. True: a
	   link moved, or failed: a call that waits counts that as a sign of life. What connects and is no
	   peer does not count. */
	bool (*advance)(struct rd_endpoint *endpoint);

	/*
	 * Optional. arm(): from now on peers ring when they send or release. The caller looks at its
	 * links once more after arming, then sleeps in epoll_wait(); then disarm().
	 */
	void (*arm)(struct rd_endpoint *endpoint);
	void (*disarm)(struct rd_endpoint *endpoint);

	/*
	 * Optional, all three or none: direct access to peers' memory. offer() tells every peer linked
	 * here of a region of this process (fd: its memory); withdraw() takes it back, and peers let go of
	 * it in time. map() gives the address here of a region that the link's peer has offered; NULL: not
	 * (yet) known, or it cannot be mapped. An offer made before a message was committed is known to
	 * who has received that message.
	 */
	bool (*offer)(struct rd_endpoint *endpoint, uint64_t id, int fd, size_t size);
	void (*withdraw)(struct rd_endpoint *endpoint, uint64_t id);
	void *(*map)(struct rd_link *link, uint64_t id, size_t *size);

	/* Frees endpoint and links. Messages already committed or sent still reach a peer that reads;
	   it sees link->error RONDO_BROKEN ("closed its connection") only after the last of them. */
	void (*close)(struct rd_endpoint *endpoint);
	/*
	 * Optional. Frees endpoint and links in a forked child, whose parent goes on using them: closes
	 * this process's descriptors, and that is all. Sockets, epolls and shared memory are the parent's
	 * too: nothing is sent, shut down, taken out of an epoll or written. NULL: descriptors stay open
	 * until the child ends.
	 */
	void (*abandon)(struct rd_endpoint *endpoint);
};

/* ---- Plug-ins ------------------------------------------------------------------------------- */

/* What a plug-in may call of Rondo: it finds no other function of it, rondo.h's neither. */
struct rd_transport_calls {
	/* Records the reason of a failure (printf style, one line) for this thread; returns `error`. */
	int (*fail)(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
	/* The same, of RONDO_SYSTEM, with ": " and the text of errno behind it. */
	int (*fail_errno)(const char *format, ...) __attribute__((format(printf, 1, 2)));
	/* A line in the log, at WARN; at INFO, where RONDO_DEBUG_SUBSYS has NET. */
	void (*warn)(const char *format, ...) __attribute__((format(printf, 1, 2)));
	void (*info)(const char *format, ...) __attribute__((format(printf, 1, 2)));
	bool (*same_host)(const struct rd_place *a, const struct rd_place *b);
	/* A setting by its variable (docs/environment.md): "RONDO_PIECE", "RONDO_INTERFACE". -1, or NULL,
	   for a variable that is none, or is of the other kind. */
	int64_t (*number)(const struct rd_settings *settings, const char *variable);
	const char *(*text)(const struct rd_settings *settings, const char *variable);
};

/* What a plug-in exports, under the name rondo_transport_v1. */
struct rd_transport_plugin {
	unsigned abi; /* RD_TRANSPORT_ABI */
	uint64_t layout; /* RD_TRANSPORT_LAYOUT */
	const struct rd_transport *const *transports; /* NULL at the end */
	const struct rd_transport_calls **calls; /* set before anything of the plug-in is called */
};

/* Differs where two headers of one version differ in what both sides see. */
#define RD_TRANSPORT_LAYOUT \
	((uint64_t)sizeof(struct rd_transport) | (uint64_t)sizeof(struct rd_local) << 16 | \
		(uint64_t)sizeof(struct rd_link) << 32 | \
		(uint64_t)sizeof(struct rd_transport_calls) << 48)

#ifndef RD_INSIDE /* which Rondo itself defines: its own transports call these by name */
extern const struct rd_transport_calls *rd_transport_calls
	__attribute__((visibility("hidden")));
extern const struct rd_transport_plugin rondo_transport_v1
	__attribute__((visibility("default")));

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
	const struct rd_transport_plugin rondo_transport_v1 = { \
		.abi = RD_TRANSPORT_ABI, \
		.layout = RD_TRANSPORT_LAYOUT, \
		.transports = rd_plugin_transports, \
		.calls = &rd_transport_calls, \
	}
#endif

#endif
