/*
 * Which network interface tcp uses, and addresses as text.
 */
#ifndef RD_TCP_INTERFACE_H
#define RD_TCP_INTERFACE_H

#include <stdbool.h>
#include <sys/socket.h>

#include "settings.h"

#define RD_ADDRESS_TEXT 72

struct rd_interface {
	char name[RD_STRING_MAX]; /* "?" where no interface has the address */
	struct sockaddr_storage address; /* IPv4 or IPv6; port 0 */
	socklen_t address_size;
};

/*
 * settings->interface where it is set, otherwise the one from which packets to settings->address
 * (MASTER_ADDR; empty: the loopback) leave. No packet is sent.
 * RONDO_SETTING, with a story that names the interfaces there are, where settings->interface is
 * none of them; RONDO_UNREACHABLE where settings->address is no address, or nothing leads there.
 */
int rd_interface_choose(struct rd_interface *interface, const struct rd_settings *settings);

/* "10.0.0.1:4711" or "[fd00::1]:4711"; returns text. */
const char *rd_address_text(const struct sockaddr_storage *address, char text[RD_ADDRESS_TEXT]);

socklen_t rd_address_size(int family);

#endif
