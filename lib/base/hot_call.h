/* Code that every call runs, and what it reads. */
#ifndef RD_HOT_CALL_H
#define RD_HOT_CALL_H

#include <stdbool.h>

/*
 * The functions of a short call that repeats the last. Compilers give them a section of their own,
 * and GNU's linker puts those side by side: out of the cold, a call waits for fewer lines.
 */
#define RD_HOT_CALL __attribute__((hot))

/* The variables of the process that each call reads, and few write, in a line of their own. */
struct rd_process {
	/* Between the first process that called rd_forks_watch() and this one. */
	_Alignas(64) unsigned forks;
	_Atomic unsigned groups; /* threads with an open one, and those that ended inside theirs */
	_Atomic bool call_sites_set; /* some thread has set a text: most programs never do */
};

_Static_assert(sizeof(struct rd_process) == 64, "it is one line");

extern struct rd_process rd_process __attribute__((visibility("hidden")));

#endif
