/*
 * The sockets and the thread of the control connection. coordinator.c and participant.c decide
 * which messages are sent. This file carries messages to connections, events to calls, and
 * deadlines to a poll.
 *
 * The thread alone touches the machines, the sockets and the lines. Callers leave orders under the
 * lock and ring the bell; the thread publishes its phase and the verdict under the lock. The
 * verdict is stored after its reason and never changes, so it may also be read without the lock.
 *
 * In rank 0 the participant and the coordinator hand each other messages directly, as line 0.
 */
#include "bootstrap/control.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "bootstrap/connection.h"
#include "bootstrap/socket.h"
#include "base/log.h"
#include "bootstrap/rendezvous.h"
#include "base/thread.h"
#include "bootstrap/peer_watch.h"

#define STACK_SIZE (128 << 10)
#define EVENTS_MAX 64
#define ATTEMPT_MS 3000 /* for one address to answer */
#define LINGER_MS 1000 /* for the others to read the verdict, and hang up */

/* Which socket an epoll event is of, beside the number of a coordinator's line. */
#define BELL UINT64_MAX
#define DOOR (UINT64_MAX - 1)
#define OWN (UINT64_MAX - 2)
#define WATCH (UINT64_MAX - 3)

/* What callers want of the thread. */
struct orders {
	bool ready, report, slow, leave, quit;
	int looks; /* so far */
	int fallbacks; /* that `ready` comes after, */
	struct rd_link_limits limits; /* and what links can do then */
	int error, culprit;
	uint64_t digest;
	char reason[RD_REASON_SIZE];
	int parent_error; /* the parent's verdict; 0: none */
	char parent_story[RD_REASON_SIZE];
	bool slow_first;
	int slow_culprit;
	char slow_story[RD_REASON_SIZE];
};

struct rd_control {
	struct rd_settings settings;
	_Atomic int *failed;
	int wake_fd;
	char address[RD_WHERE_SIZE]; /* where rank 0 listens, for reasons */
	char where[RD_WHERE_SIZE];
	struct sockaddr_storage near; /* this end's address; set before RD_SPOKE_MET */

	pthread_mutex_t lock;
	pthread_cond_t news;
	struct orders orders; /* under the lock */
	struct rd_link_failures link_failures,
		fallbacks; /* under the lock: lost here; the coordinator's word on them */
	_Atomic int fallback_count, rounds;
	enum rd_participant_phase phase; /* under the lock */
	struct rd_link_limits limits; /* under the lock: what all ranks' links can do */
	bool over; /* under the lock: the thread has ended */
	_Atomic int verdict;
	char reason[RD_REASON_SIZE];
	struct rd_control *children; /* under the lock: those made from it just now */
	struct rd_control *next_child; /* under the parent's lock */
	struct rd_control *parent; /* the caller's; NULL: none, or no longer */

	/* The thread's own: */
	pthread_t thread;
	int epoll_fd, bell_fd, door_fd;
	struct rd_participant *participant;
	struct rd_connection *own; /* to the coordinator; NULL in rank 0 */
	struct rd_addresses addresses;
	int attempt; /* which of them is being dialled */
	int64_t attempt_ms; /* until when */
	struct rd_coordinator *coordinator; /* NULL but in rank 0 */
	bool seated; /* the participant here is the coordinator's line 0 */
	bool warned; /* of a slow call */
	struct rd_connection **lines; /* the coordinator's; NULL where there is none */
	int link_failures_followed, looks_followed;
	struct rd_watch *watch; /* NULL: none */
	bool watches; /* there is one, or none to be had */
	int dead; /* as the watch reported it with the latest events; -1: none */
	bool leaving, quitting;
	int64_t linger_ms;
};

/* ---- The participant's connection
 * ---------------------------------------------------------------- */

/* Goes on to the next address; after the last, the attempt has failed for the given reason. */
static void dial(struct rd_control *control, int error, int64_t now_ms)
{
	for (; control->attempt < control->addresses.count; control->attempt++) {
		int fd = rd_dial(&control->addresses, control->attempt);
		if (fd < 0) {
			error = errno;
			continue;
		}
		control->own = rd_connection_open(control->epoll_fd, fd, OWN, EPOLLOUT);
		if (!control->own) {
			error = ENOMEM;
			continue;
		}
		control->own->connecting = true;
		control->attempt_ms = now_ms + ATTEMPT_MS;
		return;
	}
	rd_participant_refused(
		control->participant, error == ECONNREFUSED, strerror(error), now_ms);
}

static void dial_next(struct rd_control *control, int error, int64_t now_ms)
{
	rd_connection_close(&control->own);
	control->attempt++;
	dial(control, error, now_ms);
}

