/*
 * The status of the ranks on this host, as text. docs/rondo-run.md describes both forms.
 */
#ifndef RUN_STATUS_PRINT_H
#define RUN_STATUS_PRINT_H

#include <stdbool.h>

/*
 * Asks the ranks of this host, of the job alone where it is not NULL, and prints JSON or
 * Prometheus's text on stdout. Returns the exit status: 0 where all are well, 1 where a comm has
 * failed, a process does not answer, or there is none, with one line on stderr.
 */
int status_run(const char *job, bool prometheus);

#endif
