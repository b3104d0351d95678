/*
 * The table of transports; of two with equal cost the earlier one wins. A new transport needs its
 * files, a declaration here and a line in transports.c.
 */
#ifndef RD_TRANSPORTS_H
#define RD_TRANSPORTS_H

#include "topo/place.h"
#include "rondo/transport.h"
#include "base/settings.h"

extern const struct rd_transport rd_transport_loop;
extern const struct rd_transport rd_transport_shm;
extern const struct rd_transport rd_transport_tcp;
extern const struct rd_transport rd_transport_verbs; /* with RD_HAS_VERBS */

#define RD_TRANSPORTS_KNOWN 16

/* NULL-terminated. Elements are atomic: plug-ins are added at run time, behind the built-in
   ones. */
extern const struct rd_transport *_Atomic rd_transports[RD_TRANSPORTS_KNOWN + 1];

/* By name; NULL: none. */
const struct rd_transport *rd_transport_find(const char *name);

/* Adds a transport of a plug-in (api/plugin.c), which stays. RONDO_UNSUPPORTED: the table is
   full. */
int rd_transport_add(const struct rd_transport *transport);

#endif