static void finish_dialling(struct rd_control *control, int64_t now_ms)
{
	struct rd_connection *own = control->own;
	int error = rd_dialled(own->fd);

	if (error) {
		dial_next(control, error, now_ms);
		return;
	}
	own->connecting = false;
	rd_socket_tune(own->fd, control->settings.heartbeat_timeout_ms);
	rd_connection_watch(own, EPOLLIN);
	rd_socket_describe(control->where, own->fd);
	getsockname(
		own->fd, (struct sockaddr *)&control->near, &(socklen_t){ sizeof(control->near) });
	rd_participant_connected(control->participant, now_ms);
}

static void lose_own(struct rd_control *control, int error, int64_t now_ms)
{
	rd_connection_close(&control->own);
	rd_participant_closed(control->participant, error, now_ms);
}

static void hear_own(struct rd_control *control, int64_t now_ms)
{
	struct rd_connection *own = control->own;
	struct rd_control_message message;
	int error, took;

	if (!own)
		return;
	if (own->connecting) {
		finish_dialling(control, now_ms);
		return;
	}
	if (!rd_connection_read(own, &error)) {
		lose_own(control, error, now_ms);
		return;
	}
	while ((took = rd_connection_take(own, &message)) > 0)
		rd_participant_take(control->participant, &message, now_ms);
	if (took < 0)
		rd_participant_garbled(control->participant);
}

/* Says what the participant has to say, dials where it wants to, hangs up where it is done. */
static void serve_own(struct rd_control *control, int64_t now_ms)
{
	struct rd_control_message message;
	int error;

	if (control->own && control->own->connecting && now_ms >= control->attempt_ms)
		dial_next(control, ETIMEDOUT, now_ms);
	if (rd_participant_dials(control->participant, now_ms)) {
		control->attempt = 0;
		dial(control, 0, now_ms);
	}
	if (rd_participant_phase(control->participant) >= RD_SPOKE_GONE)
		rd_connection_close(&control->own);
	while (control->own && !control->own->connecting) {
		while (rd_connection_has_room(control->own) &&
			rd_participant_next(control->participant, &message))
			rd_connection_put(control->own, &message);
		if (control->own->out_size == 0)
			return;
		if (!rd_connection_flush(control->own, &error))
			lose_own(control, error, now_ms);
		else if (control->own->out_size > 0)
			return;
	}
}

/* ---- The coordinator's connections
 * ----------------------------------------------------------------- */

static void lose_line(struct rd_control *control, int index, int error)
{
	rd_connection_close(&control->lines[index]);
	rd_coordinator_closed(control->coordinator, index, error);
}

static void hear_line(struct rd_control *control, int index, int64_t now_ms)
{
	struct rd_connection *line = control->lines[index];
	struct rd_control_message message;
	int error, took;

	if (!line)
		return;
	if (!rd_connection_read(line, &error)) {
		lose_line(control, index, error);
		return;
	}
	while ((took = rd_connection_take(line, &message)) > 0)
		rd_coordinator_take(control->coordinator, index, &message, now_ms);
	if (took < 0)
		rd_coordinator_garbled(control->coordinator, index, now_ms);
}

static void serve_line(struct rd_control *control, int index)
{
	struct rd_connection *line = control->lines[index];
	struct rd_control_message message;
	int error;

	while (line) {
		while (rd_connection_has_room(line) &&
			rd_coordinator_next(control->coordinator, index, &message))
			rd_connection_put(line, &message);
		if (line->out_size == 0)
			break;
		if (!rd_connection_flush(line, &error)) {
			lose_line(control, index, error);
			return;
		}
		if (line->out_size > 0)
			break;
	}
	if (line && rd_coordinator_dropped(control->coordinator, index))
		lose_line(control, index, 0);
}

static void close_door(struct rd_control *control)
{
	if (control->door_fd < 0)
		return;
	/* As for a connection: a launcher may hold a copy, which epoll would go on to report. */
	epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, control->door_fd, NULL);
	close(control->door_fd);
	control->door_fd = -1;
}

/* Closes the connection that has been silent for longest, unless its HELLO has just come. False:
   there is none to close. */
static bool close_oldest(struct rd_control *control, int64_t now_ms)
{
	int index = rd_coordinator_oldest_stranger(control->coordinator);

	if (index < 0)
		return false;
	hear_line(control, index, now_ms);
	if (rd_coordinator_oldest_stranger(control->coordinator) == index)
		lose_line(control, index, 0);
	return true;
}

