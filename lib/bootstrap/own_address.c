#include "bootstrap/own_address.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/log.h"
#include "topo/sysfs.h"

/* Towards an address for documentation. Some sandboxes lead packets there to the loopback. */
static bool address_towards(char text[RD_NUMERIC_ADDRESS], const char *far)
{
	struct rd_addresses there;
	struct sockaddr_storage here;

	return !rd_addresses_find(&there, far, 9, AI_NUMERICHOST) &&
	       rd_address_towards(&here, &there.at[0]) && !rd_address_is_loopback(&here) &&
	       rd_address_print_host(text, (struct sockaddr *)&here);
}

/* ---- Interfaces ---------------------------------------------------------------------------- */

/* A network card has a device, and one that lies above others, as a bond or a VLAN, has links to
   them. The end of a container's cable has neither. */
static bool leads_out(const char *port)
{
	char(*names)[RD_SYSFS_NAME_SIZE], directory[64];
	bool found = false;

	snprintf(directory, sizeof(directory), "sys/class/net/%.20s", port);
	int count = rd_sysfs_list(&names, "", directory);

	for (int i = 0; i < count; i++)
		found |= strcmp(names[i], "device") == 0 || strncmp(names[i], "lower_", 6) == 0;
	free(names);
	return found;
}

/* As docker0: a bridge of which no port leads to another host. */
static bool is_for_containers(const char *name)
{
	char(*ports)[RD_SYSFS_NAME_SIZE], directory[64];
	bool found = false;

	if (!rd_sysfs_exists("", "sys/class/net/%s/bridge", name))
		return false;
	snprintf(directory, sizeof(directory), "sys/class/net/%.20s/brif", name);
	int count = rd_sysfs_list(&ports, "", directory);

	for (int i = 0; i < count && !found; i++)
		found = leads_out(ports[i]);
	free(ports);
	return !found;
}

/* Whether a route by a gateway leaves there: it leads to more than the interface's own network. */
static bool has_gateway(const char *name)
{
	char line[256], interface[IF_NAMESIZE];
	FILE *file = rd_fopen("/proc/net/route", O_RDONLY | O_NONBLOCK);
	bool found = false;
	unsigned flags;

	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%15s %*s %*s %x", interface, &flags) == 2 &&
			(flags & RTF_GATEWAY) && strcmp(interface, name) == 0;
	if (file)
		fclose(file);
	return found;
}

/* A better address has a higher rating; 0: none. */
static int rate(const struct ifaddrs *one)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)one->ifa_addr;

	if (!one->ifa_addr || !(one->ifa_flags & IFF_UP) || !(one->ifa_flags & IFF_RUNNING))
		return 0;
	if (one->ifa_addr->sa_family == AF_INET)
		return 2;
	/* A link-local address leads nowhere without the link's name. */
	return one->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

/* Those that may lead to other hosts, and then those that do. */
static int rate_outward(const struct ifaddrs *one)
{
	int rating = rate(one);

	if (rating == 0 || (one->ifa_flags & IFF_LOOPBACK) || is_for_containers(one->ifa_name))
		return 0;
	return rating + 2 * has_gateway(one->ifa_name);
}

static int rate_loopback(const struct ifaddrs *one)
{
	return one->ifa_flags & IFF_LOOPBACK ? rate(one) : 0;
}

/* The best address of the interfaces of this name; NULL: of any. */
static bool address_of_interface(char text[RD_NUMERIC_ADDRESS],
	int (*rate_one)(const struct ifaddrs *one), const char *name, size_t length)
{
	const struct ifaddrs *best = NULL;
	struct ifaddrs *all;
	int most = 0;
	bool got;

	if (getifaddrs(&all))
		return false;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		int rating;

		if (name && (strncmp(one->ifa_name, name, length) != 0 || one->ifa_name[length]))
			continue;
		rating = rate_one(one);
		if (rating > most) {
			most = rating;
			best = one;
		}
	}
	got = best && rd_address_print_host(text, best->ifa_addr);
	freeifaddrs(all);
	return got;
}

/* ---- The choice ---------------------------------------------------------------------------- */

static void warn_of_loopback(const char *address)
{
	static atomic_bool warned;

	if (!atomic_exchange(&warned, true))
		rd_log(RD_WARN, RD_BOOTSTRAP,
			"ranks meet at %s, which other hosts do not reach: no interface to them is "
			"up; set RONDO_INTERFACE to one",
			address);
}

int rd_own_address(char text[RD_NUMERIC_ADDRESS])
{
	const char *names = rd_environment("RONDO_INTERFACE");
	char quote[41];

	if (names) {
		size_t length = strcspn(names, ",");

		if (address_of_interface(text, rate, names, length))
			return 0;
		return rd_fail(RONDO_SETTING,
			"RONDO_INTERFACE is \"%s\": its first interface does not exist, is down, or "
			"has no IP address",
			rd_quotable(quote, names));
	}
	if (address_towards(text, "192.0.2.1") || address_towards(text, "2001:db8::1") ||
		address_of_interface(text, rate_outward, NULL, 0))
		return 0;
	if (address_of_interface(text, rate_loopback, NULL, 0)) {
		warn_of_loopback(text);
		return 0;
	}
	return rd_fail(RONDO_SYSTEM, "this host has no IP address at which ranks could meet");
}
