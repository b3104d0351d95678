/* Trials: what may crash or hang is run in a forked process, and told of. */
#ifndef RD_TRIAL_H
#define RD_TRIAL_H

/*
 * Runs body(argument) in a forked process, which is killed when it takes longer than timeout_ms,
 * and returns what that returned, with its reason recorded. Else a reason that says what it was
 * doing, if rd_trial_stage() did: "crashed (Segmentation fault) in probe() of gate" or "ended the
 * process" with RONDO_SYSTEM, "hung for 5.0 s" with RONDO_TIMEOUT, "was killed from outside" with
 * RONDO_MEMORY. What the body changes in memory is lost. In a process with threads, the body must
 * make do with what a forked child may call there.
 */
int rd_trial(int (*body)(void *argument), void *argument, int timeout_ms);

/* In the body: what it is about to do, for the reason. Elsewhere: nothing. */
void rd_trial_stage(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