static bool lacks_resources(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* Where rank 0 is out of descriptors, say, and no silent connection holds one, nobody can join. */
static bool free_descriptor(struct rd_control *control, int error, int64_t now_ms)
{
	if (!lacks_resources(error))
		return false;
	if (close_oldest(control, now_ms))
		return rd_coordinator_listening(control->coordinator);
	errno = error;
	rd_fail_errno("rank 0 cannot accept a connection");
	rd_coordinator_fail(control->coordinator, RONDO_SYSTEM, rondo_last_error());
	close_door(control);
	return false;
}

/* Most ranks have sent their HELLO before they are accepted, so it is read at once: no silent
   connection, however many there are, comes between. */
static void open_next(struct rd_control *control, int fd, int64_t now_ms)
{
	int index = rd_coordinator_open(control->coordinator, now_ms);

	if (index < 0) {
		close(fd);
		return;
	}
	rd_socket_tune(fd, control->settings.heartbeat_timeout_ms);
	control->lines[index] = rd_connection_open(control->epoll_fd, fd, (uint64_t)index, EPOLLIN);
	if (control->lines[index])
		hear_line(control, index, now_ms);
	else
		rd_coordinator_closed(control->coordinator, index, 0);
}

/* A few at a time, so that a crowd does not keep the others waiting. */
static void open_door(struct rd_control *control, int64_t now_ms)
{
	for (int i = 0; i < RD_STRANGERS_MAX; i++) {
		int fd;

		while (!rd_coordinator_has_room(control->coordinator))
			if (!close_oldest(control, now_ms))
				return;
		/* Connections made once all are here are for the next comm, which may share the
		   socket. */
		if (control->door_fd < 0 || !rd_coordinator_listening(control->coordinator))
			return;
		fd = rd_accept(control->door_fd);
		if (fd >= 0)
			open_next(control, fd, now_ms);
		else if (!free_descriptor(control, errno, now_ms))
			return;
	}
}

/* Rank 0's participant and its coordinator, in turn until neither has anything to say. */
static void converse(struct rd_control *control, int64_t now_ms)
{
	struct rd_control_message message;
	bool said;

	do {
		said = false;
		while (rd_participant_next(control->participant, &message)) {
			rd_coordinator_take(control->coordinator, 0, &message, now_ms);
			said = true;
		}
		while (rd_coordinator_next(control->coordinator, 0, &message)) {
			rd_participant_take(control->participant, &message, now_ms);
			said = true;
		}
	} while (said);
}

static void serve_coordinator(struct rd_control *control, int64_t now_ms)
{
	if (rd_participant_dials(control->participant, now_ms)) {
		rd_coordinator_open(control->coordinator, now_ms);
		rd_participant_connected(control->participant, now_ms);
		control->seated = true;
	}
	if (control->seated)
		converse(control, now_ms);
	/* From then on the number 0 may be given to another. */
	if (control->seated && rd_participant_phase(control->participant) >= RD_SPOKE_GONE) {
		rd_coordinator_closed(control->coordinator, 0, 0);
		control->seated = false;
	}
	/* The door closes before anyone hears that all are here: who then comes for the next comm
	   must not be let into this one. */
	if (!rd_coordinator_listening(control->coordinator))
		close_door(control);
	for (int i = 0; i < rd_coordinator_line_count(control->coordinator); i++)
		serve_line(control, i);
}

/* ---- The watch over this host -------------------------------------------------------------- */

static void create_watch(struct rd_control *control)
{
	struct rd_watch_config config = { control->settings.rank, control->settings.size,
		rd_participant_members(control->participant),
		rd_participant_comm_id(control->participant), control->bell_fd };
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = WATCH };

	control->watches = true;
	control->watch = rd_watch_create(&config);
	if (control->watch)
		epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, rd_watch_fd(control->watch), &event);
}

/* What rank 0 said last: its verdict may be here, and not be read. */
static void hear_hub_out(struct rd_control *control, int64_t now_ms)
{
	struct pollfd fd = { .events = POLLIN };

	while (control->own) {
		fd.fd = control->own->fd;
		if (poll(&fd, 1, 0) <= 0)
			return;
		hear_own(control, now_ms);
	}
}

static void follow_death(struct rd_control *control, int64_t now_ms)
{
	int dead = control->dead;

	control->dead = -1;
	if (dead < 0 || rd_participant_phase(control->participant) != RD_SPOKE_OPEN)
		return;
	if (dead == 0) {
		rd_watch_spread(control->watch);
		hear_hub_out(control, now_ms);
	}
	rd_participant_died(control->participant, dead);
}

/* Each rank that is ready has made its watch; so once all are, all have. */
static void tend_watch(struct rd_control *control)
{
	enum rd_participant_phase phase = rd_participant_phase(control->participant);

	if (phase == RD_SPOKE_MET && !control->watches)
		create_watch(control);
	if (phase == RD_SPOKE_OPEN && control->watch)
		rd_watch_start(control->watch);
}

/* ---- The thread ---------------------------------------------------------------------------- */

