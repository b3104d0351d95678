/* Code that every call runs. */
#ifndef RD_HOT_CALL_H
#define RD_HOT_CALL_H

/*
 * The functions of a short call that repeats the last. Compilers give them a section of their own,
 * and linkers put those side by side: out of the cold, a call then waits for fewer pages and lines.
 */
#define RD_HOT_CALL __attribute__((hot))

#endif
