#include "bootstrap/control_state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/job.h"

/* ---- Callers and the thread ---------------------------------------------------------------- */

void rd_control_notify(struct rd_control *control)
{
	atomic_store(&control->due, true);
	/* It can only fail where the counter is full, and the thread wakes all the same. */
	eventfd_write(control->event_fd, 1);
}

static void wake_caller(struct rd_control *control)
{
	if (control->wake_fd >= 0 && eventfd_write(control->wake_fd, 1))
		rd_log(RD_INFO, RD_BOOTSTRAP, "the wake-up was not written: %m");
}

void rd_control_wait(struct rd_control *control, enum rd_participant_phase phase)
{
	while (control->phase < phase && !atomic_load(&control->verdict) && !control->over)
		pthread_cond_wait(&control->published, &control->lock);
}

/* The parent's coordinator sends its verdict to all ranks: none is waited for. Once all are ready,
   some may have made the comm, which the verdict then passes by: they get it from this rank. */
static void take_parents_verdict(
	struct rd_control *control, int error, const char *reason, int64_t now_ms)
{
	struct rd_participant *participant = control->participant;

	if (control->server.coordinator)
		rd_coordinator_fail(control->server.coordinator, error, reason);
	if (!control->server.coordinator && participant->phase == RD_PARTICIPANT_OPEN)
		rd_participant_report(participant, error, -1, reason, now_ms);
	else
		rd_participant_end(participant, error, "%s", reason);
}

void rd_control_fail_child(struct rd_control *child, int error, const char *reason)
{
	pthread_mutex_lock(&child->lock);
	take_parents_verdict(child, error, reason, rd_clock_ms());
	rd_control_notify(child);
	pthread_mutex_unlock(&child->lock);
}

/* Under the lock. */
static void fail_children(const struct rd_control *control, int error, const char *reason)
{
	for (struct rd_control *at = control->children; at; at = at->next_child)
		rd_control_fail_child(at, error, reason);
}

int rd_control_verdict(struct rd_control *control)
{
	int error = atomic_load(&control->verdict);

	return error ? rd_fail(error, "%s", rd_reason_text(control->reason)) : 0;
}

void rd_control_detach(struct rd_control *control)
{
	struct rd_control *parent = control->parent, **at;

	if (control->cancel_fd >= 0)
		rd_control_unwatch(control, control->cancel_fd);
	control->cancel_fd = -1;
	if (!parent)
		return;
	pthread_mutex_lock(&parent->lock);
	for (at = &parent->children; *at != control;)
		at = &(*at)->next_child;
	*at = control->next_child;
	pthread_mutex_unlock(&parent->lock);
	control->parent = NULL;
}

void rd_control_end_lineage(struct rd_control *control)
{
	pthread_mutex_lock(&control->lock);
	rd_lineage_end(&control->lineage);
	pthread_mutex_unlock(&control->lock);
}

/* ---- Failed ranks --------------------------------------------------------------------------- */

enum rd_presence rd_control_presence(const struct rd_control *control, int rank)
{
	return (enum rd_presence)atomic_load(&control->presence[rank]);
}

void rd_control_set_presence(struct rd_control *control, int rank, enum rd_presence state)
{
	unsigned char before = atomic_load(&control->presence[rank]);

	while (before < state && !atomic_compare_exchange_weak(
					 &control->presence[rank], &before, (unsigned char)state))
		;
}

/* ---- The thread's side --------------------------------------------------------------------- */

void rd_control_hide(struct rd_control *control)
{
	struct rd_job *job = control->job;

	if (control->shown && atomic_fetch_sub(&job->shown, 1) == 1)
		rd_status_close(&job->status);
	control->shown = false;
}

void rd_control_release(struct rd_control *control)
{
	const struct rd_activity *activity = control->activity;
	struct rd_activity *kept = &control->kept;

	atomic_store(&kept->calls, atomic_load(&activity->calls));
	atomic_store(&kept->done, atomic_load(&activity->done));
	atomic_store(&kept->collective, atomic_load(&activity->collective));
	atomic_store(&kept->waiting_for, -1);
	kept->digest = activity->digest;
	rd_control_unwatch_links(control);
	rd_control_hide(control);
	rd_lineage_end(&control->lineage);
	control->activity = kept;
	control->participant->activity = kept;
	control->links.serve = NULL;
	control->failed = &control->verdict;
	control->wake_fd = -1;
	control->released = true;
}

