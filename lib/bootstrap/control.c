/*
 * The sockets and the thread of the lifeline. What is said is decided in coordinator.c and participant.c; here it
 * is carried: notes to bytes, events to calls, deadlines to a poll.
 *
 * The thread alone touches the machines, the sockets and the lines. Callers leave orders under the
 * lock and ring the bell; the thread publishes its phase and the verdict under the lock. The
 * verdict is stored after its reason and never changes, so it may also be read without the lock.
 *
 * In rank 0 the participant and the coordinator hand each other notes directly, as line 0.
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

#include "bootstrap/socket.h"
#include "base/log.h"
#include "bootstrap/rendezvous.h"
#include "base/thread.h"
#include "base/close_on_fork.h"
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

/* A control connection, at this end. */
struct line {
	int fd; /* -1: in a forked child */
	struct rd_close_on_fork unshared;
	uint64_t mark;
	uint32_t watched; /* epoll events */
	bool connecting;
	size_t in_size, out_size, out_at;
	unsigned char in[RD_FRAME_MAX];
	unsigned char out[2 * RD_FRAME_MAX];
};

/* What callers want of the thread. */
struct orders {
	bool ready, report, slow, leave, quit;
	int looks; /* so far */
	int detours; /* that `ready` comes after, */
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

struct rd_lifeline {
	struct rd_settings settings;
	_Atomic int *failed;
	int wake_fd;
	char address[RD_WHERE_SIZE]; /* where rank 0 listens, for reasons */
	char where[RD_WHERE_SIZE];
	struct sockaddr_storage near; /* this end's address; set before RD_SPOKE_MET */

	pthread_mutex_t lock;
	pthread_cond_t news;
	struct orders orders; /* under the lock */
	struct rd_losses losses, detours; /* under the lock: lost here; the coordinator's word on them */
	_Atomic int detour_count, rounds;
	enum rd_participant_phase phase; /* under the lock */
	struct rd_link_limits limits; /* under the lock: what all ranks' links can do */
	bool over; /* under the lock: the thread has ended */
	_Atomic int verdict;
	char reason[RD_REASON_SIZE];
	struct rd_lifeline *children; /* under the lock: those made from it just now */
	struct rd_lifeline *next_child; /* under the parent's lock */
	struct rd_lifeline *parent; /* the caller's; NULL: none, or no longer */

	/* The thread's own: */
	pthread_t thread;
	int epoll_fd, bell_fd, door_fd;
	struct rd_participant *participant;
	struct line *own; /* to the coordinator; NULL in rank 0 */
	struct rd_addresses addresses;
	int attempt; /* which of them is being dialled */
	int64_t attempt_ms; /* until when */
	struct rd_coordinator *coordinator; /* NULL but in rank 0 */
	bool seated; /* the participant here is the coordinator's line 0 */
	bool warned; /* of a slow call */
	struct line **lines; /* the coordinator's; NULL where there is none */
	int losses_followed, looks_followed;
	struct rd_watch *watch; /* NULL: none */
	bool watches; /* there is one, or none to be had */
	int dead; /* as the watch reported it with the latest events; -1: none */
	bool leaving, quitting;
	int64_t linger_ms;
};

/* ---- Lines --------------------------------------------------------------------------------- */

static struct line *open_line(struct rd_lifeline *lifeline, int fd, uint64_t mark, uint32_t watch)
{
	struct epoll_event event = { .events = watch, .data.u64 = mark };
	struct line *line = calloc(1, sizeof(*line));

	if (!line || epoll_ctl(lifeline->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		free(line);
		close(fd);
		return NULL;
	}
	line->fd = fd;
	rd_close_on_fork_add(&line->unshared, &line->fd);
	line->mark = mark;
	line->watched = watch;
	return line;
}

static void close_line(struct rd_lifeline *lifeline, struct line **line)
{
	if (!*line)
		return;
	/* Said outright, and not left to close(): a child of this process may hold a copy. */
	epoll_ctl(lifeline->epoll_fd, EPOLL_CTL_DEL, (*line)->fd, NULL);
	shutdown((*line)->fd, SHUT_WR);
	rd_close_on_fork_remove(&(*line)->unshared);
	close((*line)->fd);
	free(*line);
	*line = NULL;
}

static void watch_line(struct rd_lifeline *lifeline, struct line *line, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = line->mark };

