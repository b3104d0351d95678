/* Identity of this host. */
#ifndef RD_IDENTITY_H
#define RD_IDENTITY_H

#include "rondo/place.h"

/* Sets host_name and host_id, and no other field. */
void rd_place_identify(struct rd_place *place);

/* Returns the inode of this process's PID namespace; 0 without /proc. */
uint32_t rd_pid_space(void);

#endif
