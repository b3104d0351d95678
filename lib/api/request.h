/* Requests of the public header: groups of calls that were prepared, to be started. */
#ifndef RD_REQUEST_H
#define RD_REQUEST_H

#include "comm/task.h"

/* Makes a request of calls on one comm. On success takes over what they have; the array stays the
   caller's. */
int rd_request_create(rondo_request **request, const struct rd_task *tasks, int count);

#endif
