/*
 * What shm says over a Unix socket: packets, with descriptors along. Nothing here blocks.
 */
#ifndef RD_SHM_SOCKET_H
#define RD_SHM_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whose process is at the other end? False: not one of this user. pid 0: not to be seen from here.
 */
bool rd_shm_is_own_user(int socket, pid_t *pid);

/* With two descriptors at most, which stay the caller's. False: it did not go, with errno. */
bool rd_shm_packet_send(
	int socket, const void *packet, size_t size, const int *fds, size_t fd_count);

/*
 * How long the packet is that came; 0: the end of the line; or -1 with errno. One that was cut
 * short is of length 1. Descriptors that came with it are the caller's to close; -1: none.
 */
ssize_t rd_shm_packet_recv(int socket, void *packet, size_t size, int fds[2]);

#endif
