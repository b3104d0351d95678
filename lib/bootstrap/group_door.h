/*
 * Where the trunks (net/trunk.h) come to a job by which other processes make groups with its rank:
 * a listening socket, from the first comm's creation on.
 */
#ifndef RD_GROUP_DOOR_H
#define RD_GROUP_DOOR_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/settings.h"
#include "net/door.h"
#include "net/trunk.h"

struct rd_group_door {
	int epoll_fd; /* the owner's; its events have this struct as data.ptr */
	struct rd_door *door; /* NULL: it is not open */
	unsigned char psk[RD_PSK_SIZE];
	struct sockaddr_storage address; /* where it listens */
	uint32_t port;
	bool any; /* it listens at any address of this host */
	int unreachable_ms; /* of the settings */
};

/* Listens at any port of this address, a socket's own; again: there in place of where it has.
   RONDO_MEMORY, RONDO_SYSTEM. */
int rd_group_door_open(struct rd_group_door *door, const struct sockaddr_storage *near,
	const struct rd_settings *settings);
void rd_group_door_close(struct rd_group_door *door);
/* The same in a forked child. */
void rd_group_door_abandon(struct rd_group_door *door);

/* The address for further sockets of the job: the door's, or `near` where that is any. */
const struct sockaddr_storage *rd_group_door_near(
	const struct rd_group_door *door, const struct sockaddr_storage *near);

/* After an event, and at the deadline: the trunks that have come are the job's. */
void rd_group_door_serve(struct rd_group_door *door, struct rd_trunks *trunks, int64_t now_ms);
int64_t rd_group_door_deadline(const struct rd_group_door *door);

#endif
