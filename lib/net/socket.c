#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/port.h"

#define RESOLVE_LEAST_MS 50
#define RESOLVE_MOST_MS 1000

/* ---- Addresses ----------------------------------------------------------------------------- */

static void keep_addresses(struct rd_addresses *addresses, const struct addrinfo *list)
{
	addresses->count = 0;
	for (; list && addresses->count < RD_ADDRESSES_MAX; list = list->ai_next) {
		int i = addresses->count;
		if (list->ai_addrlen > sizeof(addresses->at[i]))
			continue;
		memset(&addresses->at[i], 0, sizeof(addresses->at[i]));
		memcpy(&addresses->at[i], list->ai_addr, list->ai_addrlen);
		addresses->size[i] = list->ai_addrlen;
		addresses->count++;
	}
}

static int resolve_once(struct rd_addresses *addresses, const struct rd_settings *settings)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	char port[16];
	int error;

	snprintf(port, sizeof(port), "%d", settings->port);
	rd_cancellation_disable();
	error = getaddrinfo(settings->address, port, &hints, &list);
	rd_cancellation_enable();
	if (error)
		return error;
	keep_addresses(addresses, list);
	freeaddrinfo(list);
	return addresses->count > 0 ? 0 : EAI_NONAME;
}

int rd_resolve(
	struct rd_addresses *addresses, const struct rd_settings *settings, int64_t deadline_ms)
{
	const char *source = rd_settings_source(settings, "MASTER_ADDR");
	int64_t wait_ms = RESOLVE_LEAST_MS;
	int error;

	if (rd_address_lacks_zone(settings->address))
		return rd_fail(RONDO_SETTING,
			"rank %d: %s is \"%s\", a link-local address: name its interface as well, "
			"as %s%%eth0",
			settings->rank, source, settings->address, settings->address);
	while (!rd_is_cancelled() && (error = resolve_once(addresses, settings))) {
		const char *reason = error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
		int64_t left_ms = deadline_ms - rd_clock_ms();
		if (left_ms <= 0)
			return rd_fail(RONDO_UNREACHABLE,
				"rank %d: %s \"%s\" has no address here (%s)", settings->rank,
				source, settings->address, reason);
		if (wait_ms == RESOLVE_LEAST_MS)
			rd_log(RD_INFO, RD_BOOTSTRAP,
				"%s \"%s\" has no address here yet (%s): asking again", source,
				settings->address, reason);
		rd_cancellation_sleep((int)rd_sooner(wait_ms, left_ms));
		wait_ms = rd_sooner(wait_ms * 2, RESOLVE_MOST_MS);
	}
	return rd_is_cancelled() ? rd_fail_cancelled() : 0;
}

static socklen_t size_of(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

static int port_of(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
	return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

static void host_text(char text[INET6_ADDRSTRLEN], const struct sockaddr_storage *address)
{
	const void *bytes = &((const struct sockaddr_in *)address)->sin_addr;

	if (address->ss_family == AF_INET6)
		bytes = &((const struct sockaddr_in6 *)address)->sin6_addr;
	if (!inet_ntop(address->ss_family, bytes, text, INET6_ADDRSTRLEN))
		strcpy(text, "?");
}

void rd_address_print(char text[RD_ADDRESS_SIZE], const struct sockaddr_storage *address)
{
	char host[INET6_ADDRSTRLEN];

	host_text(host, address);
	snprintf(text, RD_ADDRESS_SIZE, address->ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", host,
		port_of(address));
}

bool rd_address_is_here_alone(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 ==
	       IN_LOOPBACKNET;
}

static bool same_host_address(const struct sockaddr *a, const struct sockaddr_storage *b)
{
	if (!a || a->sa_family != b->ss_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)b)->sin6_addr);
}

static void interface_of(char name[IF_NAMESIZE], const struct sockaddr_storage *address)
{
	struct ifaddrs *list = NULL;

	strcpy(name, "?");
	if (getifaddrs(&list))
		return;
	for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
		if (!same_host_address(at->ifa_addr, address))
			continue;
		snprintf(name, IF_NAMESIZE, "%s", at->ifa_name);
		break;
	}
	freeifaddrs(list);
}

int rd_local_address_get(struct sockaddr_storage *local, int fd)
{
	socklen_t size = sizeof(*local);

	memset(local, 0, sizeof(*local));
	return getsockname(fd, (struct sockaddr *)local, &size);
}

void rd_local_address_print(char text[RD_ADDRESS_SIZE], const struct sockaddr_storage *local)
{
	char host[INET6_ADDRSTRLEN], interface[IF_NAMESIZE];

	host_text(host, local);
	interface_of(interface, local);
	snprintf(text, RD_ADDRESS_SIZE, "%s:%s<%d>", interface, host, port_of(local));
}

/* ---- Listening ----------------------------------------------------------------------------- */

static int take_over(int fd)
{
	int listens = 0;
	socklen_t size = sizeof(listens);
	int flags = fcntl(fd, F_GETFL);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens)
		return rd_fail(
			RONDO_SETTING, "RONDO_RENDEZVOUS_FD %d is not a listening socket", fd);
	/* Another program's backlog may have no room for all ranks at once. */
	if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) >= 0 &&
		fcntl(fd, F_SETFD, FD_CLOEXEC) >= 0 && listen(fd, RD_BACKLOG) == 0)
		return 0;
	rd_fail_errno("cannot use RONDO_RENDEZVOUS_FD %d", fd);
	close(fd);
	return RONDO_SYSTEM;
}

