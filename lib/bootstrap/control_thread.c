#include "bootstrap/control_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/job.h"
#include "topo/place.h"

#define EVENTS_MAX 64
#define LINGER_MS 1000 /* for the others to read the verdict, and hang up */

/* ---- The watch over this host -------------------------------------------------------------- */

/* By the first comm of the job, whose ranks are the others', too. */
static void create_watch(struct rd_control *control)
{
	struct rd_job *job = control->job;
	struct rd_watch_config config = { control->settings.rank, control->settings.size,
		control->participant->members, control->participant->id.number, job->event_fd };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = job };

	job->watch_tried = true;
	job->watch = rd_watch_create(&config);
	if (job->watch)
		epoll_ctl(job->epoll_fd, EPOLL_CTL_ADD, rd_watch_fd(job->watch), &event);
}

/* Whether this rank has left all its comms. The locks of the others are not held. */
static bool all_have_left(const struct rd_job *job)
{
	const struct rd_control *at = job->controls;

	while (at && at->gone_from)
		at = at->next_in_job;
	return !at;
}

/* The end of its process is no death, then. */
static void end_watch(struct rd_job *job)
{
	epoll_ctl(job->epoll_fd, EPOLL_CTL_DEL, rd_watch_fd(job->watch), NULL);
	rd_watch_end(job->watch);
}

/* By the first comm of the job: the other ranks dial trunks once this one is ready. */
static void name_trunks(struct rd_control *control)
{
	struct rd_job *job = control->job;

	if (control->participant->phase < RD_PARTICIPANT_JOINED || job->trunks.job)
		return;
	job->trunks.job = control->participant->id.number;
	rd_arrivals_name(job->come, job->trunks.job, control->settings.size + RD_PENDING_MAX);
}

/* Each rank that is ready has made its watch; so once all are, all have. */
static void advance_watch(struct rd_control *control)
{
	enum rd_participant_phase phase = control->participant->phase;
	struct rd_job *job = control->job;

	if (phase == RD_PARTICIPANT_JOINED && !job->watch_tried)
		create_watch(control);
	if ((phase == RD_PARTICIPANT_JOINED || phase == RD_PARTICIPANT_OPEN) && job->watch &&
		!control->count)
		control->count = rd_watch_count(
			job->watch, control->participant->id.number, control->settings.rank);
	if (phase == RD_PARTICIPANT_OPEN && job->watch)
		rd_watch_start(job->watch);
	/* A rank that watches this process may report its end before rank 0 reads the goodbye. */
	if (control->count && rd_control_continues(control) && rd_control_goodbye_is_sent(control))
		rd_watch_left(control->count);
	control->gone_from = rd_control_continues(control) && phase >= RD_PARTICIPANT_LEFT;
	if (job->watch && rd_watch_fd(job->watch) >= 0 && all_have_left(job))
		end_watch(job);
}

void rd_control_died(struct rd_control *control, const struct rd_death *death)
{
	const struct rd_member *members = control->participant->members;
	const struct rd_place *here = &members[control->settings.rank].place, *there;
	const struct rd_watch_count *count;

	if (control->phase < RD_PARTICIPANT_JOINED)
		return;
	count = rd_death_count(death, control->participant->id.number);
	for (int rank = 0; rank < control->settings.size; rank++) {
		there = &members[rank].place;
		/* Several ranks may be threads of the process: the counts are one's. */
		if (there->pid != death->pid || there->pid_space != death->pid_space ||
			!rd_place_same_host(here, there) ||
			(count && atomic_load(&count->rank) != rank))
			continue;
		control->dead = rank;
		control->dead_done = count ? atomic_load(&count->done) : 0;
		atomic_store(&control->due, true);
		return;
	}
}

static void report_death(struct rd_control *control, int64_t now_ms)
{
	enum rd_participant_phase phase = control->participant->phase;
	int dead = control->dead;

	/* One that comes early waits until all ranks can call. */
	if (dead < 0 || phase < RD_PARTICIPANT_OPEN)
		return;
	control->dead = -1;
	if (phase != RD_PARTICIPANT_OPEN)
		return;
	/* Rank 0's verdict may have arrived, and not be read. */
	if (dead == 0)
		rd_client_drain(&control->client, now_ms);
	rd_participant_died(control->participant, dead, control->dead_done);
}

