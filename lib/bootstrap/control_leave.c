/*
 * The end of a control connection. It outlives the comm of a rank that leaves: rank 0's, with the
 * coordinator, until all ranks have left, or the process ends. A process that ends by return or
 * exit() leaves all its comms.
 */
#include "bootstrap/control_state.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/thread.h"
#include "bootstrap/job.h"

/* For which a rank that leaves waits until rank 0 knows; rank 0, until all do. */
#define GOODBYE_MS 100

/* ---- All of this process -------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	struct rd_control *first;
	bool ending; /* the process does: they stay, for who waits for them */
	unsigned forks; /* as in base/fork.h: a child forgets its parent's */
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* A child's first call: another thread of the parent may have held the lock. */
static void forget_parents(void)
{
	if (!rd_is_inherited(all.forks))
		return;
	pthread_mutex_init(&all.lock, NULL);
	all.first = NULL;
	all.ending = false;
	all.forks = rd_process.forks;
}

void rd_control_enlist(struct rd_control *control)
{
	forget_parents();
	pthread_mutex_lock(&all.lock);
	control->next = all.first;
	all.first = control;
	pthread_mutex_unlock(&all.lock);
}

/* False: it stays. */
static bool delist(struct rd_control *control)
{
	struct rd_control **at = &all.first;
	bool ending;

	pthread_mutex_lock(&all.lock);
	ending = all.ending;
	while (*at && *at != control)
		at = &(*at)->next;
	if (*at && !ending)
		*at = control->next;
	pthread_mutex_unlock(&all.lock);
	return !ending;
}

/* ---- Freeing --------------------------------------------------------------------------------- */

static void free_state(struct rd_control *control)
{
	if (!control->group && control->epoll_fd >= 0) {
		rd_close_on_fork_remove(&control->unshared);
		close(control->epoll_fd);
	}
	rd_client_forget(&control->client);
	rd_participant_destroy(control->participant);
	free(control->presence);
	free(control->reason);
	rd_settings_forget(&control->settings);
	free(control);
}

void rd_control_close(struct rd_control *control)
{
	rd_control_socket_close(&control->client.socket, true);
	rd_server_close(&control->server);
}

void rd_control_free(struct rd_control *control)
{
	struct rd_job *job = control->job;

	if (!delist(control))
		return;
	rd_control_close(control);
	rd_server_finish(&control->server);
	rd_control_end_lineage(control);
	pthread_cond_destroy(&control->published);
	pthread_mutex_destroy(&control->lock);
	free_state(control);
	if (job)
		rd_job_release(job);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Under the lock. */
static void leave(struct rd_control *control, enum rd_leave how)
{
	int64_t now_ms = rd_clock_ms();

	control->leaving = how;
	rd_participant_leave(control->participant, control->activity->digest, now_ms);
	if (how == RD_LEAVE_TOGETHER && control->server.coordinator)
		rd_coordinator_end_by(
			control->server.coordinator, now_ms + control->settings.timeout_ms);
	rd_control_notify(control);
}

/* ---- Leaving together, and after a failure --------------------------------------------------- */

static int await_and_free(struct rd_control *control)
{
	int verdict;

	rd_job_await(control);
	rd_control_detach(control);
	verdict = rd_control_verdict(control);
	rd_control_free(control);
	return verdict;
}

int rd_control_finalize(struct rd_control *control)
{
	pthread_mutex_lock(&control->lock);
	leave(control, RD_LEAVE_TOGETHER);
	pthread_mutex_unlock(&control->lock);
	return await_and_free(control);
}

void rd_control_destroy(struct rd_control *control)
{
	if (!control)
		return;
	pthread_mutex_lock(&control->lock);
	control->quitting = true;
	rd_control_notify(control);
	pthread_mutex_unlock(&control->lock);
	await_and_free(control);
}

/* ---- Leaving alone --------------------------------------------------------------------------- */

/* Under the lock. */
static void await_goodbye(struct rd_control *control, enum rd_goodbye goodbye, int64_t deadline_ms)
{
	int64_t left_ms;

	while (control->goodbye < goodbye && !control->over &&
		(left_ms = deadline_ms - rd_clock_ms()) > 0)
		rd_condition_wait_ms(&control->published, &control->lock, (int)left_ms);
}

int rd_control_leave(struct rd_control *control)
{
	bool over;
	int verdict;

	rd_control_detach(control);
	pthread_mutex_lock(&control->lock);
	leave(control, RD_LEAVE_ALONE);
	await_goodbye(control, RD_GOODBYE_SAID, rd_clock_ms() + GOODBYE_MS);
	while (!control->released && !control->over)
		pthread_cond_wait(&control->published, &control->lock);
	verdict = control->phase == RD_PARTICIPANT_LEFT ? 0 : rd_control_verdict(control);
	over = control->over;
	control->alone = !over;
	pthread_mutex_unlock(&control->lock);
	if (!over)
		return verdict;
	rd_job_await(control);
	rd_control_free(control);
	return verdict;
}

/* ---- The end of the process ------------------------------------------------------------------ */

/* A rank in a call does not leave it: to the others it dies. */
static bool may_leave(const struct rd_control *control)
{
	return control->phase == RD_PARTICIPANT_OPEN && !atomic_load(&control->verdict) &&
	       !control->leaving && !control->quitting && !control->participant->reported &&
	       !atomic_load(&control->activity->queues) &&
	       atomic_load(&control->activity->calls) == atomic_load(&control->activity->done);
}

static void leave_at_end(struct rd_control *control)
{
	pthread_mutex_lock(&control->lock);
	if (may_leave(control))
		leave(control, RD_LEAVE_TOGETHER);
	control->ends = true;
	rd_control_notify(control);
	pthread_mutex_unlock(&control->lock);
}

static void await_leave(struct rd_control *control, int64_t deadline_ms)
{
	pthread_mutex_lock(&control->lock);
	if (control->leaving) {
		/* The thread may be late. Nobody sends the goodbye after it. */
		await_goodbye(control, RD_GOODBYE_SENT,
			deadline_ms + control->settings.heartbeat_timeout_ms);
		await_goodbye(control, RD_GOODBYE_AT_END, deadline_ms);
	}
	pthread_mutex_unlock(&control->lock);
}

void rd_control_leave_all(void)
{
	struct rd_control *first;
	int64_t deadline_ms;

	forget_parents();
	pthread_mutex_lock(&all.lock);
	all.ending = true;
	first = all.first;
	pthread_mutex_unlock(&all.lock);
	for (struct rd_control *at = first; at; at = at->next)
		leave_at_end(at);
	deadline_ms = rd_clock_ms() + GOODBYE_MS;
	for (struct rd_control *at = first; at; at = at->next)
		await_leave(at, deadline_ms);
}

/* After the program's own handlers, which may use comms. */
__attribute__((destructor)) static void end_process(void)
{
	rd_control_leave_all();
}
