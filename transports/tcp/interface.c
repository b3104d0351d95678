#include "transports/tcp/interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/port.h"

static bool is_ip(const struct sockaddr *address)
{
	return address && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

static const void *address_bytes(const struct sockaddr *address, int *size)
{
	const struct sockaddr_in *in = (const void *)address;
	const struct sockaddr_in6 *in6 = (const void *)address;

	*size = address->sa_family == AF_INET ? sizeof(in->sin_addr) : sizeof(in6->sin6_addr);
	return address->sa_family == AF_INET ? (const void *)&in->sin_addr
					     : (const void *)&in6->sin6_addr;
}

/* Counts the bits of a netmask. NULL: all bits of an address. */
static int prefix_of(const struct sockaddr *mask, int family)
{
	int size, prefix = 0;
	const unsigned char *bytes;

	if (!mask || mask->sa_family != family)
		return family == AF_INET ? 32 : 128;
	bytes = address_bytes(mask, &size);
	for (int i = 0; i < 8 * size && bytes[i / 8] >> (7 - i % 8) & 1; i++)
		prefix++;
	return prefix;
}

bool rd_interface_is_near(
	const struct rd_interface *interface, const struct sockaddr_storage *address)
{
	int size, whole = interface->prefix / 8, rest = interface->prefix % 8;
	const unsigned char *ours, *theirs;

	if (interface->address.ss_family != address->ss_family)
		return false;
	ours = address_bytes((const struct sockaddr *)&interface->address, &size);
	theirs = address_bytes((const struct sockaddr *)address, &size);
	return memcmp(ours, theirs, (size_t)whole) == 0 &&
	       (rest == 0 || (ours[whole] ^ theirs[whole]) >> (8 - rest) == 0);
}

bool rd_interface_bind(const struct rd_interface *interface, int fd)
{
	return setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface->name,
		       (socklen_t)strlen(interface->name)) == 0;
}

/* The index of the interface that has this address; -1: none has it. */
static int find_address(const struct rd_interfaces *interfaces, const struct sockaddr *address)
{
	for (int i = 0; i < interfaces->count; i++)
		if (rd_address_same_host(address, &interfaces->at[i].address))
			return i;
	return -1;
}

int rd_interfaces_rail(const struct rd_interfaces *interfaces, int fd)
{
	struct sockaddr_storage here, there;
	socklen_t here_size = sizeof(here), there_size = sizeof(there);
	int rail = 0;

	if (!getsockname(fd, (struct sockaddr *)&here, &here_size) &&
		!getpeername(fd, (struct sockaddr *)&there, &there_size) &&
		find_address(interfaces, (struct sockaddr *)&there) < 0)
		rail = find_address(interfaces, (struct sockaddr *)&here);
	return rail < 0 ? 0 : rail;
}

static void set_address(struct rd_interface *interface, const struct sockaddr *address)
{
	interface->address_size = rd_address_size(address->sa_family);
	memset(&interface->address, 0, sizeof(interface->address));
	memcpy(&interface->address, address, interface->address_size);
	if (address->sa_family == AF_INET)
		((struct sockaddr_in *)&interface->address)->sin_port = 0;
	else
		((struct sockaddr_in6 *)&interface->address)->sin6_port = 0;
}

/* Rates an address; 0: unusable. A link-local one works only if all ranks share a link. */
static int rate_address(const struct sockaddr *address, int family)
{
	const struct sockaddr_in6 *in6 = (const void *)address;

	if (!is_ip(address))
		return 0;
	if (address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		return 1;
	return address->sa_family == family ? 3 : 2;
}

/* Adds name to the list "lo, eth0" unless it is there. */
static void list_name(char *list, size_t list_size, const char *name)
{
	size_t length = strlen(list), name_length = strlen(name);
	bool there = false;

	for (const char *at = list; *at && !there; at += strcspn(at, " "), at += *at == ' ')
		there = strncmp(at, name, name_length) == 0 &&
			(at[name_length] == ',' || !at[name_length]);
	if (!there)
		snprintf(list + length, list_size - length, "%s%s", length ? ", " : "", name);
}

/* Finds the best address of the named interface. False: it has none rated `least` or higher. */
static bool choose_named(struct rd_interface *interface, const struct ifaddrs *all,
	const char *name, size_t length, int family, int least)
{
	int best = least - 1;

	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (strncmp(one->ifa_name, name, length) != 0 || one->ifa_name[length])
			continue;
		if (rate_address(one->ifa_addr, family) <= best)
			continue;
		best = rate_address(one->ifa_addr, family);
		set_address(interface, one->ifa_addr);
		interface->prefix = prefix_of(one->ifa_netmask, one->ifa_addr->sa_family);
	}
	snprintf(interface->name, sizeof(interface->name), "%.*s", (int)length, name);
	return best >= least;
}

