/* Filters of system calls, as containers and services have them: seccomp(2). */
#ifndef FILTER_H
#define FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>

/* By which the C library waits for events, and renames a file. */
#ifdef SYS_epoll_wait
#define FILTER_EPOLL_WAIT SYS_epoll_wait
#else
#define FILTER_EPOLL_WAIT SYS_epoll_pwait
#endif
#ifdef SYS_rename
#define FILTER_RENAME SYS_rename
#else
#define FILTER_RENAME SYS_renameat
#endif

/* From here on this call (SYS_accept4) fails with this errno, in this thread, and in those and the
   processes that it starts. False: there are no filters here. */
bool forbid(unsigned call, unsigned error);
/* The same in all threads of this process. */
bool forbid_in_all_threads(unsigned call, unsigned error);

struct watched_call {
	int thread; /* gettid(2) of the caller, */
	unsigned long long arguments[6]; /* and what it passes; addresses are its own */
};

/* From here on each such call of this thread, and of those and the processes that it starts, waits
   for `before`, which returns the errno with which it fails; 0: the kernel performs it. `before`
   runs in a thread of its own. One kind of calls can be watched. False: none can here. A thread
   that ends the process does not watch SYS_openat: at its end LeakSanitizer opens files while all
   other threads are stopped. */
bool watch_calls(unsigned call, int (*before)(const struct watched_call *call));
/* The same in all threads of this process, but that `before` makes no such call. */
bool watch_calls_in_all_threads(unsigned call, int (*before)(const struct watched_call *call));
/* Copies a text that the call passes, or its beginning. */
void watched_text(
	const struct watched_call *call, unsigned long long address, char *text, size_t size);

#endif
