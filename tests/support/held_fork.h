/* Forks while another thread holds a lock of the library's: for tests of a child's calls. */
#ifndef TEST_HELD_FORK_H
#define TEST_HELD_FORK_H

/* To be called by a function that the library calls below the lock. In the thread that
   fork_while() made, it returns after the fork, or after a while if fork() waits for the lock. */
void held_fork_dwell(void);

/* Runs `call` in a thread, forks when it dwells, and runs `call` in the child, too. Asserts that
   the child ends. */
void fork_while(void (*call)(void));

#endif