	if (line->watched == events)
		return;
	line->watched = events;
	epoll_ctl(lifeline->epoll_fd, EPOLL_CTL_MOD, line->fd, &event);
}

/* Reads once. True: bytes came, or may come later; false: the connection has ended, with *error. */
static bool fill_line(struct line *line, int *error)
{
	ssize_t got = recv(line->fd, line->in + line->in_size, sizeof(line->in) - line->in_size, 0);

	if (got > 0) {
		line->in_size += (size_t)got;
		return true;
	}
	*error = got < 0 ? errno : 0;
	return *error == EAGAIN || *error == EINTR;
}

/* The next note that has arrived whole: 1; 0: none; RONDO_PROTOCOL. */
static int take_note(struct line *line, struct rd_note *note)
{
	int took = rd_wire_get(line->in, line->in_size, note);

	if (took < 0)
		line->in_size = 0;
	if (took <= 0)
		return took;
	line->in_size -= (size_t)took;
	memmove(line->in, line->in + took, line->in_size);
	return 1;
}

static bool has_room(const struct line *line)
{
	return sizeof(line->out) - line->out_size >= RD_FRAME_MAX;
}

static void put_note(struct line *line, struct rd_note *note)
{
	line->out_size += rd_wire_put(note, line->out + line->out_size);
}

/* Sends what was put. False: the connection has ended, with *error. */
static bool push_line(struct rd_lifeline *lifeline, struct line *line, int *error)
{
	while (line->out_at < line->out_size) {
		ssize_t sent = send(line->fd, line->out + line->out_at,
			line->out_size - line->out_at, MSG_NOSIGNAL);
		if (sent < 0) {
			*error = errno;
			watch_line(lifeline, line, EPOLLIN | EPOLLOUT);
			return *error == EAGAIN || *error == EINTR;
		}
		line->out_at += (size_t)sent;
	}
	line->out_at = 0;
	line->out_size = 0;
	watch_line(lifeline, line, EPOLLIN);
	return true;
}

/* ---- The participant's connection ---------------------------------------------------------------- */

/* Goes on to the next address; after the last, the attempt has failed for the given reason. */
static void dial(struct rd_lifeline *lifeline, int error, int64_t now_ms)
{
	for (; lifeline->attempt < lifeline->addresses.count; lifeline->attempt++) {
		int fd = rd_dial(&lifeline->addresses, lifeline->attempt);
		if (fd < 0) {
			error = errno;
			continue;
		}
		lifeline->own = open_line(lifeline, fd, OWN, EPOLLOUT);
		if (!lifeline->own) {
			error = ENOMEM;
			continue;
		}
		lifeline->own->connecting = true;
		lifeline->attempt_ms = now_ms + ATTEMPT_MS;
		return;
	}
	rd_participant_refused(lifeline->participant, error == ECONNREFUSED, strerror(error), now_ms);
}

static void dial_next(struct rd_lifeline *lifeline, int error, int64_t now_ms)
{
	close_line(lifeline, &lifeline->own);
	lifeline->attempt++;
	dial(lifeline, error, now_ms);
}

static void finish_dialling(struct rd_lifeline *lifeline, int64_t now_ms)
{
	struct line *own = lifeline->own;
	int error = rd_dialled(own->fd);

	if (error) {
		dial_next(lifeline, error, now_ms);
		return;
	}
	own->connecting = false;
	rd_tune(own->fd, lifeline->settings.heartbeat_timeout_ms);
	watch_line(lifeline, own, EPOLLIN);
	rd_where(lifeline->where, own->fd);
	getsockname(own->fd, (struct sockaddr *)&lifeline->near,
		&(socklen_t){ sizeof(lifeline->near) });
	rd_participant_connected(lifeline->participant, now_ms);
}

static void lose_own(struct rd_lifeline *lifeline, int error, int64_t now_ms)
{
	close_line(lifeline, &lifeline->own);
	rd_participant_closed(lifeline->participant, error, now_ms);
}

static void hear_own(struct rd_lifeline *lifeline, int64_t now_ms)
{
	struct line *own = lifeline->own;
	struct rd_note note;
	int error, took;

	if (!own)
		return;
	if (own->connecting) {
		finish_dialling(lifeline, now_ms);
		return;
	}
	if (!fill_line(own, &error)) {
		lose_own(lifeline, error, now_ms);
		return;
	}
	while ((took = take_note(own, &note)) > 0)
		rd_participant_take(lifeline->participant, &note, now_ms);
	if (took < 0)
		rd_participant_garbled(lifeline->participant);
}

/* Says what the participant has to say, dials where it wants to, hangs up where it is done. */
static void serve_own(struct rd_lifeline *lifeline, int64_t now_ms)
{
	struct rd_note note;
	int error;

	if (lifeline->own && lifeline->own->connecting && now_ms >= lifeline->attempt_ms)
		dial_next(lifeline, ETIMEDOUT, now_ms);
	if (rd_participant_dials(lifeline->participant, now_ms)) {
		lifeline->attempt = 0;
		dial(lifeline, 0, now_ms);
	}
	if (rd_participant_phase(lifeline->participant) >= RD_SPOKE_GONE)
		close_line(lifeline, &lifeline->own);
	while (lifeline->own && !lifeline->own->connecting) {
		while (has_room(lifeline->own) && rd_participant_next(lifeline->participant, &note))
			put_note(lifeline->own, &note);
		if (lifeline->own->out_size == 0)
			return;
		if (!push_line(lifeline, lifeline->own, &error))
			lose_own(lifeline, error, now_ms);
		else if (lifeline->own->out_size > 0)
			return;
	}
}

/* ---- The coordinator's connections ----------------------------------------------------------------- */

static void lose_line(struct rd_lifeline *lifeline, int index, int error)
{
	close_line(lifeline, &lifeline->lines[index]);
	rd_coordinator_closed(lifeline->coordinator, index, error);
}

static void hear_line(struct rd_lifeline *lifeline, int index, int64_t now_ms)
{
	struct line *line = lifeline->lines[index];
	struct rd_note note;
	int error, took;

	if (!line)
		return;
	if (!fill_line(line, &error)) {
		lose_line(lifeline, index, error);
		return;
	}
	while ((took = take_note(line, &note)) > 0)
		rd_coordinator_take(lifeline->coordinator, index, &note, now_ms);
	if (took < 0)
		rd_coordinator_garbled(lifeline->coordinator, index, now_ms);
}

static void serve_line(struct rd_lifeline *lifeline, int index)
{
	struct line *line = lifeline->lines[index];
	struct rd_note note;
	int error;

	while (line) {
		while (has_room(line) && rd_coordinator_next(lifeline->coordinator, index, &note))
			put_note(line, &note);
		if (line->out_size == 0)
			break;
		if (!push_line(lifeline, line, &error)) {
			lose_line(lifeline, index, error);
			return;
		}
		if (line->out_size > 0)
			break;
	}
	if (line && rd_coordinator_dropped(lifeline->coordinator, index))
		lose_line(lifeline, index, 0);
}

static void close_door(struct rd_lifeline *lifeline)
{
	if (lifeline->door_fd < 0)
		return;
	/* As in close_line(): a launcher may hold a copy, which epoll would go on to report. */
	epoll_ctl(lifeline->epoll_fd, EPOLL_CTL_DEL, lifeline->door_fd, NULL);
	close(lifeline->door_fd);
	lifeline->door_fd = -1;
}

/* Closes the connection that has been silent for longest, unless its HELLO has just come. False:
   there is none to close. */
static bool close_oldest(struct rd_lifeline *lifeline, int64_t now_ms)
{
	int index = rd_coordinator_oldest_stranger(lifeline->coordinator);

	if (index < 0)
		return false;
	hear_line(lifeline, index, now_ms);
	if (rd_coordinator_oldest_stranger(lifeline->coordinator) == index)
		lose_line(lifeline, index, 0);
	return true;
}

static bool lacks_resources(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* Where rank 0 is out of descriptors, say, and no silent connection holds one, nobody can join. */
static bool free_descriptor(struct rd_lifeline *lifeline, int error, int64_t now_ms)
{
	if (!lacks_resources(error))
		return false;
	if (close_oldest(lifeline, now_ms))
		return rd_coordinator_listening(lifeline->coordinator);
	errno = error;
	rd_fail_errno("rank 0 cannot accept a connection");
	rd_coordinator_fail(lifeline->coordinator, RONDO_SYSTEM, rondo_last_error());
	close_door(lifeline);
	return false;
}

/* Most ranks have sent their HELLO before they are accepted, so it is read at once: no silent
   connection, however many there are, comes between. */
static void open_next(struct rd_lifeline *lifeline, int fd, int64_t now_ms)
{
	int index = rd_coordinator_open(lifeline->coordinator, now_ms);

	if (index < 0) {
		close(fd);
		return;
	}
	rd_tune(fd, lifeline->settings.heartbeat_timeout_ms);
	lifeline->lines[index] = open_line(lifeline, fd, (uint64_t)index, EPOLLIN);
	if (lifeline->lines[index])
		hear_line(lifeline, index, now_ms);
	else
		rd_coordinator_closed(lifeline->coordinator, index, 0);
}

/* A few at a time, so that a crowd does not keep the others waiting. */
static void open_door(struct rd_lifeline *lifeline, int64_t now_ms)
{
	for (int i = 0; i < RD_STRANGERS_MAX; i++) {
		int fd;

		while (!rd_coordinator_has_room(lifeline->coordinator))
			if (!close_oldest(lifeline, now_ms))
				return;
		/* Connections made once all are here are for the next comm, which may share the
		   socket. */
		if (lifeline->door_fd < 0 || !rd_coordinator_listening(lifeline->coordinator))
			return;
		fd = rd_accept(lifeline->door_fd);
		if (fd >= 0)
			open_next(lifeline, fd, now_ms);
		else if (!free_descriptor(lifeline, errno, now_ms))
			return;
	}
}

/* Rank 0's participant and its coordinator, in turn until neither has anything to say. */
static void converse(struct rd_lifeline *lifeline, int64_t now_ms)
{
	struct rd_note note;
	bool said;

	do {
		said = false;
		while (rd_participant_next(lifeline->participant, &note)) {
			rd_coordinator_take(lifeline->coordinator, 0, &note, now_ms);
			said = true;
		}
		while (rd_coordinator_next(lifeline->coordinator, 0, &note)) {
			rd_participant_take(lifeline->participant, &note, now_ms);
			said = true;
		}
	} while (said);
}

static void serve_coordinator(struct rd_lifeline *lifeline, int64_t now_ms)
{
	if (rd_participant_dials(lifeline->participant, now_ms)) {
		rd_coordinator_open(lifeline->coordinator, now_ms);
		rd_participant_connected(lifeline->participant, now_ms);
		lifeline->seated = true;
	}
	if (lifeline->seated)
		converse(lifeline, now_ms);
	/* From then on the number 0 may be given to another. */
	if (lifeline->seated && rd_participant_phase(lifeline->participant) >= RD_SPOKE_GONE) {
		rd_coordinator_closed(lifeline->coordinator, 0, 0);
		lifeline->seated = false;
	}
	/* The door closes before anyone hears that all are here: who then comes for the next comm
	   must not be let into this one. */
	if (!rd_coordinator_listening(lifeline->coordinator))
		close_door(lifeline);
	for (int i = 0; i < rd_coordinator_line_count(lifeline->coordinator); i++)
		serve_line(lifeline, i);
}

/* ---- The watch over this host -------------------------------------------------------------- */

static void create_watch(struct rd_lifeline *lifeline)
{
	struct rd_watch_config config = { lifeline->settings.rank, lifeline->settings.size,
		rd_participant_members(lifeline->participant), rd_participant_comm_id(lifeline->participant),
		lifeline->bell_fd };
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = WATCH };

	lifeline->watches = true;
	lifeline->watch = rd_watch_create(&config);
	if (lifeline->watch)
		epoll_ctl(lifeline->epoll_fd, EPOLL_CTL_ADD, rd_watch_fd(lifeline->watch), &event);
}

/* What rank 0 said last: its verdict may be here, and not be read. */
static void hear_hub_out(struct rd_lifeline *lifeline, int64_t now_ms)
{
	struct pollfd fd = { .events = POLLIN };

	while (lifeline->own) {
		fd.fd = lifeline->own->fd;
		if (poll(&fd, 1, 0) <= 0)
			return;
		hear_own(lifeline, now_ms);
	}
}

static void follow_death(struct rd_lifeline *lifeline, int64_t now_ms)
{
	int dead = lifeline->dead;

	lifeline->dead = -1;
	if (dead < 0 || rd_participant_phase(lifeline->participant) != RD_SPOKE_OPEN)
		return;
	if (dead == 0) {
		rd_watch_spread(lifeline->watch);
		hear_hub_out(lifeline, now_ms);
	}
	rd_participant_died(lifeline->participant, dead);
}

/* Each rank that is ready has made its watch; so once all are, all have. */
static void tend_watch(struct rd_lifeline *lifeline)
{
	enum rd_participant_phase phase = rd_participant_phase(lifeline->participant);

	if (phase == RD_SPOKE_MET && !lifeline->watches)
		create_watch(lifeline);
	if (phase == RD_SPOKE_OPEN && lifeline->watch)
		rd_watch_start(lifeline->watch);
}

/* ---- The thread ---------------------------------------------------------------------------- */

static void follow_orders(struct rd_lifeline *lifeline, int64_t now_ms)
{
	struct orders orders;

	pthread_mutex_lock(&lifeline->lock);
	orders = lifeline->orders;
	lifeline->orders.slow = false;
	while (lifeline->losses_followed < lifeline->losses.count)
		rd_participant_lose(lifeline->participant, &lifeline->losses.at[lifeline->losses_followed++]);
	pthread_mutex_unlock(&lifeline->lock);
	if (orders.looks > lifeline->looks_followed)
		rd_participant_look(lifeline->participant);
	lifeline->looks_followed = orders.looks;
	if (orders.ready)
		rd_participant_ready(lifeline->participant, orders.detours, &orders.limits);
	if (orders.report)
		rd_participant_report(
			lifeline->participant, orders.error, orders.culprit, orders.reason, now_ms);
	if (orders.slow)
		rd_participant_slow(
			lifeline->participant, orders.slow_first, orders.slow_culprit, orders.slow_story);
	if (orders.leave)
		rd_participant_leave(lifeline->participant, orders.digest, now_ms);
	if (orders.parent_error) {
		/* All ranks hear it from the parent's coordinator: there is nobody to wait for here. */
		rd_participant_fail(lifeline->participant, orders.parent_error, orders.parent_story);
		if (lifeline->coordinator)
			rd_coordinator_fail(lifeline->coordinator, orders.parent_error, orders.parent_story);
	}
	lifeline->leaving = orders.leave;
	lifeline->quitting = orders.quit;
}

/* The coordinator's word counts for more: rank 0's participant hears nothing more once it has left. */
static int find_verdict(const struct rd_lifeline *lifeline, const char **reason)
{
	int error = lifeline->coordinator ? rd_coordinator_verdict(lifeline->coordinator, reason) : 0;

	return error ? error : rd_participant_verdict(lifeline->participant, reason);
}

static void wake(struct rd_lifeline *lifeline)
{
	uint64_t one = 1;

	if (lifeline->wake_fd >= 0 && write(lifeline->wake_fd, &one, sizeof(one)) < 0)
		rd_log(RD_INFO, RD_BOOTSTRAP, "the wake-up was not written: %m");
}

static void ring(struct rd_lifeline *lifeline)
{
	uint64_t one = 1;

	/* It can only fail when it rings already. */
	if (write(lifeline->bell_fd, &one, sizeof(one)) < 0)
		return;
}

/* Under the parent's lock, and so before the child can detach itself. */
static void end_child(struct rd_lifeline *child, int error, const char *reason)
{
	pthread_mutex_lock(&child->lock);
	child->orders.parent_error = error;
	snprintf(child->orders.parent_story, sizeof(child->orders.parent_story), "%s", reason);
	ring(child);
	pthread_mutex_unlock(&child->lock);
}

static void store_verdict(struct rd_lifeline *lifeline, int error, const char *reason)
{
	snprintf(lifeline->reason, sizeof(lifeline->reason), "%s", reason);
	atomic_store(&lifeline->verdict, error);
	atomic_store(lifeline->failed, error);
	wake(lifeline);
	for (struct rd_lifeline *at = lifeline->children; at; at = at->next_child)
		end_child(at, error, reason);
	rd_log(RD_INFO, RD_BOOTSTRAP, "%s: %s", rondo_error_name(error), reason);
}

/* True: there are new ones. What finds no room here now does so at the next news. */
static bool store_detours(struct rd_lifeline *lifeline)
{
	const struct rd_losses *detours = rd_participant_detours(lifeline->participant);
	int before = lifeline->detours.count;

	while (lifeline->detours.count < detours->count &&
		rd_losses_add(&lifeline->detours, &detours->at[lifeline->detours.count]))
		;
	atomic_store(&lifeline->detour_count, lifeline->detours.count);
	return lifeline->detours.count > before;
}

/* After the detours that were heard of before. True: it has changed. */
static bool store_rounds(struct rd_lifeline *lifeline)
{
	int rounds = rd_participant_rounds(lifeline->participant);

	return atomic_exchange(&lifeline->rounds, rounds) != rounds;
}

static void publish(struct rd_lifeline *lifeline, bool over)
{
	enum rd_participant_phase phase = rd_participant_phase(lifeline->participant);
	const char *reason;
	int error = find_verdict(lifeline, &reason);

	/* Only this thread writes these, so it may read them without the lock. */
	if (atomic_load(&lifeline->verdict))
		error = 0;
	if (phase == lifeline->phase && !error && !over &&
		rd_participant_detours(lifeline->participant)->count == lifeline->detours.count &&
		rd_participant_rounds(lifeline->participant) == atomic_load(&lifeline->rounds))
		return;
	pthread_mutex_lock(&lifeline->lock);
	bool news = store_detours(lifeline);

	if (store_rounds(lifeline) || news)
		wake(lifeline);
	lifeline->phase = phase;
	lifeline->limits = *rd_participant_limits(lifeline->participant);
	lifeline->over = over;
	if (error)
		store_verdict(lifeline, error, reason);
	pthread_cond_broadcast(&lifeline->news);
	pthread_mutex_unlock(&lifeline->lock);
}

static bool is_finished(struct rd_lifeline *lifeline, int64_t now_ms)
{
	if (!lifeline->coordinator)
		return lifeline->quitting ||
		       (lifeline->leaving && rd_participant_phase(lifeline->participant) >= RD_SPOKE_GONE);
	if (!lifeline->quitting && !lifeline->leaving)
		return false;
	if (!rd_coordinator_settled(lifeline->coordinator))
		return lifeline->quitting;
	if (lifeline->linger_ms == RD_NEVER)
		lifeline->linger_ms = now_ms + LINGER_MS;
	return rd_coordinator_over(lifeline->coordinator) || now_ms >= lifeline->linger_ms;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int sleep_ms(const struct rd_lifeline *lifeline, int64_t now_ms)
{
	int64_t deadline = sooner(rd_participant_deadline(lifeline->participant), lifeline->linger_ms);

	if (lifeline->coordinator)
		deadline = sooner(deadline, rd_coordinator_deadline(lifeline->coordinator));
	if (lifeline->own && lifeline->own->connecting)
		deadline = sooner(deadline, lifeline->attempt_ms);
	if (deadline == RD_NEVER)
		return -1;
	return deadline <= now_ms ? 0 : (int)sooner(deadline - now_ms, 60000);
}

static void take_event(struct rd_lifeline *lifeline, uint64_t mark, int64_t now_ms)
{
	uint64_t rings;

	if (mark == OWN)
		hear_own(lifeline, now_ms);
	else if (mark == DOOR)
		open_door(lifeline, now_ms);
	else if (mark == WATCH)
		rd_watch_receive(lifeline->watch);
	else if (mark != BELL)
		hear_line(lifeline, (int)mark, now_ms);
	else if (read(lifeline->bell_fd, &rings, sizeof(rings)) < 0)
		return; /* it has been read before */
	/* Not looked for elsewhere: what the rank said before it died is heard first. */
	if ((mark == WATCH || mark == BELL) && lifeline->watch)
		lifeline->dead = rd_watch_dead(lifeline->watch);
}

/*
 * Sleeps until something happens, then hears everything that has: time must not pass judgement on
 * what has arrived and not been read, after this process was stopped for a while.
 */
static int wait_for_events(struct rd_lifeline *lifeline, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	int count;

	do {
		int64_t now_ms;
		count = epoll_wait(lifeline->epoll_fd, events, EVENTS_MAX, timeout_ms);
		if (count < 0)
			return errno == EINTR ? 0 : rd_fail_errno("the lifeline cannot wait");
		now_ms = rd_now_ms();
		for (int i = 0; i < count; i++)
			take_event(lifeline, events[i].data.u64, now_ms);
		timeout_ms = 0;
	} while (count == EVENTS_MAX);
	return 0;
}

/* A user sees the first at once, for who computes for long knows why; the others where they look.
 */
static void log_slow_call(struct rd_lifeline *lifeline)
{
	char text[RD_REASON_SIZE];

	if (!rd_coordinator_slow_call(lifeline->coordinator, text))
		return;
	rd_log(lifeline->warned ? RD_INFO : RD_WARN, RD_COLL, "slow call: %s", text);
	lifeline->warned = true;
}

static void *run(void *argument)
{
	struct rd_lifeline *lifeline = argument;

	rd_log_rank(lifeline->settings.rank);
	for (;;) {
		int64_t now_ms = rd_now_ms();
		follow_orders(lifeline, now_ms);
		follow_death(lifeline, now_ms);
		rd_participant_tick(lifeline->participant, now_ms);
		if (lifeline->coordinator) {
			rd_coordinator_tick(lifeline->coordinator, now_ms);
			serve_coordinator(lifeline, now_ms);
			log_slow_call(lifeline);
		} else {
			serve_own(lifeline, now_ms);
		}
		tend_watch(lifeline);
		publish(lifeline, false);
		if (is_finished(lifeline, now_ms))
			break;
		if (wait_for_events(lifeline, sleep_ms(lifeline, now_ms))) {
			rd_participant_fail(lifeline->participant, RONDO_SYSTEM, rondo_last_error());
			break;
		}
	}
	rd_watch_destroy(lifeline->watch);
	publish(lifeline, true);
	return NULL;
}

static int start_thread(struct rd_lifeline *lifeline)
{
	int error = rd_thread_start(&lifeline->thread, STACK_SIZE, run, lifeline);

	if (!error)
		return 0;
	errno = error;
	return rd_fail_errno("cannot start the lifeline's thread");
}

/* ---- Creating ------------------------------------------------------------------------------ */

static int watch_bell(struct rd_lifeline *lifeline)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = BELL };

