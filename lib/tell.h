/* What a comm says of itself in the log once it is made, in lines of the kinds that docs/logs.md
 * lists. */
#ifndef RD_TELL_H
#define RD_TELL_H

#include "comm.h"

void rd_tell_comm(const struct rondo_comm *comm, const struct rd_member *members);

#endif
