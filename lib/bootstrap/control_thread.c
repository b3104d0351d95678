#include "bootstrap/control_thread.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "bootstrap/control_leave.h"
#include "bootstrap/control_silence.h"
#include "bootstrap/control_status.h"

#define STACK_SIZE (256 << 10) /* transports, and plug-ins, open links on it */
#define EVENTS_MAX 64
#define LINGER_MS 1000 /* for the others to read the verdict, and hang up */

/* ---- The status ----------------------------------------------------------------------------- */

/* Each event wakes the thread once: where none can be accepted, the backlog does not wake it again
   and again. */
static int watch_status(struct rd_control *control, int operation)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = RD_MARK_STATUS };

	return epoll_ctl(control->epoll_fd, operation, control->status.listen_fd, &event);
}

/* Without a socket nobody can ask, and nothing else is lost. */
static void open_status(struct rd_control *control)
{
	if (rd_status_open(&control->status, control->settings.launch_id) == 0 &&
		watch_status(control, EPOLL_CTL_ADD) == 0)
		return;
	rd_log(RD_INFO, RD_BOOTSTRAP, "rondo-run --status does not see this rank: %s",
		strerror(errno));
	rd_status_close(&control->status);
}

/* One that waits, and those behind it at the next event. */
static void answer_status(struct rd_control *control, int64_t now_ms)
{
	if (rd_control_answer(control, now_ms))
		watch_status(control, EPOLL_CTL_MOD);
}

/* ---- The watch over this host -------------------------------------------------------------- */

static void create_watch(struct rd_control *control)
{
	struct rd_watch_config config = { control->settings.rank, control->settings.size,
		rd_participant_members(control->participant),
		rd_participant_comm_id(control->participant)->number, control->event_fd };
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = RD_MARK_WATCH };

	control->watch_tried = true;
	control->watch = rd_watch_create(&config);
	if (control->watch)
		epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, rd_watch_fd(control->watch), &event);
}

/* Each rank that is ready has made its watch; so once all are, all have. Once this rank has left,
   the end of its process is no death. */
static void advance_watch(struct rd_control *control)
{
	enum rd_participant_phase phase = rd_participant_phase(control->participant);

	if (phase == RD_PARTICIPANT_JOINED && !control->watch_tried)
		create_watch(control);
	if (phase == RD_PARTICIPANT_OPEN && control->watch)
		rd_watch_start(control->watch);
	if (control->goes_on && phase >= RD_PARTICIPANT_LEFT && control->watch)
		rd_watch_end(control->watch);
}

static void report_death(struct rd_control *control, int64_t now_ms)
{
	int dead = control->dead;

	control->dead = -1;
	if (dead < 0 || rd_participant_phase(control->participant) != RD_PARTICIPANT_OPEN)
		return;
	if (dead == 0) {
		rd_watch_forward(control->watch);
		/* Rank 0's verdict may have arrived, and not be read. */
		rd_client_drain(&control->client, now_ms);
	}
	rd_participant_died(control->participant, dead, control->dead_done);
}

/* ---- The lineage --------------------------------------------------------------------------- */

/* Until a shrink, nobody accepts there. */
static void watch_lineage(struct rd_control *control)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = RD_MARK_LINEAGE };

	if (control->lineage_watched ||
		rd_participant_phase(control->participant) < RD_PARTICIPANT_JOINED)
		return;
	control->lineage_watched = true;
	pthread_mutex_lock(&control->lock);
	epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, control->lineage.listen_fd, &event);
	pthread_mutex_unlock(&control->lock);
}

static void trim_lineage(struct rd_control *control)
{
	pthread_mutex_lock(&control->lock);
	rd_lineage_trim(&control->lineage, control->settings.size + RD_PENDING_MAX);
	pthread_mutex_unlock(&control->lock);
}

/* ---- Links --------------------------------------------------------------------------------- */

/* A transport may wake no thread: its links are served this often while they are being opened. So
   are those that a call has, in case that it ended before it learnt of them. */
#define SERVE_MS 20

/* One event, as links are served then: a call may have them, with events of its own. */
static void watch_links(struct rd_control *control)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.u64 = RD_MARK_LINKS };

	epoll_ctl(control->epoll_fd, control->links_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
		control->links.fd, &event);
	control->links_watched = true;
}

static void serve_links(struct rd_control *control, int64_t now_ms)
{
	bool due = atomic_exchange(&control->links_due, false) || now_ms >= control->links_ms;

	if (!due || !control->links.serve || control->phase != RD_PARTICIPANT_OPEN)
		return;
	control->links_ms = now_ms + SERVE_MS;
	switch (control->links.serve(control->links.owner)) {
	case RD_LINKS_IDLE:
		control->links_ms = RD_NEVER;
		break;
	case RD_LINKS_WAIT:
		watch_links(control);
		break;
	case RD_LINKS_BUSY:
		break;
	}
}

/* ---- Events -------------------------------------------------------------------------------- */

