/* Where the ranks of a new comm meet. */
#ifndef RD_MEET_H
#define RD_MEET_H

#include "base/settings.h"

/*
 * Sets address, port and rendezvous_fd of settings that were read: by the program's unique id, over
 * PMI, or at the socket that a launcher opened. Otherwise they stay as they are. In rank 0,
 * rendezvous_fd is then the new comm's own. Waits for the other ranks where that takes PMI.
 */
int rd_meet_where(struct rd_settings *settings, const struct rondo_config *config);

#endif