	lifeline->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	lifeline->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (lifeline->epoll_fd < 0 || lifeline->bell_fd < 0 ||
		epoll_ctl(lifeline->epoll_fd, EPOLL_CTL_ADD, lifeline->bell_fd, &event))
		return rd_fail_errno("cannot watch the lifeline's sockets");
	return 0;
}

static int init_coordinator(struct rd_lifeline *lifeline, int64_t now_ms)
{
	uint64_t comm_id = 0;
	int error;

	/* Before there is randomness at all, early in a boot, this waits. */
	if (getrandom(&comm_id, sizeof(comm_id), 0) != sizeof(comm_id))
		return rd_fail_errno("no random number for the comm");
	/* 0 says "not known yet" elsewhere. */
	comm_id += comm_id == 0;
	error = rd_coordinator_create(
		&lifeline->coordinator, &lifeline->settings, lifeline->address, comm_id, now_ms);
	if (error)
		return error;
	lifeline->lines =
		calloc((size_t)rd_coordinator_line_count(lifeline->coordinator), sizeof(*lifeline->lines));
	if (!lifeline->lines)
		return rd_fail(RONDO_MEMORY, "no memory for the coordinator's connections");
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* A rank alone meets nobody, and needs no address. */
static int open_alone(struct rd_lifeline *lifeline)
{
	int error = 0, fd = -1;

	if (lifeline->settings.rendezvous_fd >= 0)
		error = rd_listen(&fd, &lifeline->addresses, &lifeline->settings);
	if (error)
		return error;
	close_fd(fd);
	strcpy(lifeline->where, "alone");
	return 0;
}

/* Where the ranks of this comm connect to rank 0. */
static int open_listener(struct rd_lifeline *lifeline)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = DOOR };
	int error = rd_listen(&lifeline->door_fd, &lifeline->addresses, &lifeline->settings);

	if (error) {
		lifeline->door_fd = -1;
		return error;
	}
	if (epoll_ctl(lifeline->epoll_fd, EPOLL_CTL_ADD, lifeline->door_fd, &event))
		return rd_fail_errno("cannot watch the lifeline's sockets");
	return 0;
}

