/*
 * The data of a control connection, and what its callers and the control thread share of it.
 *
 * The thread holds the lock while it serves the control connection, but not while it opens links.
 * Callers hold it for their requests, which go to the participant and the coordinator, and then
 * write the eventfd. The thread publishes its phase at the end of each turn. The verdict is stored
 * after its reason and never changes, so it may also be read without the lock.
 */
#ifndef RD_CONTROL_STATE_H
#define RD_CONTROL_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/close_on_fork.h"
#include "base/error.h"
#include "bootstrap/control.h"
#include "bootstrap/control_ends.h"
#include "bootstrap/peer_watch.h"

/* How a rank leaves. */
enum rd_leave {
	RD_LEAVE_NOT,
	RD_LEAVE_TOGETHER, /* in rank 0 it is over when all ranks have left */
	RD_LEAVE_ALONE, /* it continues without the comm */
};

enum rd_goodbye {
	RD_GOODBYE_NOT_YET,
	RD_GOODBYE_SENT, /* the kernel has it */
	RD_GOODBYE_SAID, /* rank 0 knows that this rank has left; of rank 0, all ranks do */
	RD_GOODBYE_AT_END, /* the same, of a process that ends */
};

struct rd_control {
	struct rd_settings settings;
	_Atomic int *failed;
	int wake_fd;
	const struct rd_activity *activity; /* the caller's; once it is released, `kept` */
	struct rd_activity kept;
	char host[RD_HOST_SIZE]; /* this rank's */
	char address[RD_ADDRESS_SIZE]; /* where rank 0 listens, for reasons */
	struct sockaddr_storage local; /* set before RD_PARTICIPANT_JOINED */
	struct rd_lineage lineage; /* the same; its end is under the lock */
	struct rd_control *parent; /* the caller's; NULL: none, or no longer */
	uint64_t group; /* the id of this comm, of ranks of `whole`; 0: it is none */
	struct rd_control *whole; /* of a first rank, until all ranks have come; else NULL */
	struct rd_job *job; /* whose thread serves it; NULL: none yet */
	int event_fd; /* the job's: wakes the thread */

	pthread_mutex_t lock;
	pthread_cond_t published;
	/* Under the lock: */
	struct rd_participant *participant;
	struct rd_client client; /* where this is not rank 0 */
	struct rd_server server; /* in rank 0; elsewhere its coordinator is NULL */
	enum rd_leave leaving;
	bool quitting;
	bool ends; /* the process does, and what it sent must have come to other hosts */
	enum rd_participant_phase phase; /* the participant's, once all that it brings is done */
	bool costs_known; /* the same: the participant has them, and they never change */
	bool released; /* the thread uses nothing of the comm any more */
	enum rd_goodbye goodbye;
	bool over; /* nothing more will come */
	bool alone; /* the thread frees the control connection when it is over */
	struct rd_control *children; /* made from this one, and not detached yet */
	struct rd_control *next_child; /* under the parent's lock */
	struct rd_control *next; /* of this process (control_leave.c) */
	/* Under the job's lock: */
	bool gone; /* the thread has done with it, */
	bool joins; /* and has ended */
	/* Also read without a lock: */
	_Atomic bool due; /* the thread has something to do */
	_Atomic int fallback_count, opened_count; /* of the participant's */
	_Atomic bool unattended, others_left;
	_Atomic unsigned char *presence; /* [size]: enum rd_presence */
	_Atomic int verdict;
	char *reason; /* base/error.h */

	/* The thread's own: */
	struct rd_control *next_in_job;
	bool shown; /* has a line in the job's status */
	int epoll_fd; /* its own, in the job's; a group's is the job's */
	struct rd_close_on_fork unshared; /* of its own one */
	int64_t deadline_ms; /* when the thread has something to do, at the latest */
	bool started; /* it has been served before */
	bool gone_from; /* this rank has left it, and nobody waits until it is over */
	bool broken; /* the thread cannot wait for its events */
	struct rd_control_links links;
	int links_fd; /* the epoll of theirs that is watched; -1: none */
	int cancel_fd; /* -1: its creation cannot be cancelled, or is over */
	_Atomic bool links_due; /* to be served now */
	int64_t links_ms; /* when to serve them next, at the latest */
	struct rd_watch_count *count; /* of finished calls, which the watch shows; NULL: none */
	int dead; /* as the watch has reported it; -1: none */
	uint32_t dead_done; /* calls that it had finished */
	int64_t linger_ms; /* until when the others may read the verdict */
	int64_t look_ms; /* when rd_control_look() is due, once all ranks can call */
};

/* Wakes the thread, under the lock. */
void rd_control_notify(struct rd_control *control);

/* Waits, under the lock, until this phase is reached or nothing more will come. */
void rd_control_wait(struct rd_control *control, enum rd_participant_phase phase);

/* The parent's verdict becomes the child's. Under the parent's lock, and so before the child can
   detach itself. */
void rd_control_fail_child(struct rd_control *child, int error, const char *reason);

/* The thread leaves it out of the job's status, whose socket ends with the last. */
void rd_control_hide(struct rd_control *control);

/* These are for the thread, under the lock. */

/* Nobody waits until it is over: this rank leaves it alone, or its process ends. */
static inline bool rd_control_continues(const struct rd_control *control)
{
	return control->leaving == RD_LEAVE_ALONE || control->ends;
}

/* Whether the kernel has this rank's goodbye, and sends it even if the process ends; or none will
   be sent any more. */
bool rd_control_goodbye_is_sent(const struct rd_control *control);

/* The thread continues without the comm, whose memory the caller may free. */
void rd_control_release(struct rd_control *control);

/* The thread publishes the states of the participant and the coordinator. over: for the last
   time. */
void rd_control_publish(struct rd_control *control, bool over);

/* ---- control_events.c: the descriptors that the thread watches for one ----------------------- */

/* The marks of events, beside the numbers of the server's connections. */
#define RD_MARK_DOOR UINT64_MAX
#define RD_MARK_CLIENT (UINT64_MAX - 1)
#define RD_MARK_LINKS (UINT64_MAX - 2)
#define RD_MARK_CANCEL (UINT64_MAX - 3)

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

/* ---- control_silence.c: hosts that send nothing ---------------------------------------------- */

/* Where that is due, looks at the connections to other hosts. Logs where a silence begins or ends,
   and ends a connection whose silence is about to reach RONDO_UNREACHABLE_MS. */
void rd_control_look(struct rd_control *control, int64_t now_ms);
/* When it is due. */
int64_t rd_control_look_deadline(const struct rd_control *control);

/* Calls `see` for each rank whose host is silent, and for how long it had been at the last look.
   Rank 0 sees all, others rank 0 alone. */
void rd_control_silent_ranks(const struct rd_control *control,
	void (*see)(int rank, uint32_t silent_ms, void *argument), void *argument);

/* ---- control_status.c: the state of a rank in one comm, for `rondo-run --status` ------------- */

/* The thread's: writes one line of JSON, as docs/rondo-run.md describes it. */
void rd_control_write_status(FILE *out, struct rd_control *control, int64_t now_ms);

/* ---- control_leave.c: the end of a control connection ---------------------------------------- */

/* One more of this process, which leaves when it ends; until rd_control_free(). */
void rd_control_enlist(struct rd_control *control);

/* Ends its connections; the thread does, when it lets go of it. */
void rd_control_close(struct rd_control *control);
/* After the thread has let go of it, or never had it. */
void rd_control_free(struct rd_control *control);

/* ---- control_thread.c: the thread's work for one, which job_thread.c calls ------------------- */

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