static void follow_orders(struct rd_control *control, int64_t now_ms)
{
	struct orders orders;

	pthread_mutex_lock(&control->lock);
	orders = control->orders;
	control->orders.slow = false;
	while (control->link_failures_followed < control->link_failures.count)
		rd_participant_lose(control->participant,
			&control->link_failures.at[control->link_failures_followed++]);
	pthread_mutex_unlock(&control->lock);
	if (orders.looks > control->looks_followed)
		rd_participant_look(control->participant);
	control->looks_followed = orders.looks;
	if (orders.ready)
		rd_participant_ready(control->participant, orders.fallbacks, &orders.limits);
	if (orders.report)
		rd_participant_report(
			control->participant, orders.error, orders.culprit, orders.reason, now_ms);
	if (orders.slow)
		rd_participant_slow(control->participant, orders.slow_first, orders.slow_culprit,
			orders.slow_story);
	if (orders.leave)
		rd_participant_leave(control->participant, orders.digest, now_ms);
	if (orders.parent_error) {
		/* All ranks hear it from the parent's coordinator: there is nobody to wait for
		 * here. */
		rd_participant_fail(control->participant, orders.parent_error, orders.parent_story);
		if (control->coordinator)
			rd_coordinator_fail(
				control->coordinator, orders.parent_error, orders.parent_story);
	}
	control->leaving = orders.leave;
	control->quitting = orders.quit;
}

/* The coordinator's word counts for more: rank 0's participant hears nothing more once it has left.
 */
static int find_verdict(const struct rd_control *control, const char **reason)
{
	int error = control->coordinator ? rd_coordinator_verdict(control->coordinator, reason) : 0;

	return error ? error : rd_participant_verdict(control->participant, reason);
}

static void wake(struct rd_control *control)
{
	uint64_t one = 1;

	if (control->wake_fd >= 0 && write(control->wake_fd, &one, sizeof(one)) < 0)
		rd_log(RD_INFO, RD_BOOTSTRAP, "the wake-up was not written: %m");
}

static void ring(struct rd_control *control)
{
	uint64_t one = 1;

	/* It can only fail when it rings already. */
	if (write(control->bell_fd, &one, sizeof(one)) < 0)
		return;
}

/* Under the parent's lock, and so before the child can detach itself. */
static void end_child(struct rd_control *child, int error, const char *reason)
{
	pthread_mutex_lock(&child->lock);
	child->orders.parent_error = error;
	snprintf(child->orders.parent_story, sizeof(child->orders.parent_story), "%s", reason);
	ring(child);
	pthread_mutex_unlock(&child->lock);
}

static void store_verdict(struct rd_control *control, int error, const char *reason)
{
	snprintf(control->reason, sizeof(control->reason), "%s", reason);
	atomic_store(&control->verdict, error);
	atomic_store(control->failed, error);
	wake(control);
	for (struct rd_control *at = control->children; at; at = at->next_child)
		end_child(at, error, reason);
	rd_log(RD_INFO, RD_BOOTSTRAP, "%s: %s", rondo_error_name(error), reason);
}

/* True: there are new ones. What finds no room here now does so at the next news. */
static bool store_fallbacks(struct rd_control *control)
{
	const struct rd_link_failures *fallbacks = rd_participant_fallback(control->participant);
	int before = control->fallbacks.count;

	while (control->fallbacks.count < fallbacks->count &&
		rd_link_failures_add(&control->fallbacks, &fallbacks->at[control->fallbacks.count]))
		;
	atomic_store(&control->fallback_count, control->fallbacks.count);
	return control->fallbacks.count > before;
}

/* After the fallbacks that were heard of before. True: it has changed. */
static bool store_rounds(struct rd_control *control)
{
	int rounds = rd_participant_rounds(control->participant);

	return atomic_exchange(&control->rounds, rounds) != rounds;
}

static void publish(struct rd_control *control, bool over)
{
	enum rd_participant_phase phase = rd_participant_phase(control->participant);
	const char *reason;
	int error = find_verdict(control, &reason);

	/* Only this thread writes these, so it may read them without the lock. */
	if (atomic_load(&control->verdict))
		error = 0;
	if (phase == control->phase && !error && !over &&
		rd_participant_fallback(control->participant)->count == control->fallbacks.count &&
		rd_participant_rounds(control->participant) == atomic_load(&control->rounds))
		return;
	pthread_mutex_lock(&control->lock);
	bool news = store_fallbacks(control);

	if (store_rounds(control) || news)
		wake(control);
	control->phase = phase;
	control->limits = *rd_participant_limits(control->participant);
	control->over = over;
	if (error)
		store_verdict(control, error, reason);
	pthread_cond_broadcast(&control->news);
	pthread_mutex_unlock(&control->lock);
}

