#include "api/tagged_driver.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/pause.h"
#include "base/thread.h"

#define LOOKS 50 /* in vain, after which the worker sleeps */
/* How often a rank that shares its core yields it before it sleeps. */
#define YIELDS 50
#define WAYS 100 /* yields of who gives the lock up: a priority may keep others from it */
/* As in comm/wait.c: what a spin that was worth while adds at least; sleeps before a full one. */
#define SPIN_LEAST_NS 1000
#define SLEEPS_A_SPIN 16
/* Rounds between readings of the clock. */
#define ROUNDS_A_READING 32
/* The longest sleeps: while links are opened, whose peer may have left, and else. */
#define OPENING_MS 100
#define SLEEP_MS 1000
#define FLUSH_MS 1000 /* for bytes whose reader is slow, when this rank leaves */

static bool is_active(const struct rd_mailbox *mailbox)
{
	return mailbox->pending > 0 || mailbox->ended.first || (mailbox->unsent && !mailbox->over);
}

/* ---- The lock ------------------------------------------------------------------------------- */

/* Lets others take the lock, for a moment. */
static void make_way(struct rd_tagged_driver *driver, bool yields)
{
	rd_mailbox_exit(driver->mailbox);
	if (yields)
		sched_yield();
	else
		rd_pause();
	for (int i = 0; i < WAYS && rd_mailbox_is_awaited(driver->mailbox); i++)
		sched_yield();
	rd_mailbox_enter(driver->mailbox);
}

/* For threads in await_change(). */
static void wake_waiters(struct rd_tagged_driver *driver)
{
	if (driver->asleep == 0)
		return;
	pthread_mutex_lock(&driver->change_lock);
	driver->changes++;
	pthread_cond_broadcast(&driver->change);
	pthread_mutex_unlock(&driver->change_lock);
}

/* Waits for a change, most_ms at most; INT64_MAX: no bound. May return early. */
static void await_change(struct rd_tagged_driver *driver, int64_t most_ms)
{
	unsigned before = driver->changes;

	driver->asleep++;
	rd_mailbox_exit(driver->mailbox);
	pthread_mutex_lock(&driver->change_lock);
	if (driver->changes == before && most_ms == INT64_MAX)
		pthread_cond_wait(&driver->change, &driver->change_lock);
	else if (driver->changes == before)
		rd_condition_wait_us(&driver->change, &driver->change_lock, most_ms * 1000);
	pthread_mutex_unlock(&driver->change_lock);
	rd_mailbox_enter(driver->mailbox);
	driver->asleep--;
}

/* ---- Ends, under the lock ------------------------------------------------------------------- */

/* Gives the lock up while the program's function runs. */
static void call_done(struct rd_tagged_driver *driver, struct rondo_request *request)
{
	if (!request->done)
		return;
	driver->calling++;
	rd_mailbox_exit(driver->mailbox);
	rd_request_call_done(request);
	rd_mailbox_enter(driver->mailbox);
	driver->calling--;
}

/* To be freed; NULL: no memory. */
static char *reason_of(const struct rd_mailbox *mailbox, const struct rd_tagged *message)
{
	char source[32] = "any rank", text[RD_REASON_SIZE];

	if (!message->cancelled && !message->deserted)
		return strdup(mailbox->reason);
	if (message->peer != RONDO_ANY_SOURCE)
		snprintf(source, sizeof(source), "rank %d", message->peer);
	if (message->cancelled)
		snprintf(text, sizeof(text), "rank %d cancelled its receive from %s with tag %d",
			mailbox->comm->rank, source, message->tag);
	else
		snprintf(text, sizeof(text),
			"rank %d receives from any source with tag %d, and all other ranks have "
			"left",
			mailbox->comm->rank, message->tag);
	return strdup(text);
}

static void end_request(struct rd_tagged_driver *driver, const struct rd_tagged *message)
{
	struct rondo_request *request = message->owner;

	request->error = message->error;
	if (message->error)
		request->reason = reason_of(driver->mailbox, message);
	call_done(driver, request);
	rd_request_end(request);
}

