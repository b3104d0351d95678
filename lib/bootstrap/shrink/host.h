/* A shrink's side of the lowest rank, to which the others come (shrink.h). */
#ifndef RD_SHRINK_HOST_H
#define RD_SHRINK_HOST_H

#include "bootstrap/shrink/state.h"

/* Waits for all that may come, and sends them the plan, which the settings get, too. */
int rd_host_meet(struct rd_shrink *shrink, struct rd_settings *settings);
/* As rd_shrink_agree(). refuses: the error is that of vote.h. */
int rd_host_agree(struct rd_shrink *shrink, int error, bool refuses);
/* Closes what is open. */
void rd_host_finish(struct rd_shrink *shrink);

/* Room for a visit: a free one; else that of a stranger, which goes: the oldest that has shown no
   secret, or the oldest. NULL: none. */
struct rd_visit *rd_host_find_room(struct rd_shrink *shrink);

#endif