/* The coordinator's comes first, unless a call of rank 0 is spared: rank 0's participant receives
   nothing more once it has left. */
static int find_verdict(const struct rd_control *control, const char **reason, int *lost)
{
	const struct rd_coordinator *coordinator = control->server.coordinator;
	int error = coordinator && !rd_participant_spares(control->participant)
			    ? rd_coordinator_verdict(coordinator, reason)
			    : 0;

	*lost = error ? coordinator->lost : control->participant->lost;
	return error ? error : rd_participant_verdict(control->participant, reason);
}

/* With the section of the page that has the causes, and what a program can do. Once this rank has
   left, no call of it tells of different calls. */
static void log_verdict(const struct rd_control *control, int error, const char *reason)
{
	bool warns = control->alone && error == RONDO_MISMATCH;
	char section[32];

	snprintf(section, sizeof(section), "%s", rondo_error_name(error));
	for (char *at = section; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	rd_log(warns ? RD_WARN : RD_INFO, RD_BOOTSTRAP, "%s: %s (docs/errors.md#%s)",
		rondo_error_name(error), reason, section);
}

/* From where find_verdict() took the verdict. */
static void store_late(struct rd_control *control)
{
	const struct rd_coordinator *coordinator = control->server.coordinator;

	for (int rank = 0; rank < control->settings.size; rank++)
		if (rd_participant_is_late(control->participant, rank) ||
			(coordinator && coordinator->ranks[rank].late))
			rd_control_set_presence(control, rank, RD_LATE);
}

static void store_verdict(struct rd_control *control, int error, const char *reason, int lost)
{
	if (error == RONDO_TIMEOUT)
		store_late(control);
	if (lost >= 0)
		rd_control_set_presence(control, lost,
			error == RONDO_DIED     ? RD_DEAD
			: error == RONDO_BROKEN ? RD_CUT_OFF
						: RD_LOST);
	rd_reason_set(&control->reason, "%s", reason);
	atomic_store(&control->verdict, error);
	atomic_store(control->failed, error);
	wake_caller(control);
	fail_children(control, error, reason);
	log_verdict(control, error, reason);
}

bool rd_control_goodbye_is_sent(const struct rd_control *control)
{
	return control->participant->phase >= RD_PARTICIPANT_LEFT ||
	       rd_client_has_sent_goodbye(&control->client);
}

static enum rd_goodbye goodbye_of(const struct rd_control *control, enum rd_participant_phase phase)
{
	if (!control->leaving || !rd_control_goodbye_is_sent(control))
		return RD_GOODBYE_NOT_YET;
	if (phase < RD_PARTICIPANT_LEFT ||
		(control->server.coordinator &&
			!rd_server_is_flushed(&control->server, control->ends)))
		return RD_GOODBYE_SENT;
	return control->ends ? RD_GOODBYE_AT_END : RD_GOODBYE_SAID;
}

void rd_control_publish(struct rd_control *control, bool over)
{
	const struct rd_participant *participant = control->participant;
	const char *reason;
	int lost, error = find_verdict(control, &reason, &lost);
	int fallbacks = participant->fallbacks.count, opened = participant->opened.count;
	bool others_left = participant->others_left;
	bool links = atomic_exchange(&control->fallback_count, fallbacks) != fallbacks;

	links |= atomic_exchange(&control->opened_count, opened) != opened;
	atomic_store(&control->unattended, rd_participant_is_unattended(participant));
	if (links)
		atomic_store(&control->links_due, true);
	/* Behind the links that they opened, and before the caller looks. */
	if (atomic_exchange(&control->others_left, others_left) != others_left || links)
		wake_caller(control);
	control->phase = participant->phase;
	control->costs_known = participant->costs != NULL;
	control->goodbye = goodbye_of(control, participant->phase);
	control->over = over;
	if (error && !atomic_load(&control->verdict))
		store_verdict(control, error, reason, lost);
	pthread_cond_broadcast(&control->published);
}
