/* The way of a arguments into a call. */
#ifndef RD_CALLS_H
#define RD_CALLS_H

#include "api/arguments.h"

/* Checks it, then runs it now, queues it, or adds it to the open group. */
int rd_submit(const struct rd_arguments *arguments);

#endif