static int open_sockets(struct rd_lifeline *lifeline, int64_t deadline_ms)
{
	const struct rd_settings *settings = &lifeline->settings;
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof(address);
	int error;

	if (settings->size == 1)
		return open_alone(lifeline);
	if (settings->rank != 0 || settings->rendezvous_fd < 0) {
		error = rd_resolve(&lifeline->addresses, settings, deadline_ms);
		if (error)
			return error;
		address = lifeline->addresses.at[0];
	}
	if (settings->rank == 0) {
		error = open_listener(lifeline);
		if (error)
			return error;
		if (getsockname(lifeline->door_fd, (struct sockaddr *)&address, &size))
			return rd_fail_errno("rank 0 does not know where it listens");
		rd_where(lifeline->where, lifeline->door_fd);
		lifeline->near = address;
	}
	rd_dial_text(lifeline->address, &address);
	return 0;
}

static void close_fds(const struct rd_lifeline *lifeline)
{
	close_fd(lifeline->door_fd);
	close_fd(lifeline->bell_fd);
	close_fd(lifeline->epoll_fd);
}

static void free_all(struct rd_lifeline *lifeline)
{
	free(lifeline->lines);
	rd_losses_finish(&lifeline->losses);
	rd_losses_finish(&lifeline->detours);
	rd_coordinator_destroy(lifeline->coordinator);
	rd_participant_destroy(lifeline->participant);
	free(lifeline);
}