static void control_take_event(struct rd_control *control, uint64_t mark, int64_t now_ms)
{
	uint64_t count;

	if (mark == RD_MARK_CLIENT)
		rd_client_receive(&control->client, now_ms);
	else if (mark == RD_MARK_DOOR)
		rd_server_accept(&control->server, now_ms);
	else if (mark == RD_MARK_WATCH)
		rd_watch_receive(control->watch);
	else if (mark == RD_MARK_LINEAGE)
		trim_lineage(control);
	else if (mark == RD_MARK_LINKS)
		atomic_store(&control->links_due, true);
	else if (mark == RD_MARK_STATUS)
		answer_status(control, now_ms);
	else if (mark != RD_MARK_EVENT)
		rd_server_receive(&control->server, (int)mark, now_ms);
	else if (read(control->event_fd, &count, sizeof(count)) < 0)
		return; /* it has been read before */
	/* Queried here alone: messages that the rank sent before it died come first. */
	if ((mark == RD_MARK_WATCH || mark == RD_MARK_EVENT) && control->watch)
		control->dead = rd_watch_dead(control->watch, &control->dead_done);
}

/*
 * Waits for an event, then takes all that have come: after this process was stopped for a while,
 * no deadline may pass judgement on messages that have arrived and not been read.
 */
static int wait_for_events(struct rd_control *control, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	int count;

	do {
		int64_t now_ms;

		count = epoll_wait(control->epoll_fd, events, EVENTS_MAX, timeout_ms);
		/* A stop interrupts the wait, and events may have come. */
		if (count < 0 && errno == EINTR)
			count = epoll_wait(control->epoll_fd, events, EVENTS_MAX, 0);
		if (count < 0)
			return errno == EINTR ? 0
					      : rd_fail_errno("the control connection cannot wait");
		now_ms = rd_clock_ms();
		if (control->server.coordinator)
			rd_coordinator_wake(control->server.coordinator, now_ms);
		for (int i = 0; i < count; i++)
			control_take_event(control, events[i].data.u64, now_ms);
		timeout_ms = 0;
	} while (count == EVENTS_MAX);
	return 0;
}

static int control_sleep_ms(const struct rd_control *control, int64_t now_ms)
{
	int64_t deadline =
		rd_sooner(rd_participant_deadline(control->participant), control->linger_ms);

	deadline = rd_sooner(deadline, rd_control_look_deadline(control));
	if (control->ends && control->goodbye < RD_GOODBYE_AT_END)
		deadline = rd_sooner(deadline, now_ms + 1);
	deadline = rd_sooner(deadline, control->links_ms);
	if (control->server.coordinator)
		deadline = rd_sooner(rd_sooner(deadline, rd_server_deadline(&control->server)),
			rd_coordinator_deadline(control->server.coordinator));
	else
		deadline = rd_sooner(deadline, rd_client_deadline(&control->client));
	if (deadline == RD_NEVER)
		return -1;
	return deadline <= now_ms ? 0 : (int)rd_sooner(deadline - now_ms, 60000);
}

/* ---- The loop ------------------------------------------------------------------------------ */

static bool control_is_finished(struct rd_control *control, int64_t now_ms)
{
	const struct rd_coordinator *coordinator = control->server.coordinator;

	if (!coordinator)
		return control->quitting ||
		       (control->leaving &&
			       rd_participant_phase(control->participant) >= RD_PARTICIPANT_LEFT);
	if (!control->quitting && !control->leaving)
		return false;
	if (!rd_coordinator_decided(coordinator))
		return control->quitting;
	if (control->linger_ms == RD_NEVER)
		control->linger_ms = now_ms + LINGER_MS;
	return rd_coordinator_over(coordinator) || now_ms >= control->linger_ms;
}

static void *control_thread_run(void *argument)
{
	struct rd_control *control = argument;
	struct rd_coordinator *coordinator = control->server.coordinator;

	rd_log_rank(control->settings.rank);
	if (coordinator)
		rd_server_begin(&control->server, RD_MARK_DOOR);
	for (;;) {
		int64_t now_ms = rd_clock_ms();
		rd_control_take_requests(control, now_ms);
		report_death(control, now_ms);
		rd_participant_tick(control->participant, now_ms);
		rd_control_look(control, now_ms);
		if (coordinator) {
			rd_coordinator_tick(coordinator, now_ms);
			rd_server_serve(&control->server, control->participant, now_ms);
		} else {
			rd_client_serve(&control->client, now_ms);
		}
		advance_watch(control);
		watch_lineage(control);
		rd_control_publish(control, false);
		serve_links(control, now_ms);
		if (control_is_finished(control, now_ms))
			break;
		if (wait_for_events(control, control_sleep_ms(control, now_ms))) {
			rd_participant_fail(control->participant, RONDO_SYSTEM, rondo_last_error());
			break;
		}
	}
	if (control->watch)
		rd_watch_end(control->watch);
	if (rd_control_publish(control, true))
		rd_control_free(control);
	return NULL;
}

int rd_control_thread_start(struct rd_control *control)
{
	int error;

	open_status(control);
	error = rd_thread_start(&control->thread, STACK_SIZE, control_thread_run, control);

	if (!error) {
		rd_control_enlist(control);
		return 0;
	}
	errno = error;
	return rd_fail_errno("cannot start the control connection's thread");
}
