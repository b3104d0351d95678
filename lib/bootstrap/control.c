#include "bootstrap/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "bootstrap/control_state.h"
#include "bootstrap/job.h"

/* ---- Sockets ------------------------------------------------------------------------------- */

static int open_epoll(struct rd_control *control, const struct rd_control *parent)
{
	if (control->group)
		control->epoll_fd = parent->job->epoll_fd;
	else
		control->epoll_fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC));
	if (control->epoll_fd < 0)
		return rd_fail_errno("cannot watch the control connection's sockets");
	if (!control->group)
		rd_close_on_fork_add(&control->unshared, &control->epoll_fd);
	control->client.epoll_fd = control->server.epoll_fd = control->epoll_fd;
	return 0;
}

/* Once the thread may take the event. */
static int watch_cancellation(struct rd_control *control)
{
	int fd = rd_cancellation_fd();

	if (fd < 0)
		return 0;
	if (rd_control_watch(control, fd, EPOLLIN | EPOLLONESHOT, RD_MARK_CANCEL))
		return rd_fail_errno("cannot watch whether the creation is cancelled");
	control->cancel_fd = fd;
	return 0;
}

/* Leaves a descriptor that is no listening socket, which belongs to the program. */
static int close_listener(const struct rd_settings *settings)
{
	struct rd_addresses none = { 0 };
	int fd, error;

	if (settings->rank != 0 || settings->rendezvous_fd < 0)
		return 0;
	error = rd_listen(&fd, &none, settings);
	if (!error)
		close(fd);
	return error;
}

/* Once a process: its other comms have the same settings. */
static void warn_without_secret(const struct rd_control *control)
{
	static _Atomic bool warned;
	bool here = rd_address_is_loopback(&control->local);

	if (!atomic_exchange(&warned, true))
		rd_log(here ? RD_INFO : RD_WARN, RD_BOOTSTRAP,
			"no secret: any%s %s may join this job at %s; set RONDO_SECRET_FILE on "
			"every rank (docs/security.md)",
			here ? " user" : "one", here ? "of this host" : "on the network",
			control->address);
}

static int open_sockets(struct rd_control *control, int64_t deadline_ms)
{
	const struct rd_settings *settings = &control->settings;
	struct rd_server *server = &control->server;
	struct rd_addresses addresses = { 0 };
	int error;

	if (settings->size == 1)
		return close_listener(settings); /* a single rank needs no address */
	if (settings->rank != 0 || settings->rendezvous_fd < 0) {
		error = rd_resolve(&addresses, settings, deadline_ms);
		if (error)
			return error;
	}
	if (settings->rank != 0) {
		control->client.addresses = malloc(sizeof(addresses));
		if (!control->client.addresses)
			return rd_fail(RONDO_MEMORY, "no memory for rank 0's addresses");
		*control->client.addresses = addresses;
		rd_address_print(control->address, &addresses.at[0]);
		return 0;
	}
	if (control->group) {
		control->local = control->whole->local;
	} else {
		error = rd_listen(&server->listen_fd, &addresses, settings);
		if (error) {
			server->listen_fd = -1;
			return error;
		}
		if (rd_local_address_get(&control->local, server->listen_fd))
			return rd_fail_errno("rank 0 does not know where it listens");
	}
	rd_address_print(control->address, control->group ? &addresses.at[0] : &control->local);
	if (!settings->has_psk && !control->group)
		warn_without_secret(control);
	return 0;
}

/* ---- The parent ---------------------------------------------------------------------------- */

/* Registers with the parent, whose verdict becomes this one's. parent: NULL: none. */
static void control_attach(struct rd_control *control, struct rd_control *parent)
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
		rd_control_fail_child(control, error, rd_reason_text(parent->reason));
	pthread_mutex_unlock(&parent->lock);
}

/* ---- Creating ------------------------------------------------------------------------------- */

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

static void control_decline(
	struct rd_control *control, const struct refusal *refusal, int64_t now_ms)
{
	if (control->server.coordinator)
		rd_coordinator_decline(
			control->server.coordinator, 0, refusal->error, refusal->reason);
	else
		rd_participant_report(control->participant, refusal->error, control->settings.rank,
			refusal->reason, now_ms);
}

