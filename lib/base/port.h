/* Addresses and ports where no setting gives one. */
#ifndef RD_PORT_H
#define RD_PORT_H

#include <stdbool.h>

/* Connections that wait to be accepted: as many as the kernel grants by default. SOMAXCONN is 128
   in some C libraries. */
#define RD_BACKLOG 4096
#define RD_MASTER_PORT 29500 /* where MASTER_PORT is not set, as in torchrun */

/* The loopback address of this host: "127.0.0.1", or "::1" where it has no IPv4. */
const char *rd_loopback(void);
/* Returns a socket that listens there, at a port of the kernel's choice; -1, and errno. */
int rd_listen_on_loopback(int *port);

/* The port at which a socket is bound; -1, and errno. */
int rd_port_of(int fd);

/* Whether this is a link-local address of IPv6 without its interface ("fe80::1", not
   "fe80::1%eth0"): it leads nowhere. */
bool rd_address_lacks_zone(const char *address);

/*
 * Returns a port that is free now at the address of a bound socket, for a program that listens
 * there later; -1, and errno. The kernel does not give it to others meanwhile.
 */
int rd_port_beside(int fd);

/*
 * Draws a port outside of the range from which the kernel gives any port; 0: that range leaves
 * none. Another program may listen there: try RD_PORT_DRAWS. `root` is "", or a folder with another
 * proc/.
 */
int rd_port_draw(const char *root);
#define RD_PORT_DRAWS 100

/*
 * Derives the port at which ranks meet from MASTER_PORT, which stays free for the program: 2000
 * below it, wrapped into 1024..32767. There no port is privileged, and the kernel takes none for
 * outgoing connections. Jobs at neighbouring MASTER_PORTs get neighbouring ports.
 */
static inline int rd_port_from_master(int master_port)
{
	int least = 1024, count = 32768 - least;

	return least + (master_port - 2000 - least + count) % count;
}

#endif