/* After the thread, or in place of it. */
static void destroy(struct rd_lifeline *lifeline)
{
	if (lifeline->lines)
		for (int i = 0; i < rd_coordinator_line_count(lifeline->coordinator); i++)
			close_line(lifeline, &lifeline->lines[i]);
	close_line(lifeline, &lifeline->own);
	close_fds(lifeline);
	pthread_cond_destroy(&lifeline->news);
	pthread_mutex_destroy(&lifeline->lock);
	free_all(lifeline);
}

static int check_config(const struct rd_lifeline_config *config)
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

static void decline(struct rd_lifeline *lifeline, const struct refusal *refusal, int64_t now_ms)
{
	if (lifeline->coordinator)
		rd_coordinator_decline(lifeline->coordinator, refusal->error, refusal->reason);
	else
		rd_participant_report(lifeline->participant, refusal->error, lifeline->settings.rank,
			refusal->reason, now_ms);
}

static int start(struct rd_lifeline *lifeline, const struct rd_lifeline_config *config,
	const struct refusal *refusal, int64_t now_ms)
{
	int error = 0;

	if (lifeline->settings.rank == 0)
		error = init_coordinator(lifeline, now_ms);
	if (!error)
		error = rd_participant_create(&lifeline->participant, &lifeline->settings, config->self,
			config->activity, lifeline->address, now_ms);
	if (error)
		return error;
	if (refusal)
		decline(lifeline, refusal, now_ms);
	return start_thread(lifeline);
}