static int control_start(struct rd_control *control, const struct rd_control_config *config,
	const struct refusal *refusal, int64_t now_ms)
{
	int error = 0;

	if (control->settings.rank == 0)
		error = rd_server_start(&control->server, &control->settings, control->address,
			config->group, now_ms);
	if (!error)
		error = rd_participant_create(&control->participant, &control->settings,
			config->self, config->activity, control->address, now_ms);
	if (error)
		return error;
	rd_participant_set_lineage(control->participant, &control->lineage.place);
	rd_participant_set_group(control->participant, config->group);
	if (config->limits)
		rd_participant_set_limits(control->participant, config->limits);
	control->client.participant = control->participant;
	if (refusal)
		control_decline(control, refusal, now_ms);
	error = watch_cancellation(control);
	if (error)
		return error;
	rd_control_enlist(control);
	/* A comm that shrinks has lost ranks, one that grows gets others: each makes a watch. */
	return rd_job_start(control, config->group ? config->parent->job : NULL, config->listener);
}

static struct rd_control *control_allocate(const struct rd_control_config *config)
{
	struct rd_control *control = calloc(1, sizeof(*control));

	if (control)
		control->presence =
			calloc((size_t)config->settings->size, sizeof(*control->presence));
	if (!control || !control->presence) {
		free(control);
		rd_fail(RONDO_MEMORY, "no memory for a control connection");
		return NULL;
	}
	control->settings = *config->settings;
	control->failed = config->failed;
	control->wake_fd = config->wake_fd;
	control->epoll_fd = control->event_fd = control->server.listen_fd = -1;
	control->cancel_fd = control->links_fd = -1;
	control->client.local = &control->local;
	control->client.mark = RD_MARK_CLIENT;
	control->client.settings = &control->settings;
	control->client.lineage = &control->lineage;
	control->group = config->group;
	control->client.due = &control->due;
	if (config->group)
		control->client.trunks = &config->parent->job->trunks;
	if (config->group && config->settings->rank == 0)
		control->whole = config->parent;
	control->activity = config->activity;
	control->links = config->links;
	control->links_ms = RD_NEVER;
	memcpy(control->host, config->self->member.place.host_name, sizeof(control->host));
	control->linger_ms = RD_NEVER;
	control->dead = -1;
	pthread_mutex_init(&control->lock, NULL);
	rd_condition_init(&control->published);
	return control;
}

/*
 * Creates a control connection, with its sockets open, which the control thread serves. On an
 * error *fd is the listening socket that was to be taken over, or -1 where it has been closed.
 * *cut_off: this rank has no socket to reach the others.
 */
static int control_begin(struct rd_control **made, const struct rd_control_config *config,
	const struct refusal *refusal, int *fd, bool *cut_off)
{
	struct rd_control *control = control_allocate(config);
	int64_t now_ms = rd_clock_ms();
	int error = control ? open_epoll(control, config->parent) : RONDO_MEMORY;

	if (!error && config->lineage)
		rd_lineage_join(&control->lineage, config->lineage);
	*fd = config->settings->rendezvous_fd;
	*cut_off = false;
	*made = control;
	if (!error) {
		error = open_sockets(control, now_ms + control->settings.init_timeout_ms);
		*cut_off = error != 0;
		*fd = -1;
	}
	if (!error)
		error = control_start(control, config, refusal, now_ms);
	if (!error || !control)
		return error;
	if (!*cut_off && control->server.listen_fd >= 0 && control->settings.rendezvous_fd >= 0) {
		*fd = control->server.listen_fd;
		control->server.listen_fd = -1;
	}
	rd_control_free(control);
	*made = NULL;
	return error;
}

static void await_meeting(struct rd_control *control)
{
	pthread_mutex_lock(&control->lock);
	rd_control_wait(control, RD_PARTICIPANT_JOINED);
	pthread_mutex_unlock(&control->lock);
}

