/*
 * The process that the user starts. It starts the agent, which does all the work, as its child, and
 * lives to end what is left when the agent is killed; the agent ends all when the guard is. So no
 * rank, and nothing that a rank started, outlives rondo-run.
 */
#ifndef RUN_GUARD_H
#define RUN_GUARD_H

#include <signal.h>

/* The agent gets this signal when the guard has died... */
#define GUARD_DIED SIGRTMIN
/* ...and this one when the job is to end. Its value is the signal that the guard got; 0: a second
   request, which ends the ranks at once. */
#define GUARD_REQUEST (SIGRTMIN + 1)

/*
 * Signals within this time are one request to end the job: timeout(1) sends a signal to its child,
 * and then to the child's group. systemctl, scancel and pkill signal the guard and the agent, so a
 * signal to the agent itself never counts as a second request.
 */
#define GUARD_REQUEST_MS 1000

/*
 * Returns in the child, which is the agent, in a process group of its own. The caller becomes the
 * guard: it passes all signals on to the agent, those of `requests` as GUARD_REQUEST, and exits as
 * the agent does. front_fd has further requests (run/hosts/remote.h), and is closed in the child;
 * -1: none.
 *
 * Exits with 1, with one line on stderr, where the child cannot be started.
 */
void guard_start(const sigset_t *requests, int front_fd);

#endif
