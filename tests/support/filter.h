/* Filters of system calls, as containers and services have them: seccomp(2). */
#ifndef FILTER_H
#define FILTER_H

#include <stdbool.h>

/* From here on this call (SYS_accept4) fails with this errno, in this thread, and in those and the
   processes that it starts. False: there are no filters here. */
bool forbid(unsigned call, unsigned error);
/* The same in all threads of this process. */
bool forbid_in_all_threads(unsigned call, unsigned error);

#endif
