/* Identity of this host. */
#ifndef RD_IDENTITY_H
#define RD_IDENTITY_H

#include "rondo/place.h"

/* Sets host_name and host_id, and no other field. */
void rd_place_identify(struct rd_place *place);

#endif