static bool is_finished(struct rd_control *control, int64_t now_ms)
{
	if (!control->coordinator)
		return control->quitting ||
		       (control->leaving &&
			       rd_participant_phase(control->participant) >= RD_SPOKE_GONE);
	if (!control->quitting && !control->leaving)
		return false;
	if (!rd_coordinator_settled(control->coordinator))
		return control->quitting;
	if (control->linger_ms == RD_NEVER)
		control->linger_ms = now_ms + LINGER_MS;
	return rd_coordinator_over(control->coordinator) || now_ms >= control->linger_ms;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int sleep_ms(const struct rd_control *control, int64_t now_ms)
{
	int64_t deadline =
		sooner(rd_participant_deadline(control->participant), control->linger_ms);

	if (control->coordinator)
		deadline = sooner(deadline, rd_coordinator_deadline(control->coordinator));
	if (control->own && control->own->connecting)
		deadline = sooner(deadline, control->attempt_ms);
	if (deadline == RD_NEVER)
		return -1;
	return deadline <= now_ms ? 0 : (int)sooner(deadline - now_ms, 60000);
}

static void take_event(struct rd_control *control, uint64_t mark, int64_t now_ms)
{
	uint64_t rings;

	if (mark == OWN)
		hear_own(control, now_ms);
	else if (mark == DOOR)
		open_door(control, now_ms);
	else if (mark == WATCH)
		rd_watch_receive(control->watch);
	else if (mark != BELL)
		hear_line(control, (int)mark, now_ms);
	else if (read(control->bell_fd, &rings, sizeof(rings)) < 0)
		return; /* it has been read before */
	/* Not looked for elsewhere: what the rank said before it died is heard first. */
	if ((mark == WATCH || mark == BELL) && control->watch)
		control->dead = rd_watch_dead(control->watch);
}

/*
 * Sleeps until something happens, then hears everything that has: time must not pass judgement on
 * what has arrived and not been read, after this process was stopped for a while.
 */
static int wait_for_events(struct rd_control *control, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	int count;

	do {
		int64_t now_ms;
		count = epoll_wait(control->epoll_fd, events, EVENTS_MAX, timeout_ms);
		if (count < 0)
			return errno == EINTR ? 0
					      : rd_fail_errno("the control connection cannot wait");
		now_ms = rd_now_ms();
		for (int i = 0; i < count; i++)
			take_event(control, events[i].data.u64, now_ms);
		timeout_ms = 0;
	} while (count == EVENTS_MAX);
	return 0;
}

/* A user sees the first at once, for who computes for long knows why; the others where they look.
 */
static void log_slow_call(struct rd_control *control)
{
	char text[RD_REASON_SIZE];

	if (!rd_coordinator_slow_call(control->coordinator, text))
		return;
	rd_log(control->warned ? RD_INFO : RD_WARN, RD_COLL, "slow call: %s", text);
	control->warned = true;
}

static void *run(void *argument)
{
	struct rd_control *control = argument;

	rd_log_rank(control->settings.rank);
	for (;;) {
		int64_t now_ms = rd_now_ms();
		follow_orders(control, now_ms);
		follow_death(control, now_ms);
		rd_participant_tick(control->participant, now_ms);
		if (control->coordinator) {
			rd_coordinator_tick(control->coordinator, now_ms);
			serve_coordinator(control, now_ms);
			log_slow_call(control);
		} else {
			serve_own(control, now_ms);
		}
		tend_watch(control);
		publish(control, false);
		if (is_finished(control, now_ms))
			break;
		if (wait_for_events(control, sleep_ms(control, now_ms))) {
			rd_participant_fail(control->participant, RONDO_SYSTEM, rondo_last_error());
			break;
		}
	}
	/* A child that is forked from now on finds no watch to abandon. */
	struct rd_watch *watch = control->watch;

	control->watch = NULL;
	rd_watch_destroy(watch);
	publish(control, true);
	return NULL;
}

static int start_thread(struct rd_control *control)
{
	int error = rd_thread_start(&control->thread, STACK_SIZE, run, control);

	if (!error)
		return 0;
	errno = error;
	return rd_fail_errno("cannot start the control connection's thread");
}

/* ---- Creating ------------------------------------------------------------------------------ */

static int watch_bell(struct rd_control *control)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = BELL };

	control->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	control->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (control->epoll_fd < 0 || control->bell_fd < 0 ||
		epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, control->bell_fd, &event))
		return rd_fail_errno("cannot watch the control connection's sockets");
	return 0;
}

