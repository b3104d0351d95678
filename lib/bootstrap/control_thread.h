/* The control thread's work for one control connection (job_thread.c calls it). */
#ifndef RD_CONTROL_THREAD_H
#define RD_CONTROL_THREAD_H

#include "bootstrap/control_state.h"
#include "bootstrap/peer_watch.h"

/* Takes the events of its own epoll; rd_control_serve() follows. */
void rd_control_take_events(struct rd_control *control);
/* Takes what has come over channels of trunks; the same. */
void rd_control_take_channels(struct rd_control *control);
/* Takes an event of a group, which has none; the same. */
void rd_control_take_event(struct rd_control *control, uint64_t mark);
/* A process has died, of which a rank may be a member. */
void rd_control_died(struct rd_control *control, const struct rd_death *death);
/* The thread cannot wait for events any more. */
void rd_control_cannot_wait(struct rd_control *control);
/* Does what is due, and finds when more is. True: there is nothing more to do. */
bool rd_control_serve(struct rd_control *control, int64_t now_ms);

#endif
