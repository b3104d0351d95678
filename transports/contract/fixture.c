#include "transports/contract/fixture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/port.h"
#include "transports/shared.h"
#include "transports/transports.h"

#define MESSAGE_LEAST 64 /* each link must carry it */

void require(bool holds, const char *format, ...)
{
	char reason[512];
	va_list args;

	if (holds)
		return;
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	case_failed(reason);
}

int fixture_wait_ms = 20000;

struct shared *shared_create(void)
{
	struct shared *shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	require(shared != MAP_FAILED, "mmap: %m");
	return shared;
}

void shared_destroy(struct shared *shared)
{
	munmap(shared, sizeof(*shared));
}

void shared_end(struct shared *shared)
{
	char report[sizeof(shared->report)];
	bool fine = shared->failed == 0;

	memcpy(report, shared->report, sizeof(report));
	shared_destroy(shared);
	require(fine, "%s", report);
}

bool ok(struct fixture *fixture, bool holds, const char *format, ...)
{
	struct shared *shared = fixture->shared;
	int none = 0;
	va_list args;

	if (holds || !atomic_compare_exchange_strong(&shared->failed, &none, 1))
		return holds;
	int length =
		snprintf(shared->report, sizeof(shared->report), "rank %d: ", fixture->local.rank);

	va_start(args, format);
	vsnprintf(shared->report + length, sizeof(shared->report) - (size_t)length, format, args);
	va_end(args);
	shared->failed = 2;
	return false;
}

bool failed(const struct fixture *fixture)
{
	return fixture->shared->failed != 0;
}

const struct shape shape_small = { .size = 2, .channels = 1, .slots = 3, .piece = 4096 };

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

const char *fixture_address;
const unsigned char *fixture_psk;
bool fixture_shares;

/* The environment sets the rest: RONDO_INTERFACE, or the device of a card. */
static void settings_fill(struct rd_settings *settings, int rank, const struct shape *shape)
{
	struct rondo_config config = RONDO_CONFIG_INIT;

	config.rank = rank;
	config.size = shape->size;
	config.address = fixture_address ? fixture_address : rd_loopback();
	/* A value that is invalid leaves its default; rondo-check has refused it. */
	(void)rd_settings_read(settings, &config);
	settings->rendezvous_fd = -1;
	settings->channels = shape->channels;
	settings->piece_size = shape->piece;
	settings->slots = shape->slots;
	settings->spin_us = 20;
	settings->timeout_ms = fixture_wait_ms;
	settings->init_timeout_ms = fixture_wait_ms;
}

/* As if on a host of its own. */
static void move_apart(struct fixture *fixture, int rank)
{
	snprintf(fixture->local.place.host_id, sizeof(fixture->local.place.host_id), "host %d",
		rank);
	fixture->settings.has_psk = true;
	memcpy(fixture->settings.psk, fixture_psk, sizeof(fixture->settings.psk));
}

/* The epoll on which it sleeps; -1: none. */
static int make_epoll(struct rd_local *local, const struct shape *shape)
{
	if (shape->jobs)
		local->shared = rd_shared_keep(shape->jobs[local->rank]);
	else if (!fixture_shares || rd_shared_make(&local->shared))
		return epoll_create1(EPOLL_CLOEXEC);
	return rd_shared_borrow(local->shared);
}

static void close_epoll(struct rd_local *local)
{
	if (local->shared)
		rd_shared_close(local->shared, local->epoll_fd);
	else
		close(local->epoll_fd);
	rd_shared_release(local->shared);
	local->epoll_fd = -1;
}

bool fixture_listen(struct fixture *fixture, struct shared *shared, const char *transport, int rank,
	const struct shape *shape)
{
	*fixture = (struct fixture){ .shared = shared, .all_count = 1 };
	fixture->transport = rd_transport_find(transport);
	fixture->all = fixture;
	settings_fill(&fixture->settings, rank, shape);
	fixture->local = (struct rd_local){
		.rank = rank,
		.size = shape->size,
		.settings = &fixture->settings,
	};
	fixture->local.epoll_fd = make_epoll(&fixture->local, shape);
	if (!ok(fixture, fixture->transport != NULL, "no transport %s", transport))
		return false;
	if (!ok(fixture, fixture->local.epoll_fd >= 0, "epoll_create1: %m"))
		return false;
	rd_place_here(&fixture->local.place, &fixture->settings);
	if (fixture_psk)
		move_apart(fixture, rank);
	int err = fixture->transport->listen(
		&fixture->endpoint, &fixture->local, fixture->card, &fixture->card_size);

	/* As in a comm, which gets its id after its ranks have made cards. */
	fixture->local.comm_id = shape->comm_id ? shape->comm_id : 0x1234567890abcdef;
	memset(fixture->local.key, 7, sizeof(fixture->local.key));
	return ok(fixture, err == 0, "listen: %s", rondo_last_error()) &&
	       ok(fixture, fixture->endpoint != NULL, "listen made no endpoint") &&
	       ok(fixture, fixture->endpoint->message_max >= MESSAGE_LEAST,
		       "message_max is %zu: a link must carry messages of %d bytes",
		       fixture->endpoint->message_max, MESSAGE_LEAST) &&
	       ok(fixture, fixture->card_size <= RD_CARD_MAX, "a card too large");
}

