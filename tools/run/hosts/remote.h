/*
 * rondo-run as ssh starts it on a host, for --hosts. The front is the rondo-run that the user
 * started.
 *
 *   remote -> front, stdout   "rondo-run-remote VERSION ADDRESS\n"; then the ranks' output
 *   front -> remote, stdin    "SIZE\n" and SIZE bytes: strings that end with a zero, which are the
 *                             working directory, variables (NAME=VALUE), an empty one, arguments;
 *                             then a byte for each signal: its number
 *
 * The end of stdin is the end of the front, by any means: the remote side ends its ranks.
 */
#ifndef RUN_HOSTS_REMOTE_H
#define RUN_HOSTS_REMOTE_H

#include <stdbool.h>

#define REMOTE_OPTION "--remote"
#define REMOTE_HELLO "rondo-run-remote "
/* Among the variables: the job's secret, which becomes a descriptor. */
#define REMOTE_SECRET "RONDO_SECRET_TEXT="
/* Bytes of all strings. */
#define REMOTE_SIZE_MAX ((size_t)16 << 20)

/*
 * Answers the front, and takes over the working directory, the variables and the arguments that it
 * sends. stdin becomes /dev/null. Returns the descriptor for remote_signal(); -1, with one line on
 * stderr, where the front sends something else or nothing for REMOTE_WAIT_MS.
 */
#define REMOTE_WAIT_MS 120000
int remote_start(int *argc, char ***argv);
/* Frees the arguments. Also where it was not started, or failed. */
void remote_finish(void);

/* Reads from the descriptor when it is readable: a signal of the front, or SIGHUP once it has
   ended: *fd is closed and -1 then. 0: nothing. */
int remote_signal(int *fd);

#endif
