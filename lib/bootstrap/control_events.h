/*
 * The descriptors that the control thread watches for one control connection. The first comm of a
 * job has an epoll of its own, for its sockets, which the job's epoll watches. A group's are in the
 * job's, with the control connection and the mark in each event.
 */
#ifndef RD_CONTROL_EVENTS_H
#define RD_CONTROL_EVENTS_H

#include "bootstrap/control_state.h"

/* The marks of events, beside the numbers of the server's connections. */
#define RD_MARK_DOOR UINT64_MAX
#define RD_MARK_CLIENT (UINT64_MAX - 1)
#define RD_MARK_ELSEWHERE (UINT64_MAX - 2)
#define RD_MARK_LINKS (UINT64_MAX - 3)
#define RD_MARK_CANCEL (UINT64_MAX - 4)

/* Which event in the job's epoll is a group's; false: none. */
bool rd_control_find_event(uint64_t data, struct rd_control **control, uint64_t *mark);

/* Watches a descriptor. 0, or -1 and errno. */
int rd_control_watch(struct rd_control *control, int fd, uint32_t events, uint64_t mark);
void rd_control_unwatch(const struct rd_control *control, int fd);
/* The thread lets go of it: no event is its any more. */
void rd_control_end_events(struct rd_control *control);

/* The links', which comms of the job may share: each event is one of all these. */
void rd_control_watch_links(struct rd_control *control, int fd);
void rd_control_unwatch_links(struct rd_control *control);
void rd_control_stir_links(struct rd_control *control);

#endif
