/*
 * The descriptors that the control thread watches for one control connection. The first comm of a
 * job has an epoll of its own, for its sockets, which the job's epoll watches. A group's are in the
 * job's, with the control connection and the mark in each event.
 */
#include "bootstrap/control_state.h"

#include <sys/epoll.h>

#include "bootstrap/job.h"

/* In the low bits of a control connection's address; 0 is an address alone, and 1 a trunk's. */
#define TAG_MASK UINT64_C(15)
#define TAG_FIRST 2

bool rd_control_find_event(uint64_t data, struct rd_control **control, uint64_t *mark)
{
	if ((data & TAG_MASK) < TAG_FIRST)
		return false;
	*control = (struct rd_control *)(uintptr_t)(data & ~TAG_MASK);
	*mark = UINT64_MAX - ((data & TAG_MASK) - TAG_FIRST);
	return true;
}

/* The data of events with this mark. */
static uint64_t event_of(struct rd_control *control, uint64_t mark)
{
	return control->group ? (uintptr_t)control | (UINT64_MAX - mark + TAG_FIRST) : mark;
}

int rd_control_watch(struct rd_control *control, int fd, uint32_t events, uint64_t mark)
{
	struct epoll_event event = { .events = events, .data.u64 = event_of(control, mark) };

	return epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void rd_control_unwatch(const struct rd_control *control, int fd)
{
	epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- Links ---------------------------------------------------------------------------------- */

static bool watches_links(const struct rd_control *control, const struct rd_control *with, int fd)
{
	return fd >= 0 && control->links_fd == fd && control->epoll_fd == with->epoll_fd;
}

/* Where another comm watches the same, its event is this one's. */
void rd_control_watch_links(struct rd_control *control, int fd)
{
	if (control->links_fd == fd)
		return;
	rd_control_unwatch_links(control);
	rd_control_watch(control, fd, EPOLLIN | EPOLLET, RD_MARK_LINKS);
	control->links_fd = fd;
}

void rd_control_unwatch_links(struct rd_control *control)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct rd_control *at = control->job->controls;
	int fd = control->links_fd;

	control->links_fd = -1;
	if (fd < 0)
		return;
	while (at && !watches_links(at, control, fd))
		at = at->next_in_job;
	if (!at) {
		rd_control_unwatch(control, fd);
		return;
	}
	event.data.u64 = event_of(at, RD_MARK_LINKS);
	epoll_ctl(at->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

void rd_control_stir_links(struct rd_control *control)
{
	for (struct rd_control *at = control->job->controls; at; at = at->next_in_job)
		if (at == control || watches_links(at, control, control->links_fd)) {
			atomic_store(&at->links_due, true);
			atomic_store(&at->due, true);
		}
}

/* ---- The end -------------------------------------------------------------------------------- */

/* By the descriptors, before they are closed: a forked child may have them, too. */
void rd_control_end_events(struct rd_control *control)
{
	rd_control_unwatch_links(control);
	if (!control->group) {
		epoll_ctl(control->job->epoll_fd, EPOLL_CTL_DEL, control->epoll_fd, NULL);
		return;
	}
	if (control->cancel_fd >= 0)
		rd_control_unwatch(control, control->cancel_fd);
}
