/*
 * The packets of peer_watch.h between ranks of a host: over abstract datagram sockets, which leave
 * nothing behind. A descriptor may go along. Packets of other users are dropped.
 */
#ifndef RD_WATCH_SOCKET_H
#define RD_WATCH_SOCKET_H

#include <stdbool.h>

#include "base/close_on_fork.h"
#include "bootstrap/peer_watch.h"

enum rd_watch_kind { RD_WATCH_SHARES = 1, RD_WATCH_REPORTS, RD_WATCH_ASKS };

struct rd_watch_packet {
	uint32_t magic, kind;
	uint64_t comm_id;
	int32_t from, zero;
	struct rd_death death; /* of RD_WATCH_REPORTS; RD_WATCH_SHARES end before it */
};

struct rd_watch_socket {
	int fd; /* -1: it is closed */
	struct rd_close_on_fork unshared;
	uint64_t comm_id;
	int rank;
};

/* Opens the rank's socket. False: errno has the reason, and the caller closes it all the same. */
bool rd_watch_socket_open(struct rd_watch_socket *watch_socket, uint64_t comm_id, int rank);
void rd_watch_socket_close(struct rd_watch_socket *watch_socket);

/* Sends a packet of which the caller has set the kind and what belongs to it. fd goes along; -1:
   none. False: errno has the reason. */
bool rd_watch_socket_send(const struct rd_watch_socket *watch_socket, int rank,
	struct rd_watch_packet *packet, int fd);
/* 1: a valid packet; 0: an invalid one; -1: none has come. The caller closes *fd, which is -1 where
   there is none. */
int rd_watch_socket_recv(
	const struct rd_watch_socket *watch_socket, struct rd_watch_packet *packet, int *fd);

#endif
