/* Network interfaces and RDMA devices, from sysfs; addresses from the kernel. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/log.h"
#include "base/descriptor.h"
#include "topo/probes.h"
#include "topo/sysfs.h"

#define NET "sys/class/net"
#define RDMA "sys/class/infiniband"

static int at_least_zero(long number)
{
	return number < 0 || number > INT32_MAX ? 0 : (int)number;
}

/* The kernel allows names that a topology does not. */
static bool may_name(const char *name)
{
	char quote[41];
	const char *at = name;

	while (rd_is_printable(*at))
		at++;
	if (*at)
		rd_log(RD_INFO, RD_PROBE, "the name %s has other characters than ASCII's: left out",
			rd_quotable(quote, name));
	return !*at;
}

/* ---- Interfaces ---- */

/* Software interfaces without a carrier have the state "unknown". Their flags decide. */
static bool is_up(const struct rd_probe *probe, const char *name)
{
	char state[32] = "unknown";

	rd_sysfs_line(state, sizeof(state), probe->root, NET "/%s/operstate", name);
	return (rd_sysfs_number(0, probe->root, NET "/%s/flags", name) & IFF_UP) &&
	       (!strcmp(state, "up") || !strcmp(state, "unknown"));
}

/*
 * sysfs shows the interfaces of the network namespace in which it was mounted. An interface with
 * another number here belongs to another namespace.
 */
static bool is_ours(const struct rd_probe *probe, const char *name)
{
	if (probe->root[0])
		return true;
	long index = rd_sysfs_number(0, probe->root, NET "/%s/ifindex", name);
	return index > 0 && index == (long)if_nametoindex(name);
}

/* Interfaces that the kernel makes itself are on no bus. */
static bool is_hardware(const char *path)
{
	return strncmp(path, "virtual/", 8);
}

static struct rd_host_interface *add_interface(struct rd_host *host, const char *name)
{
	if (!may_name(name))
		return NULL;
	if (host->interface_count == RD_INTERFACE_MAX) {
		rd_log(RD_INFO, RD_PROBE, "interface %s is one too many: left out", name);
		return NULL;
	}
	struct rd_host_interface *interface = &host->interfaces[host->interface_count++];
	snprintf(interface->device.name, RD_NAME_SIZE, "%s", name);
	interface->device.numa = -1;
	return interface;
}

static void read_interface(
	struct rd_host *host, const struct rd_probe *probe, const char *name, const char *path)
{
	struct rd_host_interface *interface = add_interface(host, name);

	if (!interface)
		return;
	interface->hardware = is_hardware(path);
	rd_probe_device(&interface->device, probe, path);
	interface->loopback =
		rd_sysfs_number(0, probe->root, NET "/%s/type", name) == ARPHRD_LOOPBACK;
	interface->up = is_up(probe, name);
	interface->mtu = at_least_zero(rd_sysfs_number(0, probe->root, NET "/%s/mtu", name));
	/* The speed of a virtual one is -1, and reading that of one that is down fails. */
	if (interface->up && interface->hardware)
		interface->speed_mbps =
			at_least_zero(rd_sysfs_number(0, probe->root, NET "/%s/speed", name));
}

/* Hardware first: a host of containers may have more software interfaces than there is room for. */
static void read_interfaces(struct rd_host *host, const struct rd_probe *probe)
{
	char(*names)[RD_SYSFS_NAME_SIZE], path[RD_SYSFS_PATH_SIZE];
	int count = rd_sysfs_list(&names, probe->root, NET);

	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < count; i++) {
			/* Files such as bonding_masters are no interfaces. */
			if (!rd_sysfs_device(path, probe->root, NET "/%s", names[i]) ||
				is_hardware(path) != (pass == 0) || !is_ours(probe, names[i]))
				continue;
			read_interface(host, probe, names[i], path);
		}
	}
	free(names);
}

static struct rd_host_interface *find_interface(struct rd_host *host, const char *name)
{
	for (int i = 0; i < host->interface_count; i++)
		if (!strcmp(host->interfaces[i].device.name, name))
			return &host->interfaces[i];
	return NULL;
}

