/* The place of this process (rondo/place.h). */
#ifndef RD_PLACE_H
#define RD_PLACE_H

#include <stdbool.h>

#include "rondo/place.h"
#include "base/settings.h"

/*
 * Sets *place to the place of the calling process. With settings->topo_file, the place is on that
 * file's host of our name, or on its only host. settings->host, if set, replaces both host fields.
 * Returns an error, with a reason, without memory, or for a file that cannot be used.
 */
int rd_place_here(struct rd_place *place, const struct rd_settings *settings);

/* identity.c. Sets host_name and host_id, and no other field. */
void rd_place_identify(struct rd_place *place);
/* Returns the inode of this process's PID namespace; 0 without /proc. */
uint32_t rd_pid_space(void);

bool rd_place_same_host(const struct rd_place *a, const struct rd_place *b);
/* Processes of two containers may have equal pids. */
bool rd_place_same_process(const struct rd_place *a, const struct rd_place *b);

#endif
