/* Connections that the kernel resets on request, as a network would. */
#ifndef RESETS_H
#define RESETS_H

#include <stdbool.h>

/* Whether it does (CONFIG_INET_DIAG_DESTROY), and ss is here. */
bool can_reset_connections(void);

/* Resets all TCP connections of the calling process's host with another host of hosts.h. Returns
   their number. */
int reset_connections(int host);

#endif
