/* Trials: run code that may crash or hang in a forked process, and report its end. */
#ifndef RD_TRIAL_H
#define RD_TRIAL_H

/*
 * Runs body(argument) in a forked process, and kills it after timeout_ms. Returns the body's
 * result, with its reason recorded.
 *
 * A body that does not return gives an error whose reason names the stage of rd_trial_stage(), if
 * any. RONDO_SYSTEM: "crashed (Segmentation fault) in probe() of gate" or "ended the process".
 * RONDO_TIMEOUT: "hung for 5.0 s", the time of that stage alone. RONDO_MEMORY: "was killed from
 * outside". Where the program ignores SIGCHLD, no status is left: "crashed, or ended the process".
 *
 * Changes that the body makes to memory are lost. In a process with threads, the body may call
 * only functions that are safe in a forked child.
 */
int rd_trial(int (*body)(void *argument), void *argument, int timeout_ms);

/* Records the stage of the body, for the reason. Outside a body it does nothing. */
void rd_trial_stage(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