/* ---- This rank's place ----------------------------------------------------------------------- */

/* Rank 0's; of other ranks see client.c. */
static void open_place(struct rd_control *control)
{
	bool opens = !control->group && control->settings.size > 1;
	int err = rd_lineage_place(
		&control->lineage, control->job->listener, 0, opens ? &control->local : NULL);

	if (err)
		rd_coordinator_decline(control->server.coordinator, 0, err, rondo_last_error());
	rd_participant_set_lineage(control->participant, &control->lineage.place);
}

/* The first rank of a group, once it has joined itself: the others come over trunks. */
static void take_arrivals(struct rd_control *control, int64_t now_ms)
{
	struct rd_channel *channel;

	if (!control->whole)
		return;
	while (rd_coordinator_listening(control->server.coordinator) &&
		(channel = rd_trunks_take(&control->job->trunks, control->group))) {
		rd_server_join(&control->server, channel, &control->due, now_ms);
		rd_server_serve(&control->server, control->participant, now_ms);
	}
	if (!rd_coordinator_listening(control->server.coordinator))
		control->whole = NULL;
}

/* It may pass, and ranks may come over trunks that are there. */
static void note_accept_error(struct rd_control *control)
{
	if (control->whole)
		control->server.coordinator->accept_error =
			rd_listener_error(control->job->listener, NULL);
}

/* Takes what has come over channels of trunks. */
static void look_at_channels(struct rd_control *control, int64_t now_ms)
{
	if (control->server.coordinator)
		rd_server_look(&control->server, now_ms);
	else if (control->client.socket && rd_control_socket_is_stirred(control->client.socket))
		rd_client_receive(&control->client, now_ms);
}

/* ---- Links --------------------------------------------------------------------------------- */

/* A transport may wake no thread: its links are served this often while they are being opened. So
   are those that a call has, in case that it ended before it learnt of them. */
#define SERVE_MS 20

static void serve_links(struct rd_control *control, int64_t now_ms)
{
	bool due = atomic_exchange(&control->links_due, false) || now_ms >= control->links_ms;
	int fd;

	if (!due || !control->links.serve || control->phase != RD_PARTICIPANT_OPEN)
		return;
	control->links_ms = now_ms + SERVE_MS;
	/* Each event wakes the thread, also one that nobody has taken. A call has events of its
	   own, which need not wake it. */
	switch (control->links.serve(control->links.owner, &fd)) {
	case RD_LINKS_IDLE:
		control->links_ms = RD_NEVER;
		rd_control_unwatch_links(control);
		break;
	case RD_LINKS_WAIT:
		rd_control_watch_links(control, fd);
		break;
	case RD_LINKS_BUSY:
		rd_control_unwatch_links(control);
		break;
	}
}

/* ---- Cancellation --------------------------------------------------------------------------- */

/* Rank 0 waits no more for ranks that have yet to come. */
static void take_cancellation(struct rd_control *control, int64_t now_ms)
{
	char reason[RD_REASON_SIZE];

	snprintf(reason, sizeof(reason), RD_CANCELLED, control->settings.rank);
	if (control->server.coordinator)
		rd_coordinator_fail(control->server.coordinator, RONDO_REVOKED, reason);
	else
		rd_participant_cancel(control->participant, reason, now_ms);
}

/* ---- Events -------------------------------------------------------------------------------- */

static void take_event(struct rd_control *control, uint64_t mark, int64_t now_ms)
{
	if (mark == RD_MARK_CLIENT)
		rd_client_receive(&control->client, now_ms);
	else if (mark == RD_MARK_DOOR)
		rd_server_accept(&control->server, now_ms);
	else if (mark == RD_MARK_LINKS)
		rd_control_stir_links(control);
	else if (mark == RD_MARK_CANCEL)
		take_cancellation(control, now_ms);
	else
		rd_server_receive(&control->server, (int)mark, now_ms);
}

void rd_control_take_events(struct rd_control *control)
{
	struct epoll_event events[EVENTS_MAX];
	int count;

	rd_log_rank(control->settings.rank);
	atomic_store(&control->due, true);
	pthread_mutex_lock(&control->lock);
	do {
		int64_t now_ms = rd_clock_ms();

		count = epoll_wait(control->epoll_fd, events, EVENTS_MAX, 0);
		for (int i = 0; i < count; i++)
			take_event(control, events[i].data.u64, now_ms);
	} while (count == EVENTS_MAX);
	pthread_mutex_unlock(&control->lock);
}