void rd_control_decline(const struct rd_control_config *origin, int error, const char *reason)
{
	struct rd_settings mine = *origin->settings;
	struct rd_identity nobody = { 0 };
	struct rd_activity nothing = { .collective = -1, .waiting_for = -1 };
	_Atomic int failed = 0;
	struct rd_control_config config = { .settings = &mine,
		.self = &nobody,
		.activity = &nothing,
		.failed = &failed,
		.wake_fd = -1,
		.parent = origin->parent,
		.group = origin->group };
	struct refusal refusal = { error, reason };
	struct rd_control *control = NULL;
	bool cut_off;

	/* Bounds the time in which a name is resolved. */
	mine.init_timeout_ms = RD_REPORT_MS;
	if (mine.size < 2 || check_config(&config) ||
		control_begin(&control, &config, &refusal, &mine.rendezvous_fd, &cut_off)) {
		close_listener(&mine);
	} else {
		await_meeting(control);
		rd_control_destroy(control);
	}
	rd_settings_forget(&mine);
}

/* The others cannot shrink it before this rank is ready. */
static int begin_lineage(struct rd_control *control)
{
	int error = rd_lineage_begin(&control->lineage, rd_control_comm_id(control)->number,
		control->job->listener, control->settings.size + RD_PENDING_MAX);
	char reason[RD_REASON_SIZE];

	if (!error)
		return 0;
	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	return rd_control_report(control, error, control->settings.rank, reason);
}

int rd_control_create(struct rd_control **created, const struct rd_control_config *config)
{
	struct rd_settings settings;
	int error = check_config(config);
	char reason[RD_REASON_SIZE];
	bool cut_off;

	*created = NULL;
	if (error)
		return error;
	settings = *config->settings;
	error = control_begin(created, config, NULL, &settings.rendezvous_fd, &cut_off);
	if (error && !cut_off) {
		snprintf(reason, sizeof(reason), "%s", rondo_last_error());
		rd_control_decline(&(struct rd_control_config){ .settings = &settings,
					   .parent = config->parent,
					   .group = config->group },
			error, reason);
		rd_fail(error, "%s", reason);
	}
	rd_settings_forget(&settings);
	if (error)
		return error;
	control_attach(*created, config->parent);
	await_meeting(*created);
	error = rd_control_verdict(*created);
	if (!error && (*created)->lineage.id == 0)
		error = begin_lineage(*created);
	if (!error)
		return 0;
	rd_control_destroy(*created);
	*created = NULL;
	return error;
}

/* ---- Queries and requests ------------------------------------------------------------------ */

const struct rd_member *rd_control_members(const struct rd_control *control)
{
	return control->participant->members;
}

const struct rd_cards *rd_control_cards(const struct rd_control *control)
{
	return &control->participant->cards;
}

const struct rd_comm_id *rd_control_comm_id(const struct rd_control *control)
{
	return &control->participant->id;
}

const struct rd_lineage *rd_control_lineage(const struct rd_control *control)
{
	return &control->lineage;
}

_Atomic uint32_t *rd_control_done(struct rd_control *control)
{
	return control->count ? &control->count->done : NULL;
}

const struct sockaddr_storage *rd_control_local(const struct rd_control *control)
{
	return &control->local;
}

int rd_control_link_failed(struct rd_control *control, const struct rd_link_failure *link_failure)
{
	bool kept;

	pthread_mutex_lock(&control->lock);
	kept = rd_participant_link_failed(control->participant, link_failure);
	rd_control_notify(control);
	pthread_mutex_unlock(&control->lock);
	return kept ? 0 : rd_fail(RONDO_MEMORY, "no memory for a link failure");
}

bool rd_control_fallback(struct rd_control *control, int number, struct rd_link_failure *fallback)
{
	if (number >= atomic_load(&control->fallback_count))
		return false;
	pthread_mutex_lock(&control->lock);
	*fallback = control->participant->fallbacks.at[number];
	pthread_mutex_unlock(&control->lock);
	return true;
}

int rd_control_tell_costs(struct rd_control *control, const char *text)
{
	char *told = strndup(text, RD_COSTS_SIZE);

	if (!told)
		return rd_fail(RONDO_MEMORY, "no memory for the costs");
	pthread_mutex_lock(&control->lock);
	rd_participant_costs(control->participant, told);
	rd_control_notify(control);
	pthread_mutex_unlock(&control->lock);
	return 0;
}

