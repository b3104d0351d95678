/* The place of this process, and what can be asked of two places (rondo/place.h). */
#ifndef RD_PLACE_H
#define RD_PLACE_H

#include <stdbool.h>

#include "rondo/place.h"
#include "base/settings.h"

/*
 * The place of the calling process, on this machine or on that of settings->topo_file, where set:
 * on its host of our name, or on its only one. settings->host, where set, replaces both host
 * fields. Fails, with a reason, for want of memory, and for a file that cannot be used.
 */
int rd_place_here(struct rd_place *place, const struct rd_settings *settings);

bool rd_place_same_host(const struct rd_place *a, const struct rd_place *b);

#endif