static struct rd_lifeline *allocate(const struct rd_lifeline_config *config)
{
	struct rd_lifeline *lifeline = calloc(1, sizeof(*lifeline));

	if (!lifeline) {
		rd_fail(RONDO_MEMORY, "no memory for a lifeline");
		return NULL;
	}
	lifeline->settings = *config->settings;
	lifeline->failed = config->failed;
	lifeline->wake_fd = config->wake_fd;
	lifeline->epoll_fd = lifeline->bell_fd = lifeline->door_fd = -1;
	lifeline->linger_ms = RD_NEVER;
	lifeline->dead = -1;
	pthread_mutex_init(&lifeline->lock, NULL);
	rd_condition_init(&lifeline->news);
	return lifeline;
}

/*
 * A lifeline with its thread, and its sockets open. On an error *fd is the listening socket that
 * was to be taken over, or -1 where that has been closed; *cut_off: no socket reaches the others.
 */
static int begin(struct rd_lifeline **begun, const struct rd_lifeline_config *config,
	const struct refusal *refusal, int *fd, bool *cut_off)
{
	struct rd_lifeline *lifeline = allocate(config);
	int64_t now_ms = rd_now_ms();
	int error = lifeline ? watch_bell(lifeline) : RONDO_MEMORY;

	*fd = config->settings->rendezvous_fd;
	*cut_off = false;
	*begun = lifeline;
	if (!error) {
		error = open_sockets(lifeline, now_ms + lifeline->settings.init_timeout_ms);
		*cut_off = error != 0;
		*fd = -1;
	}
	if (!error)
		error = start(lifeline, config, refusal, now_ms);
	if (!error || !lifeline)
		return error;
	if (!*cut_off && lifeline->door_fd >= 0 && lifeline->settings.rendezvous_fd >= 0) {
		*fd = lifeline->door_fd;
		lifeline->door_fd = -1;
	}
	destroy(lifeline);
	*begun = NULL;
	return error;
}

