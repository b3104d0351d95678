#include "transports/tcp/listener.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/port.h"
#include "net/socket.h"
#include "transports/tcp/connector.h"

/* A listener without a free descriptor is not watched for REST_MS. Connections that wait for a peer
   fail when no descriptor has been free for ACCEPT_MS. */
#define REST_MS 100
#define ACCEPT_MS 1000

/* accept() failed, for want of descriptors or memory, or because it is forbidden. The backlog would
   wake the epoll again and again. */
static void rest_listener(struct rd_tcp_listener *listener, int number)
{
	struct rd_tcp_connector *connector = listener->all->connector;
	int64_t now_ms = rd_clock_ms();

	if (listener->since_ms == 0) {
		rd_log(RD_WARN, RD_NET, "NET/Socket : rank %d cannot accept a connection: %s",
			connector->local->rank, strerror(number));
		listener->since_ms = now_ms;
	}
	if (now_ms - listener->since_ms >= ACCEPT_MS)
		rd_tcp_connections_fail_awaited(connector, number);
	rd_event_watch(connector->epoll_fd, EPOLL_CTL_DEL, listener->fd, 0, NULL);
	listener->until_ms = now_ms + REST_MS;
	rd_tcp_timer_request(&connector->timer, listener->until_ms);
}

void rd_tcp_listeners_wake(struct rd_tcp_listeners *listeners)
{
	struct rd_tcp_connector *connector = listeners->connector;

	for (int i = 0; i < RD_TCP_LISTENERS_MAX; i++) {
		struct rd_tcp_listener *listener = &listeners->at[i];

		if (listener->until_ms && rd_clock_ms() >= listener->until_ms) {
			listener->until_ms = 0;
			if (rd_event_watch(connector->epoll_fd, EPOLL_CTL_ADD, listener->fd,
				    EPOLLIN, &listener->source))
				listener->until_ms = rd_clock_ms() + REST_MS;
		}
		if (listener->until_ms)
			rd_tcp_timer_request(&connector->timer, listener->until_ms);
	}
}

static bool listener_handle(void *owner)
{
	struct rd_tcp_listener *listener = owner;
	int fd = rd_above_stderr(accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

	if (fd >= 0) {
		listener->since_ms = 0;
		return rd_tcp_strangers_add(&listener->all->connector->strangers, fd);
	}
	if (rd_is_forbidden(errno) ||
		(rd_lacks_resources(errno) &&
			!rd_tcp_strangers_make_room(&listener->all->connector->strangers)))
		rest_listener(listener, errno);
	return false;
}

static bool carries_channel(const struct rd_tcp_connector *connector, int index)
{
	return index < connector->interfaces.shared && index < connector->local->settings->channels;
}

static int open_listener(struct rd_tcp_listener *listener, const struct rd_interface *interface,
	struct sockaddr_storage *address)
{
	struct rd_tcp_connector *connector = listener->all->connector;
	socklen_t size = sizeof(*address);
	char where[RD_ADDRESS_TEXT];

	if (bind(listener->fd, (struct sockaddr *)address, interface->address_size) ||
		listen(listener->fd, RD_BACKLOG) ||
		getsockname(listener->fd, (struct sockaddr *)address, &size))
		return rd_fail_errno("cannot listen at %s (%s)", rd_address_text(address, where),
			interface->name);
	if (rd_event_watch(
		    connector->epoll_fd, EPOLL_CTL_ADD, listener->fd, EPOLLIN, &listener->source))
		return rd_fail_errno("cannot watch a socket");
	return 0;
}

static int make_socket(struct rd_tcp_listener *listener, const struct rd_interface *interface)
{
	int fd = rd_above_stderr(socket(
		    interface->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
	    on = interface->is_contested;

	listener->fd = fd;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)))
		return rd_fail_errno("cannot make a socket");
	return 0;
}

/* At the port of the interface's other listener. Where the kernel refuses, it goes on choosing the
   interface. */
static int listen_on_device(struct rd_tcp_listener *listener, struct rd_interface *interface,
	struct sockaddr_storage *address)
{
	int err = make_socket(listener, interface);

	if (err)
		return err;
	if (rd_interface_bind(interface, listener->fd))
		return open_listener(listener, interface, address);
	rd_log(RD_WARN, RD_NET,
		"NET/Socket : another interface is on the network of %s, and may carry its bytes: "
		"no socket can be bound to it (%m)",
		interface->name);
	interface->is_contested = false;
	close(listener->fd);
	listener->fd = -1;
	return 0;
}

/* Listens on the interface's address. The kernel chooses the port, which goes into the card. */
static int listen_at(struct rd_tcp_listeners *listeners, int index)
{
	struct rd_tcp_connector *connector = listeners->connector;
	struct rd_interface *interface = &connector->interfaces.at[index];
	struct rd_tcp_listener *listener = &listeners->at[index];
	struct sockaddr_storage address = interface->address;
	char where[RD_ADDRESS_TEXT];
	int err = make_socket(listener, interface);

	if (!err)
		err = open_listener(listener, interface, &address);
	if (!err && interface->is_contested)
		err = listen_on_device(
			&listeners->at[RD_INTERFACES_MAX + index], interface, &address);
	if (err)
		return err;
	rd_tcp_card_add(&connector->card, &address);
	rd_log(RD_INFO, RD_NET, "NET/Socket : %s [%d]%s:%s",
		carries_channel(connector, index) ? "Using" : "In reserve", index, interface->name,
		rd_address_text(&address, where));
	return 0;
}

/* Listens on the interfaces in reserve, and removes those where that fails. */
static void listen_in_reserve(struct rd_tcp_listeners *listeners)
{
	struct rd_interfaces *interfaces = &listeners->connector->interfaces;
	int kept = interfaces->shared;

	for (int i = kept; i < interfaces->count; i++) {
		struct rd_tcp_listener *listener = &listeners->at[kept];

		interfaces->at[kept] = interfaces->at[i];
		if (!listen_at(listeners, kept)) {
			kept++;
			continue;
		}
		rd_log(RD_INFO, RD_NET, "NET/Socket : %s", rondo_last_error());
		if (listener->fd >= 0)
			close(listener->fd);
		listener->fd = -1;
	}
	interfaces->count = kept;
}

void rd_tcp_listeners_init(struct rd_tcp_listeners *listeners, struct rd_tcp_connector *connector)
{
	listeners->connector = connector;
	for (int i = 0; i < RD_TCP_LISTENERS_MAX; i++)
		listeners->at[i] = (struct rd_tcp_listener){
			.source = { listener_handle, &listeners->at[i] },
			.all = listeners,
			.fd = -1,
		};
}

int rd_tcp_listeners_start(struct rd_tcp_listeners *listeners)
{
	struct rd_tcp_connector *connector = listeners->connector;
	int err = 0;

	rd_tcp_card_init(&connector->card, &connector->local->place);
	for (int i = 0; i < connector->interfaces.shared && !err; i++)
		err = listen_at(listeners, i);
	if (err)
		return err;
	listen_in_reserve(listeners);
	connector->card.shared = (uint8_t)connector->interfaces.shared;
	return 0;
}

void rd_tcp_listeners_close(struct rd_tcp_listeners *listeners)
{
	for (int i = 0; i < RD_TCP_LISTENERS_MAX; i++)
		rd_event_close(listeners->connector->epoll_fd, &listeners->at[i].fd);
}