static int init_coordinator(struct rd_control *control, int64_t now_ms)
{
	uint64_t comm_id = 0;
	int error;

	/* Before there is randomness at all, early in a boot, this waits. */
	if (getrandom(&comm_id, sizeof(comm_id), 0) != sizeof(comm_id))
		return rd_fail_errno("no random number for the comm");
	/* 0 says "not known yet" elsewhere. */
	comm_id += comm_id == 0;
	error = rd_coordinator_create(
		&control->coordinator, &control->settings, control->address, comm_id, now_ms);
	if (error)
		return error;
	control->lines = calloc(
		(size_t)rd_coordinator_line_count(control->coordinator), sizeof(*control->lines));
	if (!control->lines)
		return rd_fail(RONDO_MEMORY, "no memory for the coordinator's connections");
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* A rank alone meets nobody, and needs no address. */
static int open_alone(struct rd_control *control)
{
	int error = 0, fd = -1;

	if (control->settings.rendezvous_fd >= 0)
		error = rd_listen(&fd, &control->addresses, &control->settings);
	if (error)
		return error;
	close_fd(fd);
	strcpy(control->where, "alone");
	return 0;
}

/* Where the ranks of this comm connect to rank 0. */
static int open_listener(struct rd_control *control)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = DOOR };
	int error = rd_listen(&control->door_fd, &control->addresses, &control->settings);

	if (error) {
		control->door_fd = -1;
		return error;
	}
	if (epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, control->door_fd, &event))
		return rd_fail_errno("cannot watch the control connection's sockets");
	return 0;
}

static int open_sockets(struct rd_control *control, int64_t deadline_ms)
{
	const struct rd_settings *settings = &control->settings;
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof(address);
	int error;

	if (settings->size == 1)
		return open_alone(control);
	if (settings->rank != 0 || settings->rendezvous_fd < 0) {
		error = rd_resolve(&control->addresses, settings, deadline_ms);
		if (error)
			return error;
		address = control->addresses.at[0];
	}
	if (settings->rank == 0) {
		error = open_listener(control);
		if (error)
			return error;
		if (getsockname(control->door_fd, (struct sockaddr *)&address, &size))
			return rd_fail_errno("rank 0 does not know where it listens");
		rd_socket_describe(control->where, control->door_fd);
		control->near = address;
	}
	rd_dial_text(control->address, &address);
	return 0;
}

static void close_fds(const struct rd_control *control)
{
	close_fd(control->door_fd);
	close_fd(control->bell_fd);
	close_fd(control->epoll_fd);
}

static void free_all(struct rd_control *control)
{
	free(control->lines);
	rd_link_failures_finish(&control->link_failures);
	rd_link_failures_finish(&control->fallbacks);
	rd_coordinator_destroy(control->coordinator);
	rd_participant_destroy(control->participant);
	free(control);
}

/* After the thread, or in place of it. */
static void destroy(struct rd_control *control)
{
	if (control->lines)
		for (int i = 0; i < rd_coordinator_line_count(control->coordinator); i++)
			rd_connection_close(&control->lines[i]);
	rd_connection_close(&control->own);
	close_fds(control);
	pthread_cond_destroy(&control->news);
	pthread_mutex_destroy(&control->lock);
	free_all(control);
}

static int check_config(const struct rd_control_config *config)
{
	const struct rd_settings *settings = config->settings;

	if (settings->size < 1 || settings->size > RD_SIZE_MAX || settings->rank < 0 ||
		settings->rank >= settings->size)
		return rd_fail(
			RONDO_SETTING, "there is no rank %d of %d", settings->rank, settings->size);
	if (settings->timeout_ms < 1 || settings->heartbeat_timeout_ms < 1 ||
		settings->init_timeout_ms < 1)
		return rd_fail(RONDO_SETTING, "timeouts must be positive");
	return 0;
}

/* Why this rank cannot take part. */
struct refusal {
	int error;
	const char *reason;
};

static void decline(struct rd_control *control, const struct refusal *refusal, int64_t now_ms)
{
	if (control->coordinator)
		rd_coordinator_decline(control->coordinator, refusal->error, refusal->reason);
	else
		rd_participant_report(control->participant, refusal->error, control->settings.rank,
			refusal->reason, now_ms);
}

static int start(struct rd_control *control, const struct rd_control_config *config,
	const struct refusal *refusal, int64_t now_ms)
{
	int error = 0;

	if (control->settings.rank == 0)
		error = init_coordinator(control, now_ms);
	if (!error)
		error = rd_participant_create(&control->participant, &control->settings,
			config->self, config->activity, control->address, now_ms);
	if (error)
		return error;
	if (refusal)
		decline(control, refusal, now_ms);
	return start_thread(control);
}

static struct rd_control *allocate(const struct rd_control_config *config)
{
	struct rd_control *control = calloc(1, sizeof(*control));

