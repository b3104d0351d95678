/*
 * Numeric addresses of hosts.
 */
#ifndef RUN_BASE_ADDRESS_H
#define RUN_BASE_ADDRESS_H

#include <stdbool.h>

/* Whether the address is one that other nodes cannot reach. */
bool address_is_loopback(const char *address);

#endif
