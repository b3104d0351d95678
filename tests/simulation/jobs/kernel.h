/* The descriptors of ranks: sockets, epolls and eventfds. They fail as the kernel's do. */
#ifndef SIMULATION_JOBS_KERNEL_H
#define SIMULATION_JOBS_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>

#define KERNEL_PORT 29500 /* where rank 0 listens first */

/* The world begins: there is no descriptor, and no socket of sockets.h. */
void kernel_begin(void);
/* Whether the descriptor is a simulated one. */
bool kernel_has(int fd);
/* Descriptors of this rank that are open. */
int kernel_count(int rank);
/* The rank has died: its kernel closes all. vanishes: nothing is sent. */
void kernel_close_all(int rank, bool vanishes);
/* Whether epoll_wait() would return. */
bool kernel_is_ready(int fd);

/* Connections of this rank to others are reset. */
void kernel_reset(int rank);
/* Those between ranks of sim_rejects() are. */
void kernel_reject(void);
/* A connection of no rank comes, with bytes of one of four kinds. */
void kernel_intrude(int rank, int kind);

/* As the calls of the same names; an errno for -1. */
int kernel_socket(void);
int kernel_eventfd(void);
int kernel_epoll(void);
int kernel_bind(int fd, const struct sockaddr *address);
int kernel_listen(int fd);
int kernel_connect(int fd, const struct sockaddr *address);
int kernel_accept(int fd);
int kernel_name(int fd, struct sockaddr *address, socklen_t *size, bool of_peer);
int kernel_error(int fd);
ssize_t kernel_recv(int fd, void *bytes, size_t size, bool peeks);
ssize_t kernel_send(int fd, const void *bytes, size_t size);
int kernel_shutdown(int fd);
int kernel_close(int fd);
short kernel_poll(int fd);
int kernel_count_up(int fd, uint64_t by);
int kernel_count_out(int fd, uint64_t *value);
int kernel_epoll_ctl(int fd, int operation, int of, const struct epoll_event *event);
int kernel_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms);

#endif
