/*
 * IP addresses as the kernel has them, and as text.
 */
#ifndef RD_ADDRESS_H
#define RD_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#define RD_ADDRESSES_MAX 8
#define RD_ADDRESS_SIZE 72 /* bytes of an address as text, with its port or interface */
#define RD_NUMERIC_ADDRESS 64 /* bytes of an address without a port */

/* Those of a name. */
struct rd_addresses {
	int count;
	struct sockaddr_storage at[RD_ADDRESSES_MAX];
};

/* The addresses of a name, with this port; flags: as of getaddrinfo(). NULL, or why there are
   none. It may block as long as the resolver's own timeout. */
const char *rd_addresses_find(
	struct rd_addresses *addresses, const char *name, int port, int flags);

/* Bytes of an address of this family. */
socklen_t rd_address_size(int family);
int rd_address_port(const struct sockaddr_storage *address);
/* Whether both are of one host, whatever their ports. NULL is of none. */
bool rd_address_same_host(const struct sockaddr *one, const struct sockaddr_storage *other);
/* To a loopback address other hosts have no way. */
bool rd_address_is_loopback(const struct sockaddr_storage *address);
/* Whether it is one of this host's own. */
bool rd_address_is_local(const struct sockaddr_storage *address);
/* From which address of this host packets to this one leave. It sends none. False: no way leads
   there. */
bool rd_address_towards(struct sockaddr_storage *here, const struct sockaddr_storage *there);

/* "127.0.0.1:29500", "[::1]:29500". Returns text. */
const char *rd_address_print(char text[RD_ADDRESS_SIZE], const struct sockaddr_storage *address);
/* "127.0.0.1", "fe80::1%eth0". False, and "": it has no such text. */
bool rd_address_print_host(char text[RD_NUMERIC_ADDRESS], const struct sockaddr *address);

/* The address of this end of a socket: 0, or -1 and errno. */
int rd_local_address_get(struct sockaddr_storage *local, int fd);
/* "lo:127.0.0.1<29500>", with the interface, which the kernel has to be asked for. */
void rd_local_address_print(char text[RD_ADDRESS_SIZE], const struct sockaddr_storage *local);

#endif
