#include "bootstrap/group_door.h"

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/error.h"
#include "bootstrap/control_message.h"
#include "bootstrap/rendezvous.h"
#include "net/codec.h"

static int listen_near(struct rd_group_door *door, const struct sockaddr_storage *near)
{
	char address[RD_NUMERIC_ADDRESS];
	socklen_t size = sizeof(door->address);
	int fd = rd_listen_near(near);

	if (fd >= 0 && rd_socket_place(fd, address, &door->port) == 0 &&
		getsockname(fd, (struct sockaddr *)&door->address, &size) == 0) {
		door->any = address[0] == '\0';
		return rd_door_listen(door->door, fd);
	}
	if (fd >= 0)
		close(fd);
	return rd_fail_errno("cannot listen for ranks that make groups");
}

int rd_group_door_open(struct rd_group_door *door, const struct sockaddr_storage *near,
	const struct rd_settings *settings)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = door };
	struct rd_door_rules rules = { .psk = settings->has_psk ? door->psk : NULL,
		.most = settings->size + RD_PENDING_MAX,
		.greeting_ms = RD_PENDING_MS,
		.greeting_most = RD_TRUNK_MOST(RD_FRAME_MAX),
		.greeting_size = rd_frame_size };
	int err;

	rd_group_door_close(door);
	memcpy(door->psk, settings->psk, sizeof(door->psk));
	door->unreachable_ms = settings->unreachable_ms;
	err = rd_door_create(&door->door, &rules);
	if (err)
		return err;
	err = listen_near(door, near);
	if (!err && epoll_ctl(door->epoll_fd, EPOLL_CTL_ADD, rd_door_fd(door->door), &event))
		err = rd_fail_errno("cannot watch for ranks that make groups");
	if (err)
		rd_group_door_close(door);
	return err;
}

void rd_group_door_close(struct rd_group_door *door)
{
	/* A child may hold a copy of the door's epoll. */
	if (door->door)
		epoll_ctl(door->epoll_fd, EPOLL_CTL_DEL, rd_door_fd(door->door), NULL);
	rd_door_destroy(door->door);
	door->door = NULL;
	explicit_bzero(door->psk, sizeof(door->psk));
}

void rd_group_door_abandon(struct rd_group_door *door)
{
	rd_door_abandon(door->door);
	explicit_bzero(door->psk, sizeof(door->psk));
}

const struct sockaddr_storage *rd_group_door_near(
	const struct rd_group_door *door, const struct sockaddr_storage *near)
{
	return door->door && !door->any ? &door->address : near;
}

void rd_group_door_serve(struct rd_group_door *door, struct rd_trunks *trunks, int64_t now_ms)
{
	struct rd_arrival arrival;

	if (!door->door)
		return;
	rd_door_serve(door->door, now_ms);
	while (rd_door_next(door->door, &arrival)) {
		if (!rd_trunk_begins(arrival.greeting)) {
			rd_door_reject(door->door, &arrival.wire, "nothing here is its");
			continue;
		}
		rd_socket_tune(arrival.wire.fd, door->unreachable_ms);
		rd_trunks_adopt(trunks, &arrival);
	}
}

int64_t rd_group_door_deadline(const struct rd_group_door *door)
{
	return door->door ? rd_door_deadline(door->door) : RD_NEVER;
}
