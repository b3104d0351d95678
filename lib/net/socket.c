#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/port.h"

#define RESOLVE_LEAST_MS 50
#define RESOLVE_MOST_MS 1000

/* ---- Addresses ----------------------------------------------------------------------------- */

static const char *resolve_once(struct rd_addresses *addresses, const struct rd_settings *settings)
{
	const char *why;

	rd_cancellation_disable();
	why = rd_addresses_find(addresses, settings->address, settings->port, 0);
	rd_cancellation_enable();
	return why;
}

int rd_resolve(
	struct rd_addresses *addresses, const struct rd_settings *settings, int64_t deadline_ms)
{
	const char *source = rd_settings_source(settings, "MASTER_ADDR"), *why;
	int64_t wait_ms = RESOLVE_LEAST_MS;

	if (rd_address_lacks_zone(settings->address))
		return rd_fail(RONDO_SETTING,
			"rank %d: %s is \"%s\", a link-local address: name its interface as well, "
			"as %s%%eth0",
			settings->rank, source, settings->address, settings->address);
	while (!rd_is_cancelled() && (why = resolve_once(addresses, settings))) {
		int64_t left_ms = deadline_ms - rd_clock_ms();

		if (left_ms <= 0)
			return rd_fail(RONDO_UNREACHABLE,
				"rank %d: %s \"%s\" has no address here (%s)", settings->rank,
				source, settings->address, why);
		if (wait_ms == RESOLVE_LEAST_MS)
			rd_log(RD_INFO, RD_BOOTSTRAP,
				"%s \"%s\" has no address here yet (%s): asking again", source,
				settings->address, why);
		rd_cancellation_sleep((int)rd_sooner(wait_ms, left_ms));
		wait_ms = rd_sooner(wait_ms * 2, RESOLVE_MOST_MS);
	}
	return rd_is_cancelled() ? rd_fail_cancelled() : 0;
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

static int make_socket(int family)
{
	return rd_above_stderr(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int rd_bind(const struct sockaddr_storage *address, int port)
{
	struct sockaddr_storage at = *address;
	int fd = make_socket(at.ss_family), on = 1;

	if (fd < 0)
		return -1;
	/* Connections of an earlier comm at this port may be in TIME_WAIT. A port that the kernel
	   chooses must be free: with the option it may be one that another process reserves. */
	if (port != 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* It lies at one place in both families. */
	((struct sockaddr_in *)&at)->sin_port = htons((uint16_t)port);
	if (bind(fd, (struct sockaddr *)&at, rd_address_size(at.ss_family)))
		return rd_close_failed(fd);
	if (port == 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	return fd;
}

int rd_listen_at(const struct sockaddr_storage *address, int port)
{
	int fd = rd_bind(address, port);

	return fd < 0 || listen(fd, RD_BACKLOG) ? rd_close_failed(fd) : fd;
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
		*fd = rd_listen_at(&addresses->at[i], settings->port);
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

static bool is_anywhere(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return ((const struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY;
}

int rd_socket_place(int fd, char address[RD_NUMERIC_ADDRESS], uint32_t *port)
{
	struct sockaddr_storage bound;

	if (rd_local_address_get(&bound, fd))
		return -1;
	*port = (uint32_t)rd_address_port(&bound);
	address[0] = '\0';
	errno = EADDRNOTAVAIL;
	return is_anywhere(&bound) || rd_address_print_host(address, (struct sockaddr *)&bound)
		       ? 0
		       : -1;
}

int rd_accept(int fd)
{
	return rd_above_stderr(accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

/* ---- Connecting ---------------------------------------------------------------------------- */

int rd_connect_start(const struct rd_addresses *addresses, int index)
{
	const struct sockaddr *address = (const struct sockaddr *)&addresses->at[index];
	int fd = make_socket(address->sa_family);

	if (fd < 0 || !connect(fd, address, rd_address_size(address->sa_family)) ||
		errno == EINPROGRESS || errno == EINTR)
		return fd;
	return rd_close_failed(fd);
}

/* False: they are not, or the socket is not connected. */
static bool are_ends_near(int fd, struct sockaddr_storage *here, struct sockaddr_storage *there)
{
	socklen_t size = sizeof(*there);

	return rd_local_address_get(here, fd) == 0 &&
	       getpeername(fd, (struct sockaddr *)there, &size) == 0 &&
	       rd_address_same_host((struct sockaddr *)here, there);
}

/* Where no process listens at an ephemeral port, a connecting socket may get that very port, and
   connect to itself. */
static bool is_connected_to_itself(int fd)
{
	struct sockaddr_storage here, there;

	return are_ends_near(fd, &here, &there) &&
	       rd_address_port(&here) == rd_address_port(&there);
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
	struct sockaddr_storage here, there;

	return are_ends_near(fd, &here, &there);
}