	if (!control) {
		rd_fail(RONDO_MEMORY, "no memory for a control connection");
		return NULL;
	}
	control->settings = *config->settings;
	control->failed = config->failed;
	control->wake_fd = config->wake_fd;
	control->epoll_fd = control->bell_fd = control->door_fd = -1;
	control->linger_ms = RD_NEVER;
	control->dead = -1;
	pthread_mutex_init(&control->lock, NULL);
	rd_condition_init(&control->news);
	return control;
}

/*
 * A control connection with its thread, and its sockets open. On an error *fd is the listening
 * socket that was to be taken over, or -1 where that has been closed; *cut_off: no socket reaches
 * the others.
 */
static int begin(struct rd_control **made, const struct rd_control_config *config,
	const struct refusal *refusal, int *fd, bool *cut_off)
{
	struct rd_control *control = allocate(config);
	int64_t now_ms = rd_now_ms();
	int error = control ? watch_bell(control) : RONDO_MEMORY;

	*fd = config->settings->rendezvous_fd;
	*cut_off = false;
	*made = control;
	if (!error) {
		error = open_sockets(control, now_ms + control->settings.init_timeout_ms);
		*cut_off = error != 0;
		*fd = -1;
	}
	if (!error)
		error = start(control, config, refusal, now_ms);
	if (!error || !control)
		return error;
	if (!*cut_off && control->door_fd >= 0 && control->settings.rendezvous_fd >= 0) {
		*fd = control->door_fd;
		control->door_fd = -1;
	}
	destroy(control);
	*made = NULL;
	return error;
}

static void attach(struct rd_control *control, struct rd_control *parent)
{
	int error;

	if (!parent)
		return;
	control->parent = parent;
	pthread_mutex_lock(&parent->lock);
	control->next_child = parent->children;
	parent->children = control;
	error = atomic_load(&parent->verdict);
	if (error)
		end_child(control, error, parent->reason);
	pthread_mutex_unlock(&parent->lock);
}

void rd_control_detach(struct rd_control *control)
{
	struct rd_control *parent = control->parent, **at;

	if (!parent)
		return;
	pthread_mutex_lock(&parent->lock);
	for (at = &parent->children; *at != control;)
		at = &(*at)->next_child;
	*at = control->next_child;
	pthread_mutex_unlock(&parent->lock);
	control->parent = NULL;
}

/* Waits, under the lock, until the rank is so far or nothing more will come. */
static void wait_for(struct rd_control *control, enum rd_participant_phase phase)
{
	while (control->phase < phase && !atomic_load(&control->verdict) && !control->over)
		pthread_cond_wait(&control->news, &control->lock);
}

static void await_meeting(struct rd_control *control)
{
	pthread_mutex_lock(&control->lock);
	wait_for(control, RD_SPOKE_MET);
	pthread_mutex_unlock(&control->lock);
}

/* What is no listening socket is somebody else's. */
static void close_listener(const struct rd_settings *settings)
{
	struct rd_addresses none = { 0 };
	int fd;

	if (settings->rank == 0 && settings->rendezvous_fd >= 0 && !rd_listen(&fd, &none, settings))
		close(fd);
}

void rd_control_decline(const struct rd_settings *settings, int error, const char *reason)
{
	struct rd_settings mine = *settings;
	struct rd_member nobody = { 0 };
	struct rd_activity nothing = { .collective = -1, .waiting_for = -1 };
	_Atomic int failed = 0;
	struct rd_control_config config = { &mine, &nobody, &nothing, &failed, -1, NULL };
	struct refusal refusal = { error, reason };
	struct rd_control *control = NULL;
	bool cut_off;

	/* Bounds how long a name is looked up. */
	mine.init_timeout_ms = RD_REPORT_MS;
	if (mine.size < 2 || check_config(&config) ||
		begin(&control, &config, &refusal, &mine.rendezvous_fd, &cut_off)) {
		close_listener(&mine);
		return;
	}
	await_meeting(control);
	rd_control_destroy(control);
}

int rd_control_create(struct rd_control **created, const struct rd_control_config *config)
{
	struct rd_settings settings = *config->settings;
	int error = check_config(config);
	char reason[RD_REASON_SIZE];
	bool cut_off;

	*created = NULL;
	if (error)
		return error;
	error = begin(created, config, NULL, &settings.rendezvous_fd, &cut_off);
	if (error && !cut_off) {
		snprintf(reason, sizeof(reason), "%s", rondo_last_error());
		rd_control_decline(&settings, error, reason);
		rd_fail(error, "%s", reason);
	}
	if (error)
		return error;
	attach(*created, config->parent);
	await_meeting(*created);
	error = rd_control_verdict(*created);
	if (!error)
		return 0;
	rd_control_destroy(*created);
	*created = NULL;
	return error;
}

