/*
 * A pair: this rank and one peer in one comm, the memory that both map, and the links in it. The
 * peer's packets (its greeting, offered memory, its end) come over the connection to its station;
 * shm.c describes the handshake. One thread at a time uses an endpoint with its pairs, under the
 * station's lock where a function sends or takes packets.
 */
#ifndef RD_SHM_PAIR_H
#define RD_SHM_PAIR_H

#include "rondo/transport.h"
#include "transports/shm/connection.h"
#include "transports/shm/fifo.h"
#include "transports/shm/region.h"

struct rd_shm_pair;

/* An endpoint, as its pairs see it. shm.c creates it. */
struct rd_shm_endpoint {
	struct rd_endpoint base;
	const struct rd_local *local;
	struct rd_shm_station *station;
	_Atomic bool news; /* something may have come: the connections are read */
	bool armed;
	unsigned posting; /* number of links with posts that are not done */
	int unready; /* pairs between creation and RD_SHM_PAIR_OPEN */
	struct rd_shm_pair *pairs;
};

enum rd_shm_pair_state {
	RD_SHM_PAIR_AWAITED, /* the peer greets */
	RD_SHM_PAIR_MADE, /* this rank greets, once the connection is open */
	RD_SHM_PAIR_GREETED, /* greeting sent, answer due */
	RD_SHM_PAIR_OPEN,
	RD_SHM_PAIR_ENDED,
};

struct rd_shm_pair {
	struct rd_shm_pair *next;
	struct rd_shm_endpoint *endpoint;
	struct rd_shm_connection *connection;
	struct rd_shm_inbox inbox;
	enum rd_shm_pair_state state;
	int peer;
	int memory_fd; /* -1 once it has been sent, or mapped */
	struct rd_shm_peer common; /* for its links */
	bool refused;
	void *memory;
	size_t memory_size; /* bytes */
	uint32_t slots;
	struct rd_shm_region *regions; /* the peer's, mapped here */
	struct rd_shm_link *links[]; /* [channels]; NULL: not opened */
};

/*
 * Creates the pair with `peer` over a connection, and adds it to the endpoint's. The higher rank
 * also makes the memory: RONDO_MEMORY, RONDO_SYSTEM.
 */
int rd_shm_pair_create(struct rd_shm_endpoint *endpoint, int peer,
	struct rd_shm_connection *connection, struct rd_shm_pair **result);

/* Returns the endpoint's pair with `peer`; NULL: none. */
struct rd_shm_pair *rd_shm_pair_find(struct rd_shm_endpoint *endpoint, int peer);

/* Creates the link of a channel, which must have none, and starts or fails it if the pair is open
   or has ended. The pair owns it. */
int rd_shm_pair_add_link(struct rd_shm_pair *pair, int channel);

/* Greets if that is due; else handles one packet, or the end. Returns whether there was one. */
bool rd_shm_pair_handle(struct rd_shm_pair *pair);

/* Offers a region; false: not sent. Withdraws one. The pair is open. */
bool rd_shm_pair_offer(struct rd_shm_pair *pair, uint64_t id, int fd, size_t size);
void rd_shm_pair_withdraw(struct rd_shm_pair *pair, uint64_t id);

/* Sends a goodbye, and frees the pair with its links. The caller removes it from the list first. */
void rd_shm_pair_destroy(struct rd_shm_pair *pair);
/* In a forked child: closes descriptors, unmaps and frees, and sends nothing. */
void rd_shm_pair_abandon(struct rd_shm_pair *pair);

#endif
