/*
 * Descriptors of processes (Linux 5.4), without the C library: glibc has them since 2.36, musl not
 * at all.
 */
#ifndef RD_PIDFD_H
#define RD_PIDFD_H

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"

/* The same on every processor; the headers of older kernels lack it. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

/* For waitid(): P_PIDFD, which older C libraries lack. */
#define RD_P_PIDFD ((idtype_t)3)

/* As pidfd_open(2). Poll it for POLLIN: the process has ended. */
static inline int rd_pidfd_open(pid_t pid)
{
	return rd_above_stderr((int)syscall(SYS_pidfd_open, pid, 0));
}

/* As kill(2), of this process alone: once the kernel has reaped it, its number may be another's. */
static inline int rd_pidfd_kill(int fd, int signal)
{
	return (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
}

/* Reaps a child that got SIGKILL, as waitpid(2); -1 with ETIMEDOUT: it is there at until_ms of
   rd_clock_ms(), since the kernel keeps a process in state D. */
static inline pid_t rd_reap_killed(pid_t child, int *status, int64_t until_ms)
{
	pid_t got;

	while ((got = waitpid(child, status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
		if (rd_clock_ms() >= until_ms) {
			errno = ETIMEDOUT;
			return -1;
		}
		poll(NULL, 0, 1);
	}
	return got;
}

#endif
