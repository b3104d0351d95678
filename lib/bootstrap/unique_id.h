/* Rendezvous by a unique id, which the program itself passes to the ranks
   (rondo_get_unique_id()). */
#ifndef RD_UNIQUE_ID_H
#define RD_UNIQUE_ID_H

#include "base/settings.h"

/*
 * Sets address, port and key of the settings, and clears the job's name. In rank 0 rendezvous_fd
 * becomes the socket that rondo_get_unique_id() opened, once for each id. RONDO_INVALID: these are
 * no such bytes; or rank 0 is not in the process that made the id, or has used it before.
 */
int rd_unique_id_meet(struct rd_settings *settings, const struct rondo_unique_id *id);

#endif