int rd_control_await_costs(struct rd_control *control, char *text)
{
	bool known;

	*text = '\0';
	pthread_mutex_lock(&control->lock);
	if (!control->costs_known) {
		control->participant->awaits_costs = true;
		rd_control_notify(control);
	}
	while (!control->costs_known && !atomic_load(&control->verdict) && !control->over)
		pthread_cond_wait(&control->published, &control->lock);
	known = control->costs_known;
	pthread_mutex_unlock(&control->lock);
	if (!known)
		return rd_control_verdict(control);
	strcpy(text, control->participant->costs);
	return 0;
}

int rd_control_open(struct rd_control *control, const int *peers, int count)
{
	bool kept = true;

	pthread_mutex_lock(&control->lock);
	for (int i = 0; i < count && kept; i++)
		kept = rd_participant_open(control->participant, peers[i]);
	rd_control_notify(control);
	pthread_mutex_unlock(&control->lock);
	return kept ? 0 : rd_fail(RONDO_MEMORY, "no memory to open %d links", count);
}

bool rd_control_opened(struct rd_control *control, int number, int *peer)
{
	if (number >= atomic_load(&control->opened_count))
		return false;
	pthread_mutex_lock(&control->lock);
	*peer = control->participant->opened.at[number];
	pthread_mutex_unlock(&control->lock);
	return true;
}

bool rd_control_is_unattended(const struct rd_control *control)
{
	return atomic_load(&control->unattended);
}

bool rd_control_others_left(const struct rd_control *control)
{
	return atomic_load(&control->others_left);
}

void rd_control_serve_links(struct rd_control *control)
{
	atomic_store(&control->links_due, true);
	rd_control_notify(control);
}

int rd_control_ready(struct rd_control *control, int fallbacks, struct rd_link_limits *limits)
{
	bool another;
	int verdict;

	pthread_mutex_lock(&control->lock);
	rd_participant_ready(control->participant, fallbacks, limits);
	rd_control_notify(control);
	while (atomic_load(&control->fallback_count) <= fallbacks &&
		control->phase < RD_PARTICIPANT_OPEN && !atomic_load(&control->verdict) &&
		!control->over)
		pthread_cond_wait(&control->published, &control->lock);
	another = atomic_load(&control->fallback_count) > fallbacks;
	if (control->phase == RD_PARTICIPANT_OPEN)
		*limits = control->participant->limits;
	pthread_mutex_unlock(&control->lock);
	verdict = rd_control_verdict(control);
	return verdict ? verdict : another;
}

/* Whether the other ranks would not learn which rank lacks memory, or the like. */
static bool is_unnamed(int error, const char *reason)
{
	return (error == RONDO_MEMORY || error == RONDO_SYSTEM) &&
	       strncmp(reason, "rank ", strlen("rank ")) != 0;
}

/* Under the lock. */
static void report(struct rd_control *control, int error, int culprit, const char *reason)
{
	char *named = NULL;

	if (is_unnamed(error, reason))
		rd_reason_set(&named, "rank %d: %s", control->settings.rank, reason);
	rd_participant_report(
		control->participant, error, culprit, named ? named : reason, rd_clock_ms());
	free(named);
	rd_control_notify(control);
}

void rd_control_report_soon(struct rd_control *control, int error, int culprit, const char *reason)
{
	pthread_mutex_lock(&control->lock);
	report(control, error, culprit, reason);
	pthread_mutex_unlock(&control->lock);
}

int rd_control_report(struct rd_control *control, int error, int culprit, const char *reason)
{
	int verdict;

	pthread_mutex_lock(&control->lock);
	report(control, error, culprit, reason);
	rd_control_wait(control, RD_PARTICIPANT_LEFT);
	pthread_mutex_unlock(&control->lock);
	verdict = rd_control_verdict(control);
	return verdict ? verdict : rd_fail(error, "%s", reason);
}

void rd_control_slow(struct rd_control *control, int64_t line_ms, int culprit, const char *reason)
{
	pthread_mutex_lock(&control->lock);
	rd_participant_slow(control->participant, line_ms, culprit, reason);
	rd_control_notify(control);
	pthread_mutex_unlock(&control->lock);
}
