/*
 * Descriptors of processes (Linux 5.4), without the C library: glibc has them since 2.36, musl not
 * at all.
 */
#ifndef RD_PIDFD_H
#define RD_PIDFD_H

#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

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

#endif