static void attach(struct rd_lifeline *lifeline, struct rd_lifeline *parent)
{
	int error;

	if (!parent)
		return;
	lifeline->parent = parent;
	pthread_mutex_lock(&parent->lock);
	lifeline->next_child = parent->children;
	parent->children = lifeline;
	error = atomic_load(&parent->verdict);
	if (error)
		end_child(lifeline, error, parent->reason);
	pthread_mutex_unlock(&parent->lock);
}

void rd_lifeline_detach(struct rd_lifeline *lifeline)
{
	struct rd_lifeline *parent = lifeline->parent, **at;

	if (!parent)
		return;
	pthread_mutex_lock(&parent->lock);
	for (at = &parent->children; *at != lifeline;)
		at = &(*at)->next_child;
	*at = lifeline->next_child;
	pthread_mutex_unlock(&parent->lock);
	lifeline->parent = NULL;
}

/* Waits, under the lock, until the rank is so far or nothing more will come. */
static void wait_for(struct rd_lifeline *lifeline, enum rd_participant_phase phase)
{
	while (lifeline->phase < phase && !atomic_load(&lifeline->verdict) && !lifeline->over)
		pthread_cond_wait(&lifeline->news, &lifeline->lock);
}

static void await_meeting(struct rd_lifeline *lifeline)
{
	pthread_mutex_lock(&lifeline->lock);
	wait_for(lifeline, RD_SPOKE_MET);
	pthread_mutex_unlock(&lifeline->lock);
}

/* What is no listening socket is somebody else's. */
static void close_listener(const struct rd_settings *settings)
{
	struct rd_addresses none = { 0 };
	int fd;

	if (settings->rank == 0 && settings->rendezvous_fd >= 0 && !rd_listen(&fd, &none, settings))
		close(fd);
}

void rd_lifeline_decline(const struct rd_settings *settings, int error, const char *reason)
{
	struct rd_settings mine = *settings;
	struct rd_member nobody = { 0 };
	struct rd_activity nothing = { .collective = -1, .waiting_for = -1 };
	_Atomic int failed = 0;
	struct rd_lifeline_config config = { &mine, &nobody, &nothing, &failed, -1, NULL };
	struct refusal refusal = { error, reason };
	struct rd_lifeline *lifeline = NULL;
	bool cut_off;

	/* Bounds how long a name is looked up. */
	mine.init_timeout_ms = RD_REPORT_MS;
	if (mine.size < 2 || check_config(&config) ||
		begin(&lifeline, &config, &refusal, &mine.rendezvous_fd, &cut_off)) {
		close_listener(&mine);
		return;
	}
	await_meeting(lifeline);
	rd_lifeline_destroy(lifeline);
}

int rd_lifeline_create(struct rd_lifeline **created, const struct rd_lifeline_config *config)
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
		rd_lifeline_decline(&settings, error, reason);
		rd_fail(error, "%s", reason);
	}
	if (error)
		return error;
	attach(*created, config->parent);
	await_meeting(*created);
	error = rd_lifeline_verdict(*created);
	if (!error)
		return 0;
	rd_lifeline_destroy(*created);
	*created = NULL;
	return error;
}

/* ---- The rest of the interface ------------------------------------------------------------- */

const struct rd_member *rd_lifeline_members(const struct rd_lifeline *lifeline)
{
	return rd_participant_members(lifeline->participant);
}

