/* The place of this process, and what can be asked of two places (rondo/place.h). */
#ifndef RD_PLACE_H
#define RD_PLACE_H

#include <stdbool.h>

#include "rondo/place.h"
#include "settings.h"

/* The place of the calling process. settings->host, where set, replaces both host fields. */
void rd_place_here(struct rd_place *place, const struct rd_settings *settings);

bool rd_place_same_host(const struct rd_place *a, const struct rd_place *b);

/* False where a string is not terminated: bytes off a wire are not trusted. */
bool rd_place_sound(const struct rd_place *place);

#endif