bool fixture_open(struct fixture *fixture, int peer, const unsigned char *card, size_t card_size)
{
	for (int channel = 0; channel < fixture->settings.channels; channel++) {
		struct rd_link **link = &fixture->links[peer][channel];
		int err = fixture->transport->open(
			fixture->endpoint, peer, channel, card, card_size, link);

		if (!ok(fixture, err == 0, "open rank %d: %s", peer, rondo_last_error()) ||
			!ok(fixture, *link != NULL, "open rank %d made no link", peer))
			return false;
		if (!ok(fixture, (*link)->peer == peer && (*link)->channel == channel,
			    "the link has another peer or channel"))
			return false;
		const struct rd_link_ops *ops = (*link)->ops;

		if (!ok(fixture, ops && ops->reserve && ops->commit && ops->recv && ops->release,
			    "the link lacks one of reserve, commit, recv and release"))
			return false;
	}
	return true;
}

bool fixture_advance_all(struct fixture *fixture)
{
	bool moved = false;

	for (int i = 0; i < fixture->all_count; i++) {
		struct fixture *one = &fixture->all[i];

		if (one->endpoint && one->transport->advance(one->endpoint))
			moved = true;
	}
	return moved;
}

void fixture_advance(struct fixture *fixture)
{
	if (!fixture_advance_all(fixture))
		sched_yield();
}

bool fixture_wait(struct fixture *fixture, uint64_t deadline_ms, const char *what)
{
	if (failed(fixture))
		return false;
	fixture_advance(fixture);
	return ok(fixture, now_ms() < deadline_ms, "waited in vain for %s", what);
}

static bool look_armed(struct fixture *fixture, condition *look, void *argument)
{
	const struct rd_transport *transport = fixture->transport;
	struct epoll_event event;
	int woken = 1;

	if (transport->arm)
		transport->arm(fixture->endpoint);
	bool there = look(fixture, argument);

	if (!there && !failed(fixture))
		woken = epoll_wait(fixture->local.epoll_fd, &event, 1, fixture_wait_ms / 4);
	if (transport->disarm)
		transport->disarm(fixture->endpoint);
	if (woken == 0)
		ok(fixture, !look(fixture, argument), "a wake-up was lost");
	return there;
}

bool sleep_until(struct fixture *fixture, condition *look, void *argument)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (!failed(fixture)) {
		fixture->transport->advance(fixture->endpoint);
		if (look(fixture, argument) || look_armed(fixture, look, argument) ||
			!ok(fixture, now_ms() < deadline, "slept in vain"))
			break;
	}
	return !failed(fixture);
}

static bool is_ready(struct fixture *fixture)
{
	for (int peer = 0; peer < fixture->settings.size; peer++)
		for (int channel = 0; channel < fixture->settings.channels; channel++) {
			struct rd_link *link = fixture->links[peer][channel];

			if (link && !ok(fixture, link->error == 0, "link to %d: %s", peer,
					    link->reason))
				return false;
			if (link && !link->ready)
				return false;
		}
	return true;
}

static void lower_message_max(struct shared *shared, size_t message_max)
{
	size_t least = shared->message_max;

	while ((least == 0 || message_max < least) &&
		!atomic_compare_exchange_weak(&shared->message_max, &least, message_max))
		;
}

/* The links are ready: adds them to the state that ranks share. */
static bool count_ready(struct fixture *fixture)
{
	for (int peer = 0; peer < fixture->settings.size; peer++)
		for (int channel = 0; channel < fixture->settings.channels; channel++) {
			const struct rd_link *link = fixture->links[peer][channel];

			if (!link)
				continue;
			if (!ok(fixture, link->message_max >= fixture->endpoint->message_max,
				    "message_max of a link is %zu, and of its endpoint %zu",
				    link->message_max, fixture->endpoint->message_max))
				return false;
			lower_message_max(fixture->shared, link->message_max);
		}
	if (!fixture->counted)
		fixture->shared->ready++;
	fixture->counted = true;
	return true;
}

bool fixture_until_ready(struct fixture *fixture)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;

	for (int i = 0; i < fixture->all_count; i++)
		while (!is_ready(&fixture->all[i]))
			if (!fixture_wait(fixture, deadline, "links to be ready"))
				return false;
	for (int i = 0; i < fixture->all_count; i++)
		if (!count_ready(&fixture->all[i]))
			return false;
	return true;
}

size_t fixture_fit(struct fixture *fixture, size_t size)
{
	struct shared *shared = fixture->shared;
	uint64_t deadline = now_ms() + fixture_wait_ms;

	if (size <= MESSAGE_LEAST)
		return size;
	while (shared->ready < fixture->settings.size)
		if (!fixture_wait(fixture, deadline, "the other's links to be ready"))
			return MESSAGE_LEAST;
	return size < shared->message_max ? size : shared->message_max;
}