uint64_t rd_lifeline_comm_id(const struct rd_lifeline *lifeline)
{
	return rd_participant_comm_id(lifeline->participant);
}

void rd_lifeline_address(const struct rd_lifeline *lifeline, struct sockaddr_storage *address)
{
	*address = lifeline->near;
}

const char *rd_lifeline_where(const struct rd_lifeline *lifeline)
{
	return lifeline->where;
}

int rd_lifeline_verdict(struct rd_lifeline *lifeline)
{
	int error = atomic_load(&lifeline->verdict);

	return error ? rd_fail(error, "%s", lifeline->reason) : 0;
}

int rd_lifeline_lose(struct rd_lifeline *lifeline, const struct rd_loss *loss)
{
	bool added;

	pthread_mutex_lock(&lifeline->lock);
	added = rd_losses_add(&lifeline->losses, loss);
	if (added)
		ring(lifeline);
	pthread_mutex_unlock(&lifeline->lock);
	return added ? 0 : rd_fail(RONDO_MEMORY, "no memory for a loss");
}

bool rd_lifeline_detour(struct rd_lifeline *lifeline, int number, struct rd_loss *detour)
{
	if (number >= atomic_load(&lifeline->detour_count))
		return false;
	pthread_mutex_lock(&lifeline->lock);
	*detour = lifeline->detours.at[number];
	pthread_mutex_unlock(&lifeline->lock);
	return true;
}

void rd_lifeline_look(struct rd_lifeline *lifeline)
{
	pthread_mutex_lock(&lifeline->lock);
	lifeline->orders.looks++;
	ring(lifeline);
	pthread_mutex_unlock(&lifeline->lock);
}

int rd_lifeline_rounds(const struct rd_lifeline *lifeline)
{
	return atomic_load(&lifeline->rounds);
}

int rd_lifeline_ready(struct rd_lifeline *lifeline, int detours, struct rd_link_limits *limits)
{
	bool another;

	pthread_mutex_lock(&lifeline->lock);
	lifeline->orders.ready = true;
	lifeline->orders.detours = detours;
	lifeline->orders.limits = *limits;
	ring(lifeline);
	while (lifeline->detours.count <= detours && lifeline->phase < RD_SPOKE_OPEN &&
		!atomic_load(&lifeline->verdict) && !lifeline->over)
		pthread_cond_wait(&lifeline->news, &lifeline->lock);
	another = lifeline->detours.count > detours;
	if (lifeline->phase == RD_SPOKE_OPEN)
		*limits = lifeline->limits;
	pthread_mutex_unlock(&lifeline->lock);

	int verdict = rd_lifeline_verdict(lifeline);

	return verdict ? verdict : another;
}

int rd_lifeline_report(struct rd_lifeline *lifeline, int error, int culprit, const char *reason)
{
	struct orders *orders = &lifeline->orders;
	int verdict;

	pthread_mutex_lock(&lifeline->lock);
	if (!orders->report) {
		orders->report = true;
		orders->error = error;
		orders->culprit = culprit;
		snprintf(orders->reason, sizeof(orders->reason), "%s", reason);
		ring(lifeline);
	}
	wait_for(lifeline, RD_SPOKE_GONE);
	pthread_mutex_unlock(&lifeline->lock);
	verdict = rd_lifeline_verdict(lifeline);
	return verdict ? verdict : rd_fail(error, "%s", reason);
}

void rd_lifeline_slow(struct rd_lifeline *lifeline, bool first, int culprit, const char *reason)
{
	struct orders *orders = &lifeline->orders;

	pthread_mutex_lock(&lifeline->lock);
	orders->slow = true;
	orders->slow_first = first;
	orders->slow_culprit = culprit;
	snprintf(orders->slow_story, sizeof(orders->slow_story), "%s", reason);
	ring(lifeline);
	pthread_mutex_unlock(&lifeline->lock);
}

int rd_lifeline_leave(struct rd_lifeline *lifeline, uint64_t digest)
{
	int verdict;

	pthread_mutex_lock(&lifeline->lock);
	lifeline->orders.leave = true;
	lifeline->orders.digest = digest;
	ring(lifeline);
	pthread_mutex_unlock(&lifeline->lock);
	pthread_join(lifeline->thread, NULL);
	rd_lifeline_detach(lifeline);
	verdict = rd_lifeline_verdict(lifeline);
	destroy(lifeline);
	return verdict;
}

void rd_lifeline_destroy(struct rd_lifeline *lifeline)
{
	if (!lifeline)
		return;
	pthread_mutex_lock(&lifeline->lock);
	lifeline->orders.quit = true;
	ring(lifeline);
	pthread_mutex_unlock(&lifeline->lock);
	pthread_join(lifeline->thread, NULL);
	rd_lifeline_detach(lifeline);
	destroy(lifeline);
}

static void abandon_line(struct line *line)
{
	if (!line)
		return;
	/* The socket was closed by the fork. No epoll_ctl(): the epoll is the parent's as well. */
	free(line);
}

void rd_lifeline_abandon(struct rd_lifeline *lifeline)
{
	if (!lifeline)
		return;
	if (lifeline->lines)
		for (int i = 0; i < rd_coordinator_line_count(lifeline->coordinator); i++)
			abandon_line(lifeline->lines[i]);
	abandon_line(lifeline->own);
	rd_watch_abandon(lifeline->watch);
	close_fds(lifeline);
	free_all(lifeline);
}
