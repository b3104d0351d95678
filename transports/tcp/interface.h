/*
 * The network interfaces that tcp uses.
 */
#ifndef RD_TCP_INTERFACE_H
#define RD_TCP_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/settings.h"
#include "net/address.h"

#define RD_INTERFACES_MAX 8

struct rd_interface {
	char name[IF_NAMESIZE]; /* "?" where no interface has the address */
	struct sockaddr_storage address; /* IPv4 or IPv6; port 0 */
	socklen_t address_size;
	int prefix; /* length of the network prefix, in bits */
	bool is_contested; /* another interface is on its network, and the kernel may choose that */
};

struct rd_interfaces {
	int count;
	int shared; /* the first `shared` carry channels; the others are in reserve */
	struct rd_interface at[RD_INTERFACES_MAX];
};

/*
 * Chooses the interfaces in settings->interface (names with commas) where it is set. Only these
 * may be contested.
 *
 * Otherwise chooses the interface from which packets to settings->address leave (MASTER_ADDR;
 * empty: the loopback). Unless that is the loopback, all others that are up and lead out are in
 * reserve. No packet is sent.
 *
 * RONDO_SETTING, with a reason that lists the interfaces there are, where settings->interface
 * names another. RONDO_UNREACHABLE where settings->address is no address, or no route leads there.
 */
int rd_interfaces_choose(struct rd_interfaces *interfaces, const struct rd_settings *settings);

/* Returns whether the address is on the interface's own network. */
bool rd_interface_is_near(
	const struct rd_interface *interface, const struct sockaddr_storage *address);

/* Binds a socket to the interface itself, whatever the routing table says; false, and errno. From
   Linux 5.7 on, any process may. */
bool rd_interface_bind(const struct rd_interface *interface, int fd);

/* The index of the interface that carries a connected socket. 0 where the peer has an address of
   this host's: the kernel moves those bytes itself. */
int rd_interfaces_rail(const struct rd_interfaces *interfaces, int fd);

#endif