void fixture_close(struct fixture *fixture)
{
	if (fixture->endpoint)
		fixture->transport->close(fixture->endpoint);
	fixture->endpoint = NULL;
	memset(fixture->links, 0, sizeof(fixture->links));
	if (fixture->local.epoll_fd >= 0)
		close_epoll(&fixture->local);
}

bool fixtures_open(struct fixture *fixtures, struct shared *shared, const char *transport,
	const struct shape *shape)
{
	int size = shape->size;

	memset(fixtures, 0, (size_t)size * sizeof(*fixtures));
	for (int rank = 0; rank < size; rank++)
		if (!fixture_listen(&fixtures[rank], shared, transport, rank, shape))
			return false;
	for (int rank = 0; rank < size; rank++) {
		fixtures[rank].all = fixtures;
		fixtures[rank].all_count = size;
		for (int peer = 0; peer < size; peer++)
			if ((peer != rank || size == 1) &&
				!fixture_open(&fixtures[rank], peer, fixtures[peer].card,
					fixtures[peer].card_size))
				return false;
	}
	return fixture_until_ready(fixtures);
}

void fixtures_close(struct fixture *fixtures)
{
	int count = fixtures->all_count;

	for (int i = 0; i < count; i++)
		fixture_close(&fixtures[i]);
}

/* ---- Both ends of a link -------------------------------------------------------------------- */

bool ends_open(struct ends *ends, const char *transport, struct shape shape)
{
	int last = shape.size - 1;

	if (strcmp(transport, "loop") == 0)
		last = 0;
	shape.size = last + 1;
	ends->shared = shared_create();
	ends->fixture = &ends->fixtures[0];
	if (!fixtures_open(ends->fixtures, ends->shared, transport, &shape))
		return false;
	ends->from = ends->fixtures[0].links[last][0];
	ends->to = ends->fixtures[last].links[0][0];
	ends->most = fixture_fit(ends->fixture, shape.piece);
	return true;
}

void ends_close(struct ends *ends)
{
	fixtures_close(ends->fixtures);
	shared_end(ends->shared);
}

/* ---- Two sides ----------------------------------------------------------------------------- */

struct side {
	struct shared *shared;
	const char *transport;
	const struct shape *shape;
	int rank;
	script *run;
};

static bool exchange_cards(struct fixture *fixture)
{
	struct shared *shared = fixture->shared;
	int rank = fixture->local.rank;
	uint64_t deadline = now_ms() + fixture_wait_ms;

	memcpy(shared->cards[rank], fixture->card, fixture->card_size);
	shared->card_sizes[rank] = fixture->card_size;
	shared->met++;
	while (shared->met < fixture->settings.size) {
		if (failed(fixture) || !ok(fixture, now_ms() < deadline, "the other did not come"))
			return false;
		sched_yield();
	}
	return true;
}

static bool look_ready(struct fixture *fixture, void *argument)
{
	(void)argument;
	return is_ready(fixture);
}

static bool side_until_ready(struct fixture *fixture, const struct shape *shape)
{
	if (!shape->sleepy)
		return fixture_until_ready(fixture);
	return sleep_until(fixture, look_ready, NULL) && count_ready(fixture);
}

static void *side_run(void *argument)
{
	struct side *side = argument;
	struct fixture fixture;
	int peer = 1 - side->rank;

	if (fixture_listen(&fixture, side->shared, side->transport, side->rank, side->shape) &&
		exchange_cards(&fixture) &&
		fixture_open(&fixture, peer, side->shared->cards[peer],
			side->shared->card_sizes[peer]) &&
		side_until_ready(&fixture, side->shape))
		side->run(&fixture, fixture.links[peer]);
	fixture_close(&fixture);
	return NULL;
}

static void run_threads(struct side sides[2])
{
	pthread_t thread;

	require(pthread_create(&thread, NULL, side_run, &sides[1]) == 0, "no thread");
	side_run(&sides[0]);
	pthread_join(thread, NULL);
}

static void run_processes(struct side sides[2])
{
	pid_t parent = getpid(), child = fork();
	int status = 0;

	if (child == 0) {
		/* The child ends with a test that is killed. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			side_run(&sides[1]);
		_exit(0);
	}
	require(child > 0, "fork: %m");
	sides[0].shared->child = child;
	side_run(&sides[0]);
	require(waitpid(child, &status, 0) == child, "waitpid: %m");
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;

	require(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0),
		"the other process ended with status 0x%x", (unsigned)status);
}

void fixture_pair(
	const char *transport, const struct shape *shape, enum sides how, script *zero, script *one)
{
	struct shared *shared = shared_create();
	struct side sides[2] = {
		{ shared, transport, shape, 0, zero },
		{ shared, transport, shape, 1, one },
	};

	if (how == THREADS)
		run_threads(sides);
	else
		run_processes(sides);
	shared_end(shared);
}
