/*
 * A connection of two stations: the endpoints of one rank and those of another, in all comms that
 * have both. Each packet goes to the inbox of its comm's pair. Any thread that uses one of the
 * endpoints reads the connection, under the station's lock, and the thread of each pair takes its
 * packets from the inbox.
 */
#ifndef RD_SHM_CONNECTION_H
#define RD_SHM_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "transports/event_source.h"
#include "transports/shm/card.h"
#include "transports/shm/queue.h"

/* A station, as its connections see it. station.c creates it. */
struct rd_shm_station {
	pthread_mutex_t lock;
	struct rd_shm_card card;
	int wake_fd; /* eventfd, by which peers wake this rank: the job's, where it shares one */
	bool barriers; /* membarrier(2) works, and includes this process */
	int epoll_fd; /* epoll of listener, backlog, connections. Its readiness wakes the rank */
	/* Under the lock: */
	struct rd_shm_connection *connections;
	const _Atomic bool *reader; /* `news` of the endpoint that reads the connections now */
	bool others; /* it has changed something for another endpoint */
};

enum rd_shm_connection_state {
	RD_SHM_AWAITED, /* the peer connects */
	RD_SHM_CONNECTING, /* this rank connects: again, while the peer's backlog is full */
	RD_SHM_GREETED, /* hello sent, answer due */
	RD_SHM_CONNECTED,
	RD_SHM_ENDED,
};

/* One pair's end of a connection. */
struct rd_shm_inbox {
	struct rd_shm_inbox *next;
	uint64_t comm_id;
	_Atomic bool *news; /* its endpoint's: set when a packet comes, or the connection changes */
	struct rd_shm_queue packets;
};

struct rd_shm_connection {
	struct rd_event_source source;
	struct rd_shm_connection *next;
	struct rd_shm_station *station;
	struct rd_shm_card card; /* the peer's */
	enum rd_shm_connection_state state;
	int fd; /* -1: none */
	pid_t pid; /* 0: unknown */
	int wake_fd; /* the peer's eventfd */
	bool fenced; /* a side lacks membarrier(2) */
	bool reset;
	int error; /* once it has ended, for pairs that are not open */
	char reason[160];
	struct rd_shm_queue outgoing; /* while the peer has no room */
	struct rd_shm_queue early; /* greetings of comms whose pair is not there yet */
	int early_count;
	struct rd_shm_inbox *inboxes;
};

/* All under the station's lock. */

/* Finds the connection to a card's station that has not ended, or creates it: RONDO_MEMORY,
   RONDO_SYSTEM. */
int rd_shm_connection_get(struct rd_shm_connection **connection, struct rd_shm_station *station,
	const struct rd_shm_card *card);

/* In RD_SHM_CONNECTING: connects, and sends the hello. */
void rd_shm_connection_connect(struct rd_shm_connection *connection);
/* In RD_SHM_AWAITED: the peer has connected. Takes ownership of both descriptors. */
void rd_shm_connection_adopt(
	struct rd_shm_connection *connection, int fd, pid_t pid, int wake_fd, bool barriers);
/* It ends, for this reason. */
void rd_shm_connection_fail(struct rd_shm_connection *connection, int error, const char *reason);

/* Handles one packet, or the end. Returns whether there was one. */
bool rd_shm_connection_handle(void *connection);
/* Sends packets that wait, as far as there is room. */
void rd_shm_connection_flush(struct rd_shm_connection *connection);

/* Adds a pair's inbox; packets of its comm that came before are in it. */
void rd_shm_connection_join(struct rd_shm_connection *connection, struct rd_shm_inbox *inbox);
/* Removes it, and frees its packets. Frees a connection that has ended with its last inbox. */
void rd_shm_connection_leave(struct rd_shm_connection *connection, struct rd_shm_inbox *inbox);

/* Whether packets may be sent: the rank has connected or been connected to. */
static inline bool rd_shm_connection_is_open(const struct rd_shm_connection *connection)
{
	return connection->state == RD_SHM_GREETED || connection->state == RD_SHM_CONNECTED;
}

/* Sends a packet over an open connection, at once or when there is room; takes ownership of fd;
   -1: none. False: it is lost. */
bool rd_shm_connection_send(
	struct rd_shm_connection *connection, const void *packet, size_t size, int fd);
/* Sends it only if there is room; fd stays the caller's. False: not sent, with errno. */
bool rd_shm_connection_try_send(
	struct rd_shm_connection *connection, const void *packet, size_t size, int fd);

/* This rank uses a comm no more: refuses greetings that wait for it. */
void rd_shm_connection_refuse(struct rd_shm_connection *connection, uint64_t comm_id);

void rd_shm_connection_destroy(struct rd_shm_connection *connection);
/* In a forked child: closes descriptors, and sends nothing. */
void rd_shm_connection_abandon(struct rd_shm_connection *connection);

#endif
