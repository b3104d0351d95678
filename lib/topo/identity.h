/* What tells this host from others. */
#ifndef RD_IDENTITY_H
#define RD_IDENTITY_H

#include "rondo/place.h"

/* Fills in host_name and host_id alone. */
void rd_place_identify(struct rd_place *place);

#endif
