/*
 * While the ranks of a shrink make the new comm, a thread watches their connections: a rank that
 * dies before it comes to the new comm ends the making at once, not by its timeout.
 */
#ifndef RD_SHRINK_WATCH_H
#define RD_SHRINK_WATCH_H

#include "bootstrap/shrink/connections.h"

/* Without it, where no thread can be made, the timeout ends the making. */
void rd_shrink_watch_start(struct rd_shrink *shrink);
/* Also where none was started. */
void rd_shrink_watch_stop(struct rd_shrink *shrink);

#endif
