#include "run/check/host.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "run/nodes/endpoint.h"
#include "topo/sysfs.h"

static bool resolve(const char *name, struct sockaddr_storage *address)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *found;

	*address = (struct sockaddr_storage){ 0 };
	if (getaddrinfo(name, "9", &hints, &found) != 0)
		return false;
	memcpy(address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return true;
}

/* ---- Routes --------------------------------------------------------------------------------- */

static void find_interface(struct check_route *route)
{
	struct ifaddrs *list;

	if (getifaddrs(&list) < 0)
		return;
	for (struct ifaddrs *at = list; at; at = at->ifa_next)
		if (rd_address_same_host(at->ifa_addr, &route->from))
			snprintf(route->interface, sizeof(route->interface), "%s", at->ifa_name);
	freeifaddrs(list);
}

static void read_interface(struct check_route *route, int fd)
{
	struct ifreq request = { 0 };
	long speed;

	memcpy(request.ifr_name, route->interface, sizeof(request.ifr_name));
	if (ioctl(fd, SIOCGIFMTU, &request) == 0)
		route->mtu = request.ifr_mtu;
	speed = rd_sysfs_number(0, "", "sys/class/net/%s/speed", route->interface);
	route->speed = speed > 0 && speed <= INT32_MAX ? (int)speed : 0;
}

/* A datagram socket that connects sends nothing. */
void check_route_read(struct check_route *route, const struct sockaddr_storage *to)
{
	socklen_t size = sizeof(route->from);
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*route = (struct check_route){ 0 };
	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 ||
		getsockname(fd, (struct sockaddr *)&route->from, &size) < 0) {
		route->error = errno;
		route->from.ss_family = 0;
	} else {
		find_interface(route);
		read_interface(route, fd);
	}
	if (fd >= 0)
		close(fd);
}

/* ---- The host ------------------------------------------------------------------------------- */

static uint64_t soft_limit(int resource)
{
	struct rlimit limit = { 0 };

	getrlimit(resource, &limit);
	return limit.rlim_cur;
}

static void read_memory(struct check_host *host)
{
	struct statvfs shm;
	int fd = memfd_create("rondo-check", MFD_CLOEXEC);

	host->has_memfd = fd >= 0;
	if (fd >= 0)
		close(fd);
	if (statvfs("/dev/shm", &shm) == 0)
		host->shm_free = (uint64_t)shm.f_bavail * shm.f_frsize;
}

void check_host_read(struct check_host *host, const char *master)
{
	struct sockaddr_storage address;
	char own[RD_HOST_NAME_SIZE] = "";

	*host = (struct check_host){ 0 };
	rd_host_name(host->name);
	gethostname(own, sizeof(own) - 1);
	if (resolve(own, &address)) {
		rd_address_print_host(host->resolved, (const struct sockaddr *)&address);
		host->is_loopback = endpoint_is_loopback(host->resolved);
	}
	if (resolve(master, &address))
		check_route_read(&host->route, &address);
	else
		host->route.error = EADDRNOTAVAIL;
	read_memory(host);
	host->has_rdma = access("/dev/infiniband", F_OK) == 0;
	host->files = soft_limit(RLIMIT_NOFILE);
	host->locked = soft_limit(RLIMIT_MEMLOCK);
}
