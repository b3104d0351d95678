/* Code that every call runs, and what it reads. */
#ifndef RD_HOT_CALL_H
#define RD_HOT_CALL_H

/*
 * The functions of a short call that repeats the last. Compilers give them a section of their own,
 * and GNU's linker puts those side by side: out of the cold, a call waits for fewer lines.
 */
#define RD_HOT_CALL __attribute__((hot))

/* The variables of the process that each call reads: together they are one line of the cache. */
#define RD_HOT_DATA __attribute__((section("rondo_hot_data"), visibility("hidden")))

#endif