void rd_control_take_channels(struct rd_control *control)
{
	rd_log_rank(control->settings.rank);
	pthread_mutex_lock(&control->lock);
	look_at_channels(control, rd_clock_ms());
	pthread_mutex_unlock(&control->lock);
}

void rd_control_take_event(struct rd_control *control, uint64_t mark)
{
	rd_log_rank(control->settings.rank);
	atomic_store(&control->due, true);
	pthread_mutex_lock(&control->lock);
	take_event(control, mark, rd_clock_ms());
	pthread_mutex_unlock(&control->lock);
}

void rd_control_cannot_wait(struct rd_control *control)
{
	pthread_mutex_lock(&control->lock);
	rd_participant_end(control->participant, RONDO_SYSTEM, "%s", rondo_last_error());
	pthread_mutex_unlock(&control->lock);
	control->broken = true;
	atomic_store(&control->due, true);
}

static int64_t deadline_of(struct rd_control *control, int64_t now_ms)
{
	int64_t deadline =
		rd_sooner(rd_participant_deadline(control->participant), control->linger_ms);

	deadline = rd_sooner(deadline, rd_control_look_deadline(control));
	if (control->ends && control->goodbye < RD_GOODBYE_AT_END)
		deadline = rd_sooner(deadline, now_ms + 1);
	if (control->server.coordinator)
		deadline = rd_sooner(rd_sooner(deadline, rd_server_deadline(&control->server)),
			rd_coordinator_deadline(control->server.coordinator));
	else
		deadline = rd_sooner(deadline, rd_client_deadline(&control->client));
	return deadline;
}

/* ---- Service ------------------------------------------------------------------------------ */

static bool control_is_finished(struct rd_control *control, int64_t now_ms)
{
	const struct rd_coordinator *coordinator = control->server.coordinator;

	if (!coordinator)
		return control->quitting ||
		       (control->leaving && control->participant->phase >= RD_PARTICIPANT_LEFT);
	if (!control->quitting && !control->leaving)
		return false;
	if (!rd_coordinator_decided(coordinator))
		return control->quitting;
	if (control->linger_ms == RD_NEVER)
		control->linger_ms = now_ms + LINGER_MS;
	return rd_coordinator_over(coordinator) || now_ms >= control->linger_ms;
}

/* Under the lock. */
static void serve(struct rd_control *control, int64_t now_ms)
{
	struct rd_coordinator *coordinator = control->server.coordinator;

	if (coordinator && !control->started) {
		open_place(control);
		rd_server_begin(&control->server, RD_MARK_DOOR);
	}
	control->started = true;
	look_at_channels(control, now_ms);
	report_death(control, now_ms);
	rd_participant_tick(control->participant, now_ms);
	rd_control_look(control, now_ms);
	if (coordinator) {
		note_accept_error(control);
		rd_coordinator_tick(coordinator, now_ms);
		rd_server_serve(&control->server, control->participant, now_ms);
		take_arrivals(control, now_ms);
	} else {
		rd_client_serve(&control->client, now_ms);
	}
	name_trunks(control);
	advance_watch(control);
	/* Behind the goodbye: after its caller's process has ended, nobody sends it. */
	if (control->leaving == RD_LEAVE_ALONE && !control->released &&
		rd_control_goodbye_is_sent(control))
		rd_control_release(control);
}

bool rd_control_serve(struct rd_control *control, int64_t now_ms)
{
	bool ends;

	rd_log_rank(control->settings.rank);
	pthread_mutex_lock(&control->lock);
	serve(control, now_ms);
	/* It may linger, until a time of its own. */
	ends = control->broken || control_is_finished(control, now_ms);
	rd_control_publish(control, ends);
	if (!ends)
		control->deadline_ms = deadline_of(control, now_ms);
	pthread_mutex_unlock(&control->lock);
	if (ends)
		return true;
	serve_links(control, now_ms);
	control->deadline_ms = rd_sooner(control->deadline_ms, control->links_ms);
	return false;
}