void rd_tagged_settle(struct rd_tagged_driver *driver)
{
	struct rd_mailbox *mailbox = driver->mailbox;
	struct rd_tagged *message;
	bool some = false;

	if (mailbox->pending > 0 && atomic_load(&mailbox->comm->failed))
		rd_messages_fail(mailbox, rd_comm_failure(mailbox->comm));
	while ((message = rd_messages_take(mailbox))) {
		end_request(driver, message);
		some = true;
	}
	if (!some)
		return;
	wake_waiters(driver);
	if (mailbox->sleeps && driver->waiters > 0)
		rd_mailbox_wake(mailbox);
}

/* ---- Driving, under the lock ---------------------------------------------------------------- */

static bool run_round(struct rd_tagged_driver *driver)
{
	bool moved = rd_messages_step(driver->mailbox);

	rd_tagged_settle(driver);
	if (rd_mailbox_is_awaited(driver->mailbox))
		make_way(driver, true);
	return moved;
}

static bool must_not_sleep(const struct rd_tagged_driver *driver)
{
	const struct rd_mailbox *mailbox = driver->mailbox;

	return mailbox->ended.first || driver->stops || (driver->works && driver->waiters > 0) ||
	       (mailbox->pending > 0 && atomic_load(&mailbox->comm->failed));
}

static void sleep_on(struct rd_tagged_driver *driver, int fd, int ms)
{
	struct epoll_event events[16];

	rd_mailbox_exit(driver->mailbox);
	/* Without an epoll, links are looked at every millisecond. */
	if (fd >= 0)
		epoll_wait(fd, events, 16, ms);
	else
		poll(NULL, 0, 1);
	rd_mailbox_enter(driver->mailbox);
}

/* Until something may have moved, most_ms at most. */
static void sleep_a_while(struct rd_tagged_driver *driver, int64_t most_ms)
{
	struct rd_mailbox *mailbox = driver->mailbox;
	struct rd_shared *shared = mailbox->comm->shared;
	int own = mailbox->local.epoll_fd, fd = own >= 0 ? own : rd_shared_borrow(shared);
	int ms = mailbox->unready ? OPENING_MS : SLEEP_MS;

	rd_mailbox_arm(mailbox);
	mailbox->sleeps = true;
	/* A message that came before does not wake it. */
	if (!rd_messages_step(mailbox) && !must_not_sleep(driver))
		sleep_on(driver, fd, most_ms < ms ? (int)most_ms : ms);
	mailbox->sleeps = false;
	rd_mailbox_disarm(mailbox);
	if (own < 0 && fd >= 0)
		rd_shared_give_back(shared, fd);
}

static int64_t left_ms(int64_t until_ns)
{
	int64_t left_ns = until_ns == INT64_MAX ? INT64_MAX : until_ns - rd_clock_ns();

	return left_ns <= 0 ? 0 : left_ns == INT64_MAX ? INT64_MAX : left_ns / 1000000 + 1;
}

/* A time in which nothing moved. */
struct idle {
	int rounds;
	bool slept;
	int64_t since_ns; /* 0: the clock has not been read */
};

/* Whether to go on without a sleep. */
static bool spins(const struct rd_tagged_driver *driver, struct idle *idle)
{
	int64_t now_ns;

	idle->rounds++;
	if (driver->mailbox->comm->oversubscribed)
		return idle->rounds < YIELDS;
	if (idle->slept)
		return false;
	if (idle->rounds % ROUNDS_A_READING != 0)
		return true;
	now_ns = rd_clock_ns();
	if (idle->since_ns == 0)
		idle->since_ns = now_ns;
	return now_ns - idle->since_ns < driver->spin_ns;
}

