/* A shrink's side of the ranks that come to the host (shrink.h). */
#ifndef RD_SHRINK_GUEST_H
#define RD_SHRINK_GUEST_H

#include "bootstrap/shrink/state.h"

/* Goes to this rank, and waits for its plan, which the settings get. 0; 1: it is not there, and its
   fate is set; 2: it lives, and the ranks begin again; else an error. */
int rd_guest_meet(struct rd_shrink *shrink, int host, struct rd_settings *settings);
/* As rd_shrink_agree(). refuses: the error is that of vote.h. */
int rd_guest_agree(struct rd_shrink *shrink, int error, bool refuses);

#endif
