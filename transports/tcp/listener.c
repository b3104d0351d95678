#include "transports/tcp/listener.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/port.h"

/* Two sockets for an interface, and one where other ranks look for this one. */
_Static_assert(RD_DOOR_LISTENERS > 2 * RD_INTERFACES_MAX, "the door has room");

static bool carries_channel(
	const struct rd_tcp_station *station, const struct rd_local *local, int index)
{
	return index < station->interfaces.shared && index < local->settings->channels;
}

/* Hands the socket over to the door. */
static int listen_with(struct rd_tcp_station *station, int fd, const struct rd_interface *interface,
	struct sockaddr_storage *address)
{
	socklen_t size = sizeof(*address);
	char where[RD_ADDRESS_SIZE];

	if (bind(fd, (struct sockaddr *)address, interface->address_size) == 0 &&
		listen(fd, RD_BACKLOG) == 0 &&
		getsockname(fd, (struct sockaddr *)address, &size) == 0)
		return rd_door_listen(station->listener->door, fd);
	rd_fail_errno(
		"cannot listen at %s (%s)", rd_address_print(where, address), interface->name);
	close(fd);
	return RONDO_SYSTEM;
}

static int make_socket(
	struct rd_tcp_station *station, int *fd, const struct rd_interface *interface)
{
	int on = interface->is_contested;

	*fd = rd_above_stderr(socket(
		interface->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (*fd >= 0 && setsockopt(*fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0) {
		rd_tcp_congestion_read(*fd, station->congestion);
		rd_tcp_congestion_near(*fd);
		return 0;
	}
	rd_fail_errno("cannot make a socket");
	if (*fd >= 0)
		close(*fd);
	return RONDO_SYSTEM;
}

/* At the port of the interface's other socket. It answers where a packet came from, and the kernel
   prefers it there. Where the kernel refuses, it goes on choosing the interface. */
static int listen_on_device(struct rd_tcp_station *station, struct rd_interface *interface,
	struct sockaddr_storage *address)
{
	int fd, err = make_socket(station, &fd, interface);

	if (err)
		return err;
	if (rd_interface_bind(interface, fd))
		return listen_with(station, fd, interface, address);
	rd_log(RD_WARN, RD_NET,
		"NET/Socket : another interface is on the network of %s, and may carry its bytes: "
		"no socket can be bound to it (%m)",
		interface->name);
	interface->is_contested = false;
	close(fd);
	return 0;
}

/* Listens on the interface's address. The kernel chooses the port, which goes into the card. */
static int listen_at(struct rd_tcp_station *station, const struct rd_local *local, int index)
{
	struct rd_interface *interface = &station->interfaces.at[index];
	struct sockaddr_storage address = interface->address;
	char where[RD_ADDRESS_SIZE];
	int fd, err = make_socket(station, &fd, interface);

	if (!err)
		err = listen_with(station, fd, interface, &address);
	if (!err && interface->is_contested)
		err = listen_on_device(station, interface, &address);
	if (err)
		return err;
	rd_tcp_card_add(&station->card, &address);
	rd_log(RD_INFO, RD_NET, "NET/Socket : %s [%d]%s:%s",
		carries_channel(station, local, index) ? "Using" : "In reserve", index,
		interface->name, rd_address_print(where, &address));
	return 0;
}

/* Listens on the interfaces in reserve, and removes those where that fails. */
static void listen_in_reserve(struct rd_tcp_station *station, const struct rd_local *local)
{
	struct rd_interfaces *interfaces = &station->interfaces;
	int kept = interfaces->shared;

	for (int i = kept; i < interfaces->count; i++) {
		interfaces->at[kept] = interfaces->at[i];
		if (listen_at(station, local, kept))
			rd_log(RD_INFO, RD_NET, "NET/Socket : %s", rondo_last_error());
		else
			kept++;
	}
	interfaces->count = kept;
}

int rd_tcp_listen(struct rd_tcp_station *station, const struct rd_local *local)
{
	int err = 0;

	rd_tcp_card_init(&station->card, &local->place);
	for (int i = 0; i < station->interfaces.shared && !err; i++)
		err = listen_at(station, local, i);
	if (err)
		return err;
	listen_in_reserve(station, local);
	station->card.shared = (uint8_t)station->interfaces.shared;
	return 0;
}
