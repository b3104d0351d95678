/*
 * The control thread. It alone touches the sockets of a job's comms. Their participants and
 * coordinators decide what messages are sent; the thread carries them, and waits for events and
 * deadlines.
 */
#include "bootstrap/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "bootstrap/control_state.h"

#define STACK_SIZE (256 << 10) /* transports, and plug-ins, open links on it */
#define EVENTS_MAX 64

/* ---- Control connections -------------------------------------------------------------------- */

static void take_arrivals(struct rd_job *job)
{
	pthread_mutex_lock(&job->lock);
	while (job->arrivals) {
		struct rd_control *control = job->arrivals;

		job->arrivals = control->next_in_job;
		control->next_in_job = job->controls;
		job->controls = control;
	}
	pthread_mutex_unlock(&job->lock);
}

/* Returns whether this was the last one. Its caller, if it has one, joins the thread then. */
static bool let_go(struct rd_job *job, struct rd_control *control)
{
	bool last, alone;

	rd_control_hide(control);
	if (control->count)
		rd_watch_uncount(job->watch, control->count);
	pthread_mutex_lock(&control->lock);
	alone = control->alone;
	rd_control_close(control);
	pthread_mutex_unlock(&control->lock);
	rd_control_end_events(control);
	pthread_mutex_lock(&job->lock);
	last = !job->controls && !job->arrivals;
	if (!alone) {
		control->gone = true;
		control->joins = last;
		pthread_cond_broadcast(&job->changed);
	}
	pthread_mutex_unlock(&job->lock);
	if (!alone)
		return last;
	rd_control_free(control);
	if (last)
		pthread_detach(pthread_self());
	return last;
}

/* ---- The status ----------------------------------------------------------------------------- */

static void answer_status(struct rd_job *job)
{
	int64_t now_ms = rd_clock_ms();
	char *text = NULL;
	size_t size = 0;
	FILE *out;

	if (!rd_status_accept(&job->status, now_ms))
		return;
	out = open_memstream(&text, &size);
	if (out) {
		for (struct rd_control *at = job->controls; at; at = at->next_in_job)
			if (at->shown && ftell(out) <= RD_STATUS_MAX - RD_STATUS_LINE_MAX)
				rd_control_write_status(out, at, now_ms);
		fclose(out);
	}
	rd_status_answer(&job->status, text, size, now_ms);
}

/* ---- The thread ----------------------------------------------------------------------------- */

/* Another thread may have accepted them (listener.h). */
static void take_trunks(struct rd_job *job)
{
	struct rd_arrival *arrival;

	while ((arrival = rd_arrivals_take(job->come))) {
		rd_socket_tune(arrival->wire.fd, job->listener->unreachable_ms);
		rd_trunks_adopt(&job->trunks, &arrival->wire);
		free(arrival);
	}
}

static void serve_listener(struct rd_job *job)
{
	rd_listener_serve(job->listener, rd_clock_ms());
	take_trunks(job);
}

static void take_deaths(struct rd_job *job)
{
	struct rd_death death;

	if (job->watch)
		rd_log_rank(rd_watch_rank(job->watch));
	while (job->watch && rd_watch_next(job->watch, &death))
		for (struct rd_control *at = job->controls; at; at = at->next_in_job)
			rd_control_died(at, &death);
}

/* Serves those that have something to do. Returns whether the last one has ended. */
static bool serve(struct rd_job *job, int64_t now_ms)
{
	struct rd_control **at = &job->controls;

	while (*at) {
		struct rd_control *control = *at;

		if ((!atomic_exchange(&control->due, false) && control->deadline_ms > now_ms) ||
			!rd_control_serve(control, now_ms)) {
			at = &control->next_in_job;
			continue;
		}
		*at = control->next_in_job;
		if (let_go(job, control))
			return true;
	}
	return false;
}

/* Ranks have come for groups, over trunks: their first ranks look for them. */
static void tell_groups(struct rd_job *job)
{
	if (!job->trunks.news)
		return;
	job->trunks.news = false;
	for (struct rd_control *at = job->controls; at; at = at->next_in_job)
		if (at->whole)
			atomic_store(&at->due, true);
}