static int refuse_name(const struct ifaddrs *all, const struct rd_settings *settings,
	const char *name, size_t length)
{
	char names[256] = "";
	bool exists = false;

	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (strncmp(one->ifa_name, name, length) == 0 && !one->ifa_name[length])
			exists = true;
		else if (is_ip(one->ifa_addr))
			list_name(names, sizeof(names), one->ifa_name);
	}
	return rd_fail(RONDO_SETTING, "%s=%.*s: %s (there are: %s)",
		rd_settings_source(settings, "RONDO_INTERFACE"), (int)length, name,
		exists ? "this interface has no IP address" : "no such interface", names);
}

static int family_of(const struct rd_settings *settings)
{
	return strchr(settings->address, ':') ? AF_INET6 : AF_INET;
}

/* Whether packets to the interface's network may leave by another one. */
static bool is_contested(const struct rd_interface *interface, const struct ifaddrs *all)
{
	const struct sockaddr_in6 *v6 = (const void *)&interface->address;

	/* The link's name is part of a link-local address. */
	if (v6->sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		return false;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next)
		if (is_ip(one->ifa_addr) && (one->ifa_flags & IFF_UP) &&
			strcmp(one->ifa_name, interface->name) != 0 &&
			rd_interface_is_near(interface, (const void *)one->ifa_addr))
			return true;
	return false;
}

static int choose_by_names(struct rd_interfaces *interfaces, const struct ifaddrs *all,
	const struct rd_settings *settings)
{
	for (const char *name = settings->interface;;) {
		size_t length = strcspn(name, ",");

		if (interfaces->count == RD_INTERFACES_MAX)
			return rd_fail(RONDO_SETTING, "%s names more than %d interfaces",
				rd_settings_source(settings, "RONDO_INTERFACE"), RD_INTERFACES_MAX);
		if (!choose_named(&interfaces->at[interfaces->count], all, name, length,
			    family_of(settings), 1))
			return refuse_name(all, settings, name, length);
		interfaces->at[interfaces->count].is_contested =
			is_contested(&interfaces->at[interfaces->count], all);
		interfaces->count++;
		if (!name[length])
			break;
		name += length + 1;
	}
	interfaces->shared = interfaces->count;
	return 0;
}

static int choose_by_address(struct rd_interface *interface, const struct ifaddrs *all,
	const struct rd_settings *settings)
{
	const char *address = settings->address[0] ? settings->address : rd_loopback();
	const char *source = rd_settings_source(settings, "MASTER_ADDR");
	struct rd_addresses there;
	struct sockaddr_storage here;
	bool found = false;
	/* Any port: without one, connect() may refuse. */
	const char *why = rd_addresses_find(&there, address, 9, 0);

	if (why)
		return rd_fail(RONDO_UNREACHABLE, "%s=%s: %s", source, address, why);
	for (int i = 0; i < there.count && !found; i++)
		found = rd_address_towards(&here, &there.at[i]);
	if (!found)
		return rd_fail(
			RONDO_UNREACHABLE, "%s=%s: no interface leads there", source, address);
	set_address(interface, (struct sockaddr *)&here);
	snprintf(interface->name, sizeof(interface->name), "?");
	interface->prefix = prefix_of(NULL, interface->address.ss_family);
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (!rd_address_same_host(one->ifa_addr, &interface->address))
			continue;
		snprintf(interface->name, sizeof(interface->name), "%s", one->ifa_name);
		interface->prefix = prefix_of(one->ifa_netmask, one->ifa_addr->sa_family);
	}
	return 0;
}

static bool is_chosen(const struct rd_interfaces *interfaces, const char *name)
{
	for (int i = 0; i < interfaces->count; i++)
		if (strcmp(interfaces->at[i].name, name) == 0)
			return true;
	return false;
}

/* Adds the other interfaces that lead out, for peers that the first does not reach. */
static void add_reserve(struct rd_interfaces *interfaces, const struct ifaddrs *all, int family)
{
	unsigned running = IFF_UP | IFF_RUNNING;

	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (interfaces->count == RD_INTERFACES_MAX)
			return;
		if ((one->ifa_flags & (running | IFF_LOOPBACK)) != running ||
			is_chosen(interfaces, one->ifa_name))
			continue;
		/* No link-local address: a peer cannot choose the link. */
		if (choose_named(&interfaces->at[interfaces->count], all, one->ifa_name,
			    strlen(one->ifa_name), family, 2))
			interfaces->count++;
	}
}

static int choose_by_master(struct rd_interfaces *interfaces, const struct ifaddrs *all,
	const struct rd_settings *settings)
{
	struct rd_interface *first = &interfaces->at[0];
	int err = choose_by_address(first, all, settings);

	if (err)
		return err;
	interfaces->count = interfaces->shared = 1;
	if (!rd_address_is_loopback(&first->address))
		add_reserve(interfaces, all, first->address.ss_family);
	return 0;
}

int rd_interfaces_choose(struct rd_interfaces *interfaces, const struct rd_settings *settings)
{
	struct ifaddrs *all;
	int err;

	memset(interfaces, 0, sizeof(*interfaces));
	if (getifaddrs(&all))
		return rd_fail_errno("cannot list the network interfaces");
	if (settings->interface[0])
		err = choose_by_names(interfaces, all, settings);
	else
		err = choose_by_master(interfaces, all, settings);
	freeifaddrs(all);
	return err;
}