/* The next spin is shorter after one in vain, as those of calls are (comm/wait.c). */
static void end_idle(struct rd_tagged_driver *driver, struct idle *idle)
{
	int64_t most = driver->mailbox->comm->settings.spin_us * INT64_C(1000);
	bool full = idle->slept && ++driver->sleeps % SLEEPS_A_SPIN == 0;

	if (idle->slept)
		driver->spin_ns = full ? most : driver->spin_ns / 2;
	else if (idle->rounds > 0)
		driver->spin_ns += driver->spin_ns / 4 + SPIN_LEAST_NS;
	if (driver->spin_ns > most)
		driver->spin_ns = most;
	*idle = (struct idle){ 0 };
}

/* Drives until the request is done, or the time is over. */
static void drive(
	struct rd_tagged_driver *driver, const struct rondo_request *request, int64_t until_ns)
{
	bool yields = driver->mailbox->comm->oversubscribed;
	struct idle idle = { 0 };
	int64_t left;

	driver->drives = true;
	for (;;) {
		bool moved = run_round(driver);

		if (rd_request_is_done(request) || (left = left_ms(until_ns)) == 0)
			break;
		if (moved) {
			end_idle(driver, &idle);
		} else if (spins(driver, &idle)) {
			make_way(driver, yields);
		} else {
			idle.slept = true;
			sleep_a_while(driver, left);
		}
	}
	end_idle(driver, &idle);
	driver->drives = false;
	wake_waiters(driver);
}

/* ---- The worker ----------------------------------------------------------------------------- */

static struct rd_tagged_driver *of_work(struct rd_background *work)
{
	return (struct rd_tagged_driver *)work; /* it comes first */
}

/* A worker drives what nobody has waited for between two looks: most threads wait soon, and a
   worker would take their core. */
static enum rd_background_state look(struct rd_background *work)
{
	struct rd_tagged_driver *driver = of_work(work);
	enum rd_background_state state = RD_BACKGROUND_LATER;

	/* The thread that has the lock moves messages, and would give it up. */
	if (pthread_mutex_trylock(&driver->mailbox->lock))
		return state;
	if (driver->stops || (!is_active(driver->mailbox) && ++driver->looks > LOOKS)) {
		state = RD_BACKGROUND_NONE;
	} else if (is_active(driver->mailbox)) {
		driver->looks = 0;
		if (!driver->drives && driver->waiters == 0 && driver->seen == driver->waits)
			state = RD_BACKGROUND_NOW;
		driver->seen = driver->waits;
	}
	driver->posted = state != RD_BACKGROUND_NONE;
	rd_mailbox_exit(driver->mailbox);
	return state;
}

static void work_off(struct rd_background *work)
{
	struct rd_tagged_driver *driver = of_work(work);

	rd_log_rank(driver->mailbox->comm->rank);
	rd_mailbox_enter(driver->mailbox);
	if (driver->drives) {
		rd_mailbox_exit(driver->mailbox);
		return;
	}
	driver->drives = driver->works = true;
	while (is_active(driver->mailbox) && driver->waiters == 0 && !driver->stops)
		if (!run_round(driver))
			sleep_a_while(driver, SLEEP_MS);
	driver->drives = driver->works = false;
	wake_waiters(driver);
	rd_mailbox_exit(driver->mailbox);
}

