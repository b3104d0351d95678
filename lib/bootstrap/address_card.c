#include "bootstrap/address_card.h"

#include <arpa/inet.h>
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
#include <sys/random.h>

#include "base/descriptor.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/port.h"
#include "net/socket.h"
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

/*
 * This host's address at which its rank 0 meets the others, where nothing gives MASTER_ADDR: of the
 * first interface that RONDO_INTERFACE names, or else that from which packets leave by the default
 * route. Without that route, it takes an interface that is up, first those with a gateway, and no
 * bridge of containers. The last is the loopback, with a warning. RONDO_SETTING; RONDO_SYSTEM:
 * there is none.
 */
static int own_address(char text[RD_NUMERIC_ADDRESS])
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

/* ---- The socket ---------------------------------------------------------------------------- */

/* At this address alone, whatever networks this host has besides. */
int rd_address_card_open(struct rd_address_card *card, int *fd, int port)
{
	struct rd_addresses own;
	int err = own_address(card->address);

	*fd = -1;
	if (err)
		return err;
	if (getrandom(card->key, sizeof(card->key), 0) != sizeof(card->key))
		return rd_fail_errno("no random number for the rendezvous");
	if (!rd_addresses_find(&own, card->address, port, AI_NUMERICHOST))
		*fd = rd_listen_at(&own.at[0], port);
	card->port = *fd < 0 ? -1 : rd_port_of(*fd);
	if (card->port > 0)
		return 0;
	err = rd_fail_errno(port ? "rank 0 cannot listen at RONDO_PORT %d"
				 : "rank 0 cannot listen at any port (%d)",
		port);
	rd_close_failed(*fd);
	*fd = -1;
	return err;
}

/* ---- As text ------------------------------------------------------------------------------- */

void rd_address_card_print(char text[RD_ADDRESS_CARD_TEXT], const struct rd_address_card *card)
{
	int length = snprintf(text, RD_ADDRESS_CARD_TEXT, "%.63s/%d/", card->address, card->port);

	for (size_t i = 0; i < sizeof(card->key); i++)
		length += snprintf(text + length, 3, "%02x", card->key[i]);
}

static bool is_address(const char *text)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

static unsigned char digit(char c)
{
	return (unsigned char)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Two hexadecimal digits a byte. */
static bool read_key(unsigned char key[RD_KEY_SIZE], const char *text)
{
	if (strlen(text) != 2 * RD_KEY_SIZE || strspn(text, "0123456789abcdef") != 2 * RD_KEY_SIZE)
		return false;
	for (size_t i = 0; i < RD_KEY_SIZE; i++)
		key[i] = (unsigned char)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
	return true;
}

int rd_address_card_read(struct rd_address_card *card, const char *text)
{
	size_t length = strcspn(text, "/");
	const char *end = NULL;
	char quote[41];
	int64_t port = 0;

	if (length < sizeof(card->address) && text[length]) {
		snprintf(card->address, sizeof(card->address), "%.*s", (int)length, text);
		end = rd_read_number(&port, text + length + 1);
	}
	if (!end || *end != '/' || port < 1 || port > 65535 || !is_address(card->address) ||
		!read_key(card->key, end + 1))
		return rd_fail(
			RONDO_PROTOCOL, "\"%s\" is not where ranks meet", rd_quotable(quote, text));
	card->port = (int)port;
	return 0;
}

void rd_address_card_use(struct rd_settings *settings, const struct rd_address_card *card)
{
	snprintf(settings->address, sizeof(settings->address), "%s", card->address);
	settings->port = card->port;
	settings->has_key = true;
	memcpy(settings->key, card->key, sizeof(settings->key));
}
