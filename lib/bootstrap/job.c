#include "bootstrap/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

/* ---- Life ---------------------------------------------------------------------------------- */

static void free_job(struct rd_job *job)
{
	rd_arrivals_release(job->come);
	rd_status_close(&job->status);
	rd_close_unshared(&job->unshared_event, &job->event_fd);
	rd_close_unshared(&job->unshared_epoll, &job->epoll_fd);
	free(job);
}

void rd_job_release(struct rd_job *job)
{
	int left;

	pthread_mutex_lock(&job->lock);
	left = --job->references;
	pthread_mutex_unlock(&job->lock);
	if (left)
		return;
	pthread_cond_destroy(&job->changed);
	pthread_mutex_destroy(&job->lock);
	rd_watch_destroy(job->watch);
	rd_listener_unwatch(job->listener, job->epoll_fd);
	free_job(job);
}

/* The comm of a rank that has come. Its reason counts when it has gone again. */
static uint64_t find_comm(const unsigned char *frame, size_t size, bool *lasts)
{
	struct rd_control_message message;

	if (rd_control_decode(frame, size, &message) <= 0)
		return 0;
	*lasts = message.kind == RD_CONTROL_REPORT;
	if (message.kind == RD_CONTROL_HELLO)
		return message.hello.comm;
	return *lasts ? message.report.comm : 0;
}

/* Without a socket nobody can ask, and nothing else is lost. */
static void open_status(struct rd_job *job, uint64_t launch_id)
{
	if (rd_status_open(&job->status, launch_id, job->epoll_fd, &job->status))
		rd_log(RD_INFO, RD_BOOTSTRAP, "rondo-run --status does not see this rank: %s",
			strerror(errno));
}

int rd_job_make(
	struct rd_job **made, const struct rd_settings *settings, struct rd_listener *listener)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct rd_job *job = calloc(1, sizeof(*job));
	struct rd_listener *own = NULL;
	int error = 0;

	if (!job)
		return rd_fail(RONDO_MEMORY, "no memory for a control thread");
	rd_status_init(&job->status);
	job->epoll_fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC));
	job->event_fd = rd_above_stderr(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (job->epoll_fd >= 0)
		rd_close_on_fork_add(&job->unshared_epoll, &job->epoll_fd);
	if (job->event_fd >= 0)
		rd_close_on_fork_add(&job->unshared_event, &job->event_fd);
	if (job->epoll_fd < 0 || job->event_fd < 0 ||
		epoll_ctl(job->epoll_fd, EPOLL_CTL_ADD, job->event_fd, &event))
		error = rd_fail_errno("cannot wake a control thread");
	if (!error && !listener)
		error = rd_listener_create(&own, settings);
	job->listener = own ? own : listener;
	if (!error) {
		job->come =
			rd_arrivals_open(job->listener, RD_ARRIVALS_TRUNKS, 0, 0, job->event_fd);
		error = job->come ? rd_listener_watch(
					    job->listener, job->epoll_fd, (uintptr_t)job->listener)
				  : RONDO_MEMORY;
	}
	rd_listener_release(own);
	if (error) {
		free_job(job);
		return error;
	}
	open_status(job, settings->launch_id);
	job->references = 1;
	job->trunks = (struct rd_trunks){
		.epoll_fd = job->epoll_fd, .frame_most = RD_FRAME_MAX, .find = find_comm
	};
	pthread_mutex_init(&job->lock, NULL);
	rd_condition_init(&job->changed);
	*made = job;
	return 0;
}

/* ---- Control connections -------------------------------------------------------------------- */

int rd_job_add(struct rd_job *job, struct rd_control *control)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = control };

	if (!control->group && epoll_ctl(job->epoll_fd, EPOLL_CTL_ADD, control->epoll_fd, &event))
		return rd_fail_errno("cannot watch the control connection's sockets");
	control->job = job;
	control->client.listener = job->listener;
	control->event_fd = job->event_fd;
	control->shown = true;
	atomic_fetch_add(&job->shown, 1);
	pthread_mutex_lock(&job->lock);
	job->references++;
	control->next_in_job = job->arrivals;
	job->arrivals = control;
	pthread_mutex_unlock(&job->lock);
	rd_control_notify(control);
	return 0;
}

void rd_job_await(struct rd_control *control)
{
	struct rd_job *job = control->job;

	pthread_mutex_lock(&job->lock);
	while (!control->gone)
		pthread_cond_wait(&job->changed, &job->lock);
	pthread_mutex_unlock(&job->lock);
	if (control->joins)
		pthread_join(job->thread, NULL);
	control->joins = false;
}
