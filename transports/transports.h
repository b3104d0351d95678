/*
 * The table of transports; of two with equal cost the earlier one wins. A new transport is one
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

/* NULL-terminated. Plug-ins are added behind the built-in ones; its elements are atomic for
   that. */
extern const struct rd_transport *_Atomic rd_transports[RD_TRANSPORTS_KNOWN + 1];

/* By name; NULL: none. */
const struct rd_transport *rd_transport_find(const char *name);

/* Adds a transport of a plug-in (plugin.c), for good. RONDO_UNSUPPORTED where the table is full. */
int rd_transport_add(const struct rd_transport *transport);

#endif