/* One that was served may have read from a trunk what others wait for. */
static int sleep_ms(const struct rd_job *job, int64_t now_ms)
{
	int64_t deadline_ms = job->trunks.news ? now_ms : rd_status_deadline(&job->status);

	deadline_ms = rd_sooner(deadline_ms, rd_listener_deadline(job->listener));
	for (const struct rd_control *at = job->controls; at; at = at->next_in_job)
		deadline_ms =
			rd_sooner(deadline_ms, atomic_load(&at->due) ? now_ms : at->deadline_ms);
	if (deadline_ms == RD_NEVER)
		return -1;
	return deadline_ms <= now_ms ? 0 : (int)rd_sooner(deadline_ms - now_ms, 60000);
}

static void fail_all(struct rd_job *job)
{
	for (struct rd_control *at = job->controls; at; at = at->next_in_job)
		rd_control_cannot_wait(at);
}

/* Before the next event: a report of a death must not overtake what the dead rank sent before. */
static void take_trunk(struct rd_job *job, struct rd_trunk *trunk)
{
	rd_trunk_serve(trunk);
	for (struct rd_control *at = job->controls; at; at = at->next_in_job)
		if (atomic_load(&at->due))
			rd_control_take_channels(at);
}

/*
 * Waits for an event, then takes all that have come: after this process was stopped for a while,
 * no deadline may pass judgement on messages that have arrived and not been read. Deaths come
 * last, behind messages that the rank sent before it died.
 */
static void wait_for_events(struct rd_job *job, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	bool deaths = false, asked = false;
	int count;

	do {
		uint64_t number;

		count = epoll_wait(job->epoll_fd, events, EVENTS_MAX, timeout_ms);
		/* A stop interrupts the wait, and events may have come. */
		if (count < 0 && errno == EINTR)
			count = epoll_wait(job->epoll_fd, events, EVENTS_MAX, 0);
		if (count < 0 && errno != EINTR) {
			rd_fail_errno("the control connection cannot wait");
			fail_all(job);
		}
		for (int i = 0; i < count; i++) {
			struct rd_control *control;
			void *mark = events[i].data.ptr;

			if (mark == &job->status)
				asked = true;
			else if (mark == job->listener)
				serve_listener(job);
			else if (rd_control_find_event(events[i].data.u64, &control, &number))
				rd_control_take_event(control, number);
			else if (events[i].data.u64 & 1)
				take_trunk(job, rd_trunk_of_event(events[i].data.u64));
			else if (mark && mark != job)
				rd_control_take_events(mark);
			else
				deaths = true;
			/* It may have been read before. */
			if (!mark && read(job->event_fd, &number, sizeof(number)) < 0)
				continue;
		}
		timeout_ms = 0;
	} while (count == EVENTS_MAX);
	take_trunks(job);
	if (deaths)
		take_deaths(job);
	if (asked || rd_clock_ms() >= rd_status_deadline(&job->status))
		answer_status(job);
}

static void *run(void *argument)
{
	struct rd_job *job = argument;

	for (;;) {
		int64_t now_ms;

		take_arrivals(job);
		/* Behind them: a rank 0 must be due to join itself before it takes others. */
		now_ms = rd_clock_ms();
		if (now_ms >= rd_listener_deadline(job->listener))
			serve_listener(job);
		tell_groups(job);
		if (serve(job, now_ms))
			break;
		wait_for_events(job, sleep_ms(job, now_ms));
	}
	rd_trunks_finish(&job->trunks);
	/* Calls of a process that ends still count in it: it is freed with the job. */
	if (job->watch)
		rd_watch_end(job->watch);
	rd_job_release(job);
	return NULL;
}

int rd_job_start(struct rd_control *control, struct rd_job *parents, struct rd_listener *listener)
{
	struct rd_job *job = parents;
	int error = job ? 0 : rd_job_make(&job, &control->settings, listener);

	if (!error)
		error = rd_job_add(job, control);
	if (parents || !job)
		return error;
	if (!error) {
		errno = rd_thread_start(&job->thread, STACK_SIZE, run, job);
		if (!errno)
			return 0;
		error = rd_fail_errno("cannot start the control thread");
	}
	rd_job_release(job);
	return error;
}
