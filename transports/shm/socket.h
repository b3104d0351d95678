/*
 * The packets of shm over a Unix socket, with descriptors. No function here blocks.
 */
#ifndef RD_SHM_SOCKET_H
#define RD_SHM_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

/* Closes a descriptor and sets it to -1; -1 is none. */
static inline void rd_shm_fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Finds the process at the other end. False: it is not one of this user. pid 0: not visible from
   here. */
bool rd_shm_is_own_user(int socket, pid_t *pid);

/* Sends a packet with at most two descriptors, which stay the caller's. False: not sent, with
   errno. */
bool rd_shm_packet_send(
	int socket, const void *packet, size_t size, const int *fds, size_t fd_count);

/*
 * Receives a packet and returns its length; 0: the connection has ended; -1 with errno. A
 * truncated packet has length 1. The caller closes the descriptors that came with it; -1: none.
 */
ssize_t rd_shm_packet_recv(int socket, void *packet, size_t size, int fds[2]);

#endif
