/*
 * The table of transports, in the order in which equal costs are decided. Adding a transport is one
 * file, a declaration here and a line in transports.c.
 */
#ifndef RD_TRANSPORTS_H
#define RD_TRANSPORTS_H

#include "place.h"
#include "rondo/transport.h"
#include "settings.h"

extern const struct rd_transport rd_transport_loop;
extern const struct rd_transport rd_transport_shm;
extern const struct rd_transport rd_transport_tcp;

extern const struct rd_transport *const rd_transports[]; /* NULL at the end */

/* By name; NULL: none. */
const struct rd_transport *rd_transport_find(const char *name);

#endif
