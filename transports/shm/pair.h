/*
 * A pair: the connection of this rank to one peer, the memory that both map, and the links in it.
 * The peer's notices (offered memory, goodbye) and its death arrive over the connection. shm.c
 * describes the handshake. One thread at a time uses an endpoint with its pairs.
 */
#ifndef RD_SHM_PAIR_H
#define RD_SHM_PAIR_H

#include "rondo/transport.h"
#include "transports/event_source.h"
#include "transports/shm/card.h"
#include "transports/shm/fifo.h"
#include "transports/shm/region.h"

struct rd_shm_pair;

/* An endpoint, as its pairs see it. shm.c creates it. */
struct rd_shm_endpoint {
	struct rd_endpoint base;
	const struct rd_local *local;
	struct rd_shm_card card;
	int wake_fd; /* eventfd, by which peers wake this rank: the job's, where it shares one */
	bool barriers; /* membarrier(2) works, and includes this process */
	int epoll_fd; /* epoll of listener, backlog, pairs. Its own readiness wakes the rank */
	bool armed;
	unsigned posting; /* number of links with posts that are not done */
	bool poll_due; /* the epoll must be polled */
	int unready; /* pairs between creation and RD_SHM_PAIR_OPEN */
	struct rd_shm_pair *pairs;
};

enum rd_shm_pair_state {
	RD_SHM_PAIR_AWAITED, /* the peer connects */
	RD_SHM_PAIR_CONNECTING, /* this rank connects: again, while the peer's backlog is full */
	RD_SHM_PAIR_GREETED, /* greeting sent, answer due */
	RD_SHM_PAIR_OPEN,
	RD_SHM_PAIR_ENDED,
};

struct rd_shm_pair {
	struct rd_event_source source;
	int fd; /* the connection; -1: none */
	struct rd_shm_pair *next;
	struct rd_shm_endpoint *endpoint;
	enum rd_shm_pair_state state;
	int peer;
	struct rd_shm_card card;
	int memory_fd; /* -1 once the peer has mapped it */
	struct rd_shm_peer common; /* for its links */
	bool refused;
	void *memory;
	size_t memory_size; /* bytes */
	uint32_t slots;
	bool reset;
	struct rd_shm_region *regions; /* the peer's, mapped here */
	struct rd_shm_link *links[]; /* [channels]; NULL: not opened */
};

/*
 * Creates the pair with `peer`, from its card, and adds it to the endpoint's. The higher rank also
 * makes the memory and a socket: RONDO_MEMORY, RONDO_SYSTEM.
 */
int rd_shm_pair_create(struct rd_shm_endpoint *endpoint, int peer, const struct rd_shm_card *card,
	struct rd_shm_pair **result);

/* Returns the endpoint's pair with `peer`; NULL: none. */
struct rd_shm_pair *rd_shm_pair_find(struct rd_shm_endpoint *endpoint, int peer);

/* Creates the link of a channel, which must have none, and starts or fails it if the pair is open
   or has ended. The pair owns it. */
int rd_shm_pair_add_link(struct rd_shm_pair *pair, int channel);

/* The higher rank, in RD_SHM_PAIR_CONNECTING: connects and greets. */
void rd_shm_pair_connect(struct rd_shm_pair *pair);

/*
 * The lower rank, in RD_SHM_PAIR_AWAITED: the peer has connected. Takes ownership of the connection
 * and of fds: the memory and the peer's eventfd.
 */
void rd_shm_pair_adopt(struct rd_shm_pair *pair, int fd, pid_t pid,
	const struct rd_shm_greeting *greeting, const int fds[2]);

/* No peer can be accepted, for this errno: pairs in RD_SHM_PAIR_AWAITED fail. */
void rd_shm_pairs_fail_awaited(struct rd_shm_endpoint *endpoint, int number);

/* Handles one packet of the connection, or its end. Returns whether there was one. */
bool rd_shm_pair_handle(void *pair);

/* Sends a goodbye, and frees the pair with its links. The caller removes it from the list first. */
void rd_shm_pair_destroy(struct rd_shm_pair *pair);
/* In a forked child: closes descriptors, unmaps and frees, and sends nothing. */
void rd_shm_pair_abandon(struct rd_shm_pair *pair);

#endif