/* ---- The rest of the interface ------------------------------------------------------------- */

const struct rd_member *rd_control_members(const struct rd_control *control)
{
	return rd_participant_members(control->participant);
}

uint64_t rd_control_comm_id(const struct rd_control *control)
{
	return rd_participant_comm_id(control->participant);
}

void rd_control_address(const struct rd_control *control, struct sockaddr_storage *address)
{
	*address = control->near;
}

const char *rd_control_describe(const struct rd_control *control)
{
	return control->where;
}

int rd_control_verdict(struct rd_control *control)
{
	int error = atomic_load(&control->verdict);

	return error ? rd_fail(error, "%s", control->reason) : 0;
}

int rd_control_lose(struct rd_control *control, const struct rd_link_failure *link_failure)
{
	bool added;

	pthread_mutex_lock(&control->lock);
	added = rd_link_failures_add(&control->link_failures, link_failure);
	if (added)
		ring(control);
	pthread_mutex_unlock(&control->lock);
	return added ? 0 : rd_fail(RONDO_MEMORY, "no memory for a link failure");
}

bool rd_control_fallback(struct rd_control *control, int number, struct rd_link_failure *fallback)
{
	if (number >= atomic_load(&control->fallback_count))
		return false;
	pthread_mutex_lock(&control->lock);
	*fallback = control->fallbacks.at[number];
	pthread_mutex_unlock(&control->lock);
	return true;
}

void rd_control_look(struct rd_control *control)
{
	pthread_mutex_lock(&control->lock);
	control->orders.looks++;
	ring(control);
	pthread_mutex_unlock(&control->lock);
}

int rd_control_rounds(const struct rd_control *control)
{
	return atomic_load(&control->rounds);
}

int rd_control_ready(struct rd_control *control, int fallbacks, struct rd_link_limits *limits)
{
	bool another;

	pthread_mutex_lock(&control->lock);
	control->orders.ready = true;
	control->orders.fallbacks = fallbacks;
	control->orders.limits = *limits;
	ring(control);
	while (control->fallbacks.count <= fallbacks && control->phase < RD_SPOKE_OPEN &&
		!atomic_load(&control->verdict) && !control->over)
		pthread_cond_wait(&control->news, &control->lock);
	another = control->fallbacks.count > fallbacks;
	if (control->phase == RD_SPOKE_OPEN)
		*limits = control->limits;
	pthread_mutex_unlock(&control->lock);

	int verdict = rd_control_verdict(control);

	return verdict ? verdict : another;
}

int rd_control_report(struct rd_control *control, int error, int culprit, const char *reason)
{
	struct orders *orders = &control->orders;
	int verdict;

	pthread_mutex_lock(&control->lock);
	if (!orders->report) {
		orders->report = true;
		orders->error = error;
		orders->culprit = culprit;
		snprintf(orders->reason, sizeof(orders->reason), "%s", reason);
		ring(control);
	}
	wait_for(control, RD_SPOKE_GONE);
	pthread_mutex_unlock(&control->lock);
	verdict = rd_control_verdict(control);
	return verdict ? verdict : rd_fail(error, "%s", reason);
}

void rd_control_slow(struct rd_control *control, bool first, int culprit, const char *reason)
{
	struct orders *orders = &control->orders;

	pthread_mutex_lock(&control->lock);
	orders->slow = true;
	orders->slow_first = first;
	orders->slow_culprit = culprit;
	snprintf(orders->slow_story, sizeof(orders->slow_story), "%s", reason);
	ring(control);
	pthread_mutex_unlock(&control->lock);
}

int rd_control_leave(struct rd_control *control, uint64_t digest)
{
	int verdict;

	pthread_mutex_lock(&control->lock);
	control->orders.leave = true;
	control->orders.digest = digest;
	ring(control);
	pthread_mutex_unlock(&control->lock);
	pthread_join(control->thread, NULL);
	rd_control_detach(control);
	verdict = rd_control_verdict(control);
	destroy(control);
	return verdict;
}

void rd_control_destroy(struct rd_control *control)
{
	if (!control)
		return;
	pthread_mutex_lock(&control->lock);
	control->orders.quit = true;
	ring(control);
	pthread_mutex_unlock(&control->lock);
	pthread_join(control->thread, NULL);
	rd_control_detach(control);
	destroy(control);
}

void rd_control_abandon(struct rd_control *control)
{
	if (!control)
		return;
	if (control->lines)
		for (int i = 0; i < rd_coordinator_line_count(control->coordinator); i++)
			rd_connection_abandon(control->lines[i]);
	rd_connection_abandon(control->own);
	rd_watch_abandon(control->watch);
	close_fds(control);
	free_all(control);
}
