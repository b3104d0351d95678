/*
 * Finds where a process crashed, in the plug-in or in Rondo: a signal handler walks the stack.
 */
#ifndef CHECK_CRASH_H
#define CHECK_CRASH_H

#include <stdatomic.h>

enum crash_place {
	CRASH_UNKNOWN, /* neither was on the stack, or the stack could not be walked */
	CRASH_IN_PLUGIN, /* or in a library that it had called */
	CRASH_UNDER_PLUGIN, /* in a function of Rondo's that the plug-in had called */
	CRASH_IN_RONDO, /* and no function of the plug-in was on the stack */
};

/* From now on, a crash of this process sets *place, in memory that another process shares.
   of_plugin: any function or variable of the plug-in. */
void crash_watch(_Atomic int *place, const void *of_plugin);

#endif