/* Without a thread for it, messages move while the program waits or tests. */
void rd_tagged_exit_to_worker(struct rd_tagged_driver *driver)
{
	bool post = is_active(driver->mailbox) && !driver->posted && !driver->stops;

	driver->posted |= post;
	rd_mailbox_exit(driver->mailbox);
	if (!post || rd_background_post(&driver->work) == 0)
		return;
	rd_mailbox_enter(driver->mailbox);
	driver->posted = false;
	rd_mailbox_exit(driver->mailbox);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* A wait for a receive from any source may end it: all other ranks may have left. The thread that
   drives has looked before, and sleeps. Returns whether the receive has ended. */
static bool look_for_senders(struct rd_tagged_driver *driver, const struct rondo_request *receive)
{
	struct rd_mailbox *mailbox = driver->mailbox;

	/* Where something moves, the next look is the driver's. */
	if (rd_messages_step(mailbox) && mailbox->sleeps)
		rd_mailbox_wake(mailbox);
	rd_tagged_settle(driver);
	return rd_request_is_done(receive);
}

/* Another thread drives. */
static void wait_for_change(struct rd_tagged_driver *driver, int64_t until_ns)
{
	struct rd_mailbox *mailbox = driver->mailbox;

	if (driver->works && mailbox->sleeps)
		rd_mailbox_wake(mailbox);
	await_change(driver, left_ms(until_ns));
}

bool rd_tagged_wait(struct rondo_request *request, int timeout_ms)
{
	struct rd_tagged_driver *driver = rd_tagged_driver_of(request);
	int64_t until_ns =
		timeout_ms < 0 ? INT64_MAX : rd_clock_ns() + timeout_ms * INT64_C(1000000);
	bool done = false;

	rd_mailbox_enter(driver->mailbox);
	driver->waits++;
	driver->waiters++;
	request->tagged->awaited++;
	if (driver->drives && request->tagged->peer == RONDO_ANY_SOURCE)
		done = look_for_senders(driver, request);
	while (!done) {
		if (!driver->drives)
			drive(driver, request, until_ns);
		else if (left_ms(until_ns) > 0)
			wait_for_change(driver, until_ns);
		done = rd_request_is_done(request);
		if (left_ms(until_ns) == 0)
			break;
	}
	driver->waiters--;
	request->tagged->awaited--;
	if (driver->stops)
		wake_waiters(driver);
	rd_tagged_exit_to_worker(driver);
	return done;
}

/* ---- Life ----------------------------------------------------------------------------------- */

int rd_tagged_driver_create(struct rd_mailbox *mailbox)
{
	struct rd_tagged_driver *driver = calloc(1, sizeof(*driver));

	if (!driver)
		return rd_fail(RONDO_MEMORY, "no memory for tagged messages");
	driver->mailbox = mailbox;
	driver->spin_ns = mailbox->comm->settings.spin_us * INT64_C(1000);
	pthread_mutex_init(&driver->change_lock, NULL);
	rd_condition_init(&driver->change);
	rd_background_init(&driver->work, look, work_off);
	mailbox->driver = driver;
	return 0;
}

/* Pushes the bytes that links have accepted, for a peer may wait for them before it leaves. */
static void flush(struct rd_tagged_driver *driver)
{
	const struct rd_mailbox *mailbox = driver->mailbox;
	int64_t until_ms = rd_clock_ms() + FLUSH_MS;

	while (mailbox->unsent && !mailbox->over && !atomic_load(&mailbox->comm->failed) &&
		rd_clock_ms() < until_ms)
		if (!run_round(driver))
			sleep_on(driver, -1, 1);
}

void rd_tagged_finish(struct rondo_comm *comm)
{
	struct rd_mailbox *mailbox = atomic_load(&comm->mailbox);
	struct rd_tagged_driver *driver = mailbox ? mailbox->driver : NULL;

	if (!driver || driver->stops)
		return;
	rd_mailbox_enter(driver->mailbox);
	driver->stops = true;
	if (mailbox->sleeps)
		rd_mailbox_wake(mailbox);
	rd_mailbox_exit(driver->mailbox);
	rd_background_finish(&driver->work);
	rd_mailbox_enter(driver->mailbox);
	flush(driver);
	rd_tagged_settle(driver);
	if (mailbox->pending > 0)
		rd_messages_fail(mailbox,
			rd_fail(RONDO_LEFT, "rank %d left the communicator meanwhile", comm->rank));
	rd_tagged_settle(driver);
	while (driver->calling > 0 || driver->waiters > 0)
		await_change(driver, INT64_MAX);
	rd_mailbox_exit(driver->mailbox);
	pthread_cond_destroy(&driver->change);
	pthread_mutex_destroy(&driver->change_lock);
}
