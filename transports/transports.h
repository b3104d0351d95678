/*
 * The table of transports, in the order in which equal costs are decided. Adding a transport is one
 * file, a declaration here and a line in transports.c.
 */
#ifndef RD_TRANSPORTS_H
#define RD_TRANSPORTS_H

#include "topo/place.h"
#include "rondo/transport.h"
#include "base/settings.h"

extern const struct rd_transport rd_transport_loop;
extern const struct rd_transport rd_transport_shm;
extern const struct rd_transport rd_transport_tcp;

#define RD_TRANSPORTS_KNOWN 16

/* NULL at the end. Plug-ins add to it, behind our own, which is why its elements are atomic. */
extern const struct rd_transport *_Atomic rd_transports[RD_TRANSPORTS_KNOWN + 1];

/* By name; NULL: none. */
const struct rd_transport *rd_transport_find(const char *name);

/* Adds a plug-in's (plugin.c), for good. RONDO_UNSUPPORTED where the table is full. */
int rd_transport_add(const struct rd_transport *transport);

#endif
