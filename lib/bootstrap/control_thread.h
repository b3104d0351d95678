/*
 * The control connection's thread. It alone touches the sockets, the participant and the
 * coordinator, which decide what messages are sent; the thread carries them, and waits for events
 * and deadlines.
 */
#ifndef RD_CONTROL_THREAD_H
#define RD_CONTROL_THREAD_H

#include "bootstrap/control_state.h"

/* The marks of epoll events, beside the numbers of the server's connections. */
#define RD_MARK_EVENT UINT64_MAX /* control->event_fd */
#define RD_MARK_DOOR (UINT64_MAX - 1)
#define RD_MARK_CLIENT (UINT64_MAX - 2)
#define RD_MARK_WATCH (UINT64_MAX - 3)
#define RD_MARK_STATUS (UINT64_MAX - 4)
#define RD_MARK_LINEAGE (UINT64_MAX - 5)
#define RD_MARK_LINKS (UINT64_MAX - 6)

/* The thread ends once it has left, or `quit` is requested; its caller joins control->thread. */
int rd_control_thread_start(struct rd_control *control);

#endif
