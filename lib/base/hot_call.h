/* Code that every call runs. */
#ifndef RD_HOT_CALL_H
#define RD_HOT_CALL_H

/*
 * The functions of a short call that repeats the last. Compilers give them a section of their own,
 * and GNU's linker puts those side by side: out of the cold, a call waits for fewer lines.
 */
#define RD_HOT_CALL __attribute__((hot))

#endif