/* The socket, or -1 and errno. */
static int listen_at(const struct rd_addresses *addresses, int index)
{
	const struct sockaddr *address = (const struct sockaddr *)&addresses->at[index];
	int fd = rd_above_stderr(
		socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	int on = 1, saved;

	if (fd < 0)
		return -1;
	/* Connections of an earlier comm at this port may be in TIME_WAIT. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!bind(fd, address, addresses->size[index]) && !listen(fd, RD_BACKLOG))
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static bool is_elsewhere(int error)
{
	return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

int rd_listen(int *fd, const struct rd_addresses *addresses, const struct rd_settings *settings)
{
	char text[RD_ADDRESS_SIZE];

	*fd = settings->rendezvous_fd;
	if (*fd >= 0)
		return take_over(*fd);
	for (int i = 0; i < addresses->count; i++) {
		*fd = listen_at(addresses, i);
		if (*fd >= 0)
			return 0;
		if (is_elsewhere(errno))
			continue;
		/* Peers try the addresses in this order, so another one would not do. */
		rd_address_print(text, &addresses->at[i]);
		if (errno == EADDRINUSE)
			return rd_fail(RONDO_SYSTEM,
				"rank 0 cannot listen at %s: the port is in use (by another job, "
				"or another rank 0); set RONDO_PORT to another one on every rank "
				"(if not set, it is 2000 below MASTER_PORT)",
				text);
		return rd_fail_errno("rank 0 cannot listen at %s", text);
	}
	rd_address_print(text, &addresses->at[0]);
	return rd_fail(RONDO_SETTING,
		"rank 0 must listen at %s \"%s\", but %s is no address of this host",
		rd_settings_source(settings, "MASTER_ADDR"), settings->address, text);
}

int rd_listen_near(const struct sockaddr_storage *address)
{
	struct rd_addresses near = { .count = 1, .at = { *address } };

	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)&near.at[0])->sin6_port = 0;
	else
		((struct sockaddr_in *)&near.at[0])->sin_port = 0;
	near.size[0] = size_of(address);
	return listen_at(&near, 0);
}

static bool is_anywhere(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return ((const struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY;
}

int rd_socket_place(int fd, char address[RD_NUMERIC_ADDRESS], uint32_t *port)
{
	struct sockaddr_storage bound = { 0 };
	socklen_t size = sizeof(bound);

	if (getsockname(fd, (struct sockaddr *)&bound, &size))
		return -1;
	*port = (uint32_t)port_of(&bound);
	address[0] = '\0';
	if (is_anywhere(&bound))
		return 0;
	errno = EADDRNOTAVAIL;
	return getnameinfo((struct sockaddr *)&bound, size_of(&bound), address, RD_NUMERIC_ADDRESS,
		       NULL, 0, NI_NUMERICHOST)
		       ? -1
		       : 0;
}

int rd_accept(int fd)
{
	return rd_above_stderr(accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

/* ---- Connecting ---------------------------------------------------------------------------- */

int rd_connect_start(const struct rd_addresses *addresses, int index)
{
	const struct sockaddr *address = (const struct sockaddr *)&addresses->at[index];
	int fd = rd_above_stderr(
		socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	int saved;

	if (fd < 0)
		return -1;
	if (!connect(fd, address, addresses->size[index]) || errno == EINPROGRESS || errno == EINTR)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Where no process listens at an ephemeral port, a connecting socket may get that very port, and
   connect to itself. */
static bool is_connected_to_itself(int fd)
{
	struct sockaddr_storage here = { 0 }, there = { 0 };
	socklen_t here_size = sizeof(here), there_size = sizeof(there);

	if (getsockname(fd, (struct sockaddr *)&here, &here_size) ||
		getpeername(fd, (struct sockaddr *)&there, &there_size))
		return false;
	return port_of(&here) == port_of(&there) &&
	       same_host_address((const struct sockaddr *)&here, &there);
}

int rd_connect_finish(int fd)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size))
		return errno;
	if (!error && is_connected_to_itself(fd))
		return ECONNREFUSED;
	return error;
}

bool rd_is_temporary(int error)
{
	return error == EAGAIN || error == EINTR;
}

bool rd_lacks_resources(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

bool rd_is_forbidden(int error)
{
	return error == EPERM || error == EACCES || error == ENOSYS;
}

bool rd_is_permanent(int error)
{
	return error == EINVAL || error == EAFNOSUPPORT || error == EPROTONOSUPPORT ||
	       rd_is_forbidden(error);
}

static void set_tcp(int fd, int option, int value)
{
	setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value));
}

/* See tcp(7). With TCP_USER_TIMEOUT, the number of probes does not count. */
void rd_socket_tune(int fd, int timeout_ms)
{
	int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	set_tcp(fd, TCP_NODELAY, 1);
	set_tcp(fd, TCP_KEEPIDLE, 1);
	set_tcp(fd, TCP_KEEPINTVL, 1);
	/* At least what the retransmission of a lost packet takes. */
	set_tcp(fd, TCP_USER_TIMEOUT, timeout_ms > 1000 ? timeout_ms : 1000);
}

bool rd_socket_is_near(int fd)
{
	struct sockaddr_storage here = { 0 }, there = { 0 };
	socklen_t size = sizeof(here);

	if (getsockname(fd, (struct sockaddr *)&here, &size))
		return false;
	size = sizeof(there);
	return getpeername(fd, (struct sockaddr *)&there, &size) == 0 &&
	       same_host_address((struct sockaddr *)&here, &there);
}
