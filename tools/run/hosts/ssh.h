/*
 * A process of ssh, which runs rondo-run on a host.
 */
#ifndef RUN_HOSTS_SSH_H
#define RUN_HOSTS_SSH_H

#include <stdbool.h>
#include <sys/types.h>

struct ssh {
	pid_t pid;
	int pidfd;
	int in, out, err; /* our ends of its pipes, non-blocking */
};

/* Starts it, in a process group of its own. False, with one line on stderr, where that fails. */
bool ssh_start(struct ssh *ssh, const char *host, const char *program);

/* How rondo-run is started there: by its path, or by its name if we were. */
const char *ssh_program(const char *called);

#endif
