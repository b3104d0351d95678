/*
 * The process that the user starts. It starts the agent, which does all the work, as its child, and
 * lives to end what is left when the agent is killed; the agent ends all when the guard is. So no
 * rank, and nothing that a rank started, outlives rondo-run.
 */
#ifndef RUN_GUARD_H
#define RUN_GUARD_H

#include <signal.h>

/* The agent gets this signal when the guard has died. */
#define GUARD_DIED SIGRTMIN

/*
 * Returns in the child, which is the agent, in a process group of its own. The caller becomes the
 * guard: it passes all signals on to the agent, and exits as the agent does. front_fd has further
 * signals (run/hosts/remote.h), and is closed in the child; -1: none.
 *
 * Exits with 1, with one line on stderr, where the child cannot be started.
 */
void guard_start(int front_fd);

#endif
