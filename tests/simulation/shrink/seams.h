/*
 * The seams at which the simulation cuts off the library's own code of a shrink
 * (lib/bootstrap/shrink/, lib/api/shrink.c). Below these names are the simulated network and the
 * simulated making of comms. Each of those sources includes this file first.
 */
#ifndef SIMULATION_SEAMS_H
#define SIMULATION_SEAMS_H

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* sockets.c, in place of net/socket.h and bootstrap/control_socket.h */
#define rd_resolve sim_resolve
#define rd_listen_near sim_listen_near
#define rd_socket_place sim_socket_place
#define rd_connect_start sim_connect_start
#define rd_connect_finish sim_connect_finish
#define rd_accept sim_accept
#define rd_socket_tune sim_socket_tune
#define rd_control_socket_open sim_connection_open
#define rd_control_socket_close sim_connection_close
#define rd_control_socket_watch sim_connection_watch
#define rd_control_socket_has_shown_key sim_connection_has_shown_key
#define rd_control_socket_read sim_connection_read
#define rd_control_socket_take sim_connection_take
#define rd_control_socket_put sim_connection_put
#define rd_control_socket_flush sim_connection_flush
#define rd_control_socket_is_flushed sim_connection_is_flushed
int sim_epoll_create(void);
int sim_epoll_control(int operation, int fd, const struct epoll_event *event);
int sim_epoll_wait(struct epoll_event *events, int count, int timeout_ms);
int sim_close(int fd);

/* comms.c, in place of bootstrap/control.h, api/communicator.h and shrink/watch.h */
#define rd_control_lineage sim_control_lineage
#define rd_control_members sim_control_members
#define rd_control_presence sim_control_presence
#define rd_control_lose sim_control_lose
#define rd_control_end_lineage sim_control_end_lineage
#define rd_shrink_watch_start sim_shrink_watch_start
#define rd_shrink_watch_stop sim_shrink_watch_stop
#define rd_comm_make sim_comm_make
#define rd_comm_give_up sim_comm_give_up
#define rd_comm_check_origin sim_comm_check_origin
#define rd_comm_failure sim_comm_failure
#define rd_comm_refuse_second sim_comm_refuse_second
#define rondo_comm_revoke sim_comm_revoke
#define rondo_comm_shrink sim_comm_shrink

/* ranks.c: all ranks are in one thread. */
#define rd_fail sim_fail
#define rd_fail_errno sim_fail_errno
#define rondo_last_error sim_last_error
int64_t sim_clock_ms(void);
void sim_sleep(int ms);
void *sim_calloc(size_t count, size_t size);
void sim_free(void *memory);

#ifdef SIMULATED_SOURCE
#define epoll_create1(flags) sim_epoll_create()
#define epoll_ctl(epoll, operation, fd, event) \
	((void)(epoll), sim_epoll_control(operation, fd, event))
#define epoll_wait(epoll, events, count, timeout) \
	((void)(epoll), sim_epoll_wait(events, count, timeout))
#define close(fd) sim_close(fd)
#define getsockname(fd, address, size) ((void)(fd), (void)(address), (void)(size), 0)
#define poll(fds, count, timeout) sim_sleep(timeout)
#define rd_clock_ms() sim_clock_ms()
#define calloc(count, size) sim_calloc(count, size)
#define free(memory) sim_free(memory)
#endif

#endif
