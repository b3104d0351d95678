/* The control thread's work for one control connection (job_thread.c calls it). */
#ifndef RD_CONTROL_THREAD_H
#define RD_CONTROL_THREAD_H

#include "bootstrap/control_state.h"
#include "bootstrap/peer_watch.h"

/* The marks of epoll events, beside the numbers of the server's connections. */
#define RD_MARK_DOOR UINT64_MAX
#define RD_MARK_CLIENT (UINT64_MAX - 1)
#define RD_MARK_LINEAGE (UINT64_MAX - 2)
#define RD_MARK_LINKS (UINT64_MAX - 3)
#define RD_MARK_CANCEL (UINT64_MAX - 4)
#define RD_MARK_ARRIVALS (UINT64_MAX - 5)

/* Takes the events of its sockets; rd_control_serve() follows. */
void rd_control_take_events(struct rd_control *control);
/* A process has died, of which a rank may be a member. */
void rd_control_died(struct rd_control *control, const struct rd_death *death);
/* The thread cannot wait for events any more. */
void rd_control_cannot_wait(struct rd_control *control);
/* Does what is due, and finds when more is. True: there is nothing more to do. */
bool rd_control_serve(struct rd_control *control, int64_t now_ms);

#endif
