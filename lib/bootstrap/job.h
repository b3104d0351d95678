/*
 * A job: the comms that one rank has made from one another, by split or duplicate. They share the
 * control thread, the watch over the processes of this host, the socket for `rondo-run --status`,
 * and the trunks to the processes of other ranks. Each comm has its own control connection, which
 * the thread serves: over channels of the trunks, but for the first comm.
 *
 * The job lives until the thread has ended and all its control connections are freed.
 */
#ifndef RD_JOB_H
#define RD_JOB_H

#include <pthread.h>

#include "base/close_on_fork.h"
#include "bootstrap/control_state.h"
#include "bootstrap/listener.h"
#include "bootstrap/peer_watch.h"
#include "bootstrap/status.h"
#include "net/trunk.h"

struct rd_job {
	int epoll_fd; /* has the epoll of each control connection */
	int event_fd; /* wakes the thread */
	struct rd_close_on_fork unshared_epoll, unshared_event;
	struct rd_listener *listener; /* the rank's */
	struct rd_arrivals *come; /* there: trunks that have no owner yet */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock: */
	int references; /* of control connections, and one of the thread */
	struct rd_control *arrivals; /* which the thread does not serve yet */

	/* The thread's own: */
	pthread_t thread;
	struct rd_control *controls;
	struct rd_trunks trunks;
	_Atomic int shown; /* control connections that the status shows */
	struct rd_status status; /* until there is none */
	struct rd_watch *watch; /* made by the first control connection; NULL: none */
	bool watch_tried; /* there is one, or none to be had */
};

/* A job whose thread is to be started; rd_job_release() frees it, if that fails. launch_id is of
   its ranks (bootstrap/inherited.h). listener: NULL: one of its own. RONDO_MEMORY, RONDO_SYSTEM. */
int rd_job_make(
	struct rd_job **job, const struct rd_settings *settings, struct rd_listener *listener);
/* The thread, running or not yet, will serve the control connection. */
int rd_job_add(struct rd_job *job, struct rd_control *control);
/* Waits until the thread does not serve it any more, and for the end of the thread where it served
   no other. The caller frees the control connection. */
void rd_job_await(struct rd_control *control);
/* When a control connection is freed, or the thread ends. */
void rd_job_release(struct rd_job *job);

/* The thread of its parent's job serves the control connection from now on; NULL: a new job's, with
   this listener. */
int rd_job_start(struct rd_control *control, struct rd_job *parents, struct rd_listener *listener);

#endif