static int read_mtu(const char *name)
{
	struct ifreq request = { 0 };
	int fd = rd_above_stderr(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	int err = fd < 0 ? -1 : ioctl(fd, SIOCGIFMTU, &request);
	if (fd >= 0)
		close(fd);
	return err ? 0 : request.ifr_mtu;
}

/* Adds an interface that sysfs does not show. It counts as hardware, since no source denies it. */
static struct rd_host_interface *take_unseen(struct rd_host *host, const struct ifaddrs *entry)
{
	struct rd_host_interface *interface = add_interface(host, entry->ifa_name);

	if (interface) {
		interface->up = (entry->ifa_flags & IFF_UP) && (entry->ifa_flags & IFF_RUNNING);
		interface->loopback = entry->ifa_flags & IFF_LOOPBACK;
		interface->hardware = !interface->loopback;
		interface->mtu = read_mtu(entry->ifa_name);
	}
	return interface;
}

static void take_address(struct rd_host_interface *interface, const struct sockaddr *address)
{
	char *text = interface->addresses[interface->address_count];
	const void *bytes =
		address->sa_family == AF_INET
			? (const void *)&((const struct sockaddr_in *)(const void *)address)
				  ->sin_addr
			: (const void *)&((const struct sockaddr_in6 *)(const void *)address)
				  ->sin6_addr;

	if (interface->address_count < RD_ADDRESS_MAX &&
		inet_ntop(address->sa_family, bytes, text, sizeof(interface->addresses[0])))
		interface->address_count++;
}

static void read_addresses(struct rd_host *host)
{
	struct ifaddrs *entries;

	if (getifaddrs(&entries)) {
		rd_log(RD_INFO, RD_PROBE, "the kernel tells no addresses: %m");
		return;
	}
	for (const struct ifaddrs *entry = entries; entry; entry = entry->ifa_next) {
		struct rd_host_interface *interface = find_interface(host, entry->ifa_name);
		if (!interface)
			interface = take_unseen(host, entry);
		if (interface && entry->ifa_addr &&
			(entry->ifa_addr->sa_family == AF_INET ||
				entry->ifa_addr->sa_family == AF_INET6))
			take_address(interface, entry->ifa_addr);
	}
	freeifaddrs(entries);
}

void rd_probe_interfaces(struct rd_host *host, const struct rd_probe *probe)
{
	read_interfaces(host, probe);
	if (!probe->root[0])
		read_addresses(host);
	if (!host->interface_count)
		rd_log(RD_INFO, RD_PROBE, "no network interfaces");
}

/* ---- RDMA ---- */

/* "400 Gb/sec (4X NDR)" */
static int rate_mbps(const char *text)
{
	char *end;
	double rate = strtod(text, &end);

	return end == text || !(rate > 0 && rate < 1e6) ? 0 : (int)(rate * 1000 + 0.5);
}

static void read_port(struct rd_rdma *rdma, const struct rd_probe *probe, const char *number)
{
	struct rd_port *port = &rdma->ports[rdma->port_count];
	const char *name = rdma->device.name;
	char line[64];

	port->number = atoi(number);
	if (port->number < 1 || port->number > 255)
		return;
	if (!rd_sysfs_line(
		    line, sizeof(line), probe->root, RDMA "/%s/ports/%s/state", name, number)) {
		rd_log(RD_INFO, RD_PROBE, "%s tells no state of its port %s: left out", name,
			number);
		return;
	}
	port->active = strstr(line, "ACTIVE");
	if (rd_sysfs_line(line, sizeof(line), probe->root, RDMA "/%s/ports/%s/rate", name, number))
		port->speed_mbps = rate_mbps(line);
	if (rd_sysfs_line(
		    line, sizeof(line), probe->root, RDMA "/%s/ports/%s/link_layer", name, number))
		port->ethernet = !strcmp(line, "Ethernet");
	rdma->port_count++;
}

static void read_rdma(struct rd_host *host, const struct rd_probe *probe, const char *name)
{
	struct rd_rdma *rdma = &host->rdma[host->rdma_count++];
	char(*ports)[RD_SYSFS_NAME_SIZE], path[RD_SYSFS_PATH_SIZE] = "",
					  directory[sizeof(RDMA) + RD_SYSFS_NAME_SIZE + 8];

	snprintf(rdma->device.name, RD_NAME_SIZE, "%s", name);
	rd_sysfs_device(path, probe->root, RDMA "/%s", name);
	rd_probe_device(&rdma->device, probe, path);
	snprintf(directory, sizeof(directory), RDMA "/%s/ports", name);
	int count = rd_sysfs_list(&ports, probe->root, directory);
	for (int i = 0; i < count && rdma->port_count < RD_PORT_MAX; i++)
		read_port(rdma, probe, ports[i]);
	free(ports);
}

void rd_probe_rdma(struct rd_host *host, const struct rd_probe *probe)
{
	char(*names)[RD_SYSFS_NAME_SIZE];
	int count = rd_sysfs_list(&names, probe->root, RDMA);

	if (!count)
		rd_log(RD_INFO, RD_PROBE, "no RDMA devices (nothing in /%s)", RDMA);
	for (int i = 0; i < count; i++) {
		if (!may_name(names[i]))
			continue;
		if (host->rdma_count < RD_RDMA_MAX)
			read_rdma(host, probe, names[i]);
		else
			rd_log(RD_INFO, RD_PROBE, "%s is one too many: left out", names[i]);
	}
	free(names);
}
