/* Creates, finalizes and destroys communicators. */
#include "api/communicator.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/group.h"
#include "api/op.h"
#include "api/plugin.h"
#include "api/request_queue.h"
#include "api/tagged_driver.h"
#include "base/cache_line.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/launch/launch.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/socket.h"
#include "comm/mailbox.h"
#include "comm/opening.h"
#include "comm/plan_cache.h"
#include "comm/route.h"
#include "device/device.h"
#include "exec/trace.h"
#include "gpu/create.h"
#include "secure/secret.h"
#include "topo/place.h"

/* ---- Creating ------------------------------------------------------------------------------ */

/* Name service may learn the master's name after the ranks start. Transports look up the way to it
   once, so this waits first. */
static int await_master(const struct rd_settings *settings)
{
	struct rd_addresses addresses;

	if (settings->rendezvous_fd >= 0)
		return 0;
	return rd_resolve(&addresses, settings, rd_clock_ms() + settings->init_timeout_ms);
}

static int create_tables(struct rondo_comm *comm)
{
	comm->links = calloc((size_t)comm->size * comm->channels, sizeof(*comm->links));
	comm->peer_calls = calloc(comm->size, sizeof(*comm->peer_calls));
	if (!comm->links || !comm->peer_calls)
		return rd_fail(RONDO_MEMORY, "no memory for a comm of %d ranks", comm->size);
	return 0;
}

/* Frees all that no thread, no peer and no other comm shares. */
static void free_own(struct rondo_comm *comm)
{
	rd_buffer_exchange_destroy(comm);
	rd_call_check_destroy(comm);
	rd_plan_cache_destroy(comm);
	rd_picker_destroy(comm->picker);
	free(comm->requests);
	rd_meet_destroy_layouts(comm);
	rd_ops_destroy(comm);
	free(comm->peer_calls);
	free(comm->vote.origins);
	free(comm->group_uses);
	free(comm->rows);
	rd_settings_forget(&comm->settings);
	rd_trace_destroy(comm->trace);
	free(comm);
}

/* Frees a comm, also one half created. Sends no goodbye. */
static void destroy(struct rondo_comm *comm)
{
	if (!comm)
		return;
	rd_gpu_destroy(comm->gpu);
	rd_control_destroy(comm->control);
	rd_lineage_end(&comm->alone);
	rd_mailbox_close(comm);
	rd_route_halt(comm);
	rd_route_close(comm);
	rd_open_finish(comm);
	if (comm->epoll_fd >= 0)
		rd_shared_close(comm->shared, comm->epoll_fd);
	if (comm->listens)
		rd_shared_unlisten(comm->shared);
	rd_shared_release(comm->shared);
	pthread_mutex_destroy(&comm->hold_lock);
	pthread_mutex_destroy(&comm->turn_lock);
	pthread_cond_destroy(&comm->turn_change);
	if (comm->trace)
		rd_trace_write(comm->trace);
	free_own(comm);
}

/* Whether no thread of the parent was in a call, ran a queued one, opened links or took the comm
   apart at the fork. */
static bool was_at_rest(struct rondo_comm *comm)
{
	if (pthread_mutex_trylock(&comm->hold_lock))
		return false;
	pthread_mutex_unlock(&comm->hold_lock);
	return !atomic_load(&comm->used) && !atomic_load(&comm->in_use) &&
	       !atomic_load(&comm->changes) &&
	       atomic_load(&comm->started) <= atomic_load(&comm->finished);
}

/* In a forked child, by the rule of base/fork.h: the comm continues in the parent. The gpu is left,
   for no device driver survives a fork. */
static void abandon(struct rondo_comm *comm)
{
	if (!was_at_rest(comm))
		return;
	rd_mailbox_abandon(comm);
	rd_route_abandon(comm);
	rd_open_finish(comm);
	rd_shared_abandon(comm->shared);
	free_own(comm);
}

static struct rondo_comm *create(const struct rd_settings *settings)
{
	struct rondo_comm *comm = rd_calloc_lines(sizeof(*comm));

	if (!comm)
		return NULL;
	comm->forks = rd_process.forks;
	comm->settings = *settings;
	comm->timeout_ms = settings->timeout_ms;
	comm->rank = settings->rank;
	comm->size = settings->size;
	comm->channels = comm->used_channels = settings->channels;
	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++)
		comm->rails[class] = 1;
	comm->piece_size = settings->piece_size;
	comm->spin_ns = settings->spin_us * INT64_C(1000);
	comm->epoll_fd = comm->borrowed_fd = -1;
	comm->activity.collective = -1;
	comm->activity.waiting_for = -1;
	comm->watched_done = &comm->activity.done;
	pthread_mutex_init(&comm->turn_lock, NULL);
	pthread_mutex_init(&comm->hold_lock, NULL);
	rd_condition_init(&comm->turn_change);
	return comm;
}

/* A group's is its parent's: this process is where it was. */
static int find_place(struct rondo_comm *comm, const struct rd_findings *parents)
{
	struct rd_launch launch;

	if (parents) {
		comm->local.place = parents->place;
		comm->processors = parents->processors;
		return 0;
	}
	/* A program that gives rank and size needs no launcher: where that fails, there is none. */
	rd_launch_read(&launch, comm->settings.launcher);
	comm->processors = rd_processors_of_launch(&launch);
	return rd_place_here(&comm->local.place, &comm->settings);
}

/* The steps of this rank alone, before it meets the others. */
static int prepare(
	struct rondo_comm *comm, struct rd_identity *self, const struct rd_comm_origin *origin)
{
	struct rd_listener *listener;
	int err = rd_forks_watch();

	if (!err)
		err = create_tables(comm);
	if (!err && *comm->settings.trace)
		err = rd_trace_create(&comm->trace, comm->settings.trace);
	if (!err && origin->shared)
		comm->shared = rd_shared_keep(origin->shared);
	else if (!err)
		err = rd_shared_make(&comm->shared);
	if (err)
		return err;
	comm->local = (struct rd_local){
		.rank = comm->rank,
		.size = comm->size,
		.settings = &comm->settings,
		.epoll_fd = -1,
		.shared = comm->shared,
	};
	err = find_place(comm, origin->findings);
	if (!err)
		err = rd_gpu_device(
			&comm->settings, &comm->local.place.device, &comm->local.place.device_pci);
	if (err)
		return err;
	comm->meets_devices = rd_device_met();
	self->member.place = comm->local.place;
	if (comm->size == 1)
		return 0;
	err = await_master(&comm->settings);
	if (err)
		return err;
	err = rd_shared_listen(comm->shared, &listener, &comm->settings);
	comm->listens = !err;
	return err ? err : rd_route_listen(comm, self->cards);
}

/* Sends the reason to the other ranks, which wait for this one. */
static int fail_while_joining(struct rondo_comm *comm, int err)
{
	if (!comm->control || atomic_load(&comm->failed))
		return err;
	rd_fail(err, "rank %d of %d could not take part: %s", comm->rank, comm->size,
		rondo_last_error());
	return rd_comm_fail(comm, err, comm->rank);
}

static void be_alone(struct rondo_comm *comm, const struct rd_lineage *lineage)
{
	if (comm->settings.rendezvous_fd >= 0)
		close(comm->settings.rendezvous_fd);
	if (lineage && lineage->arrivals)
		rd_lineage_join(&comm->alone, lineage);
}

/* Meets the other ranks, if there are any. */
static int start(struct rondo_comm *comm, const struct rd_identity *self,
	const struct rd_comm_origin *origin)
{
	int err = 0;

	if (comm->size > 1)
		err = rd_meet(comm, self, origin);
	else
		be_alone(comm, origin->lineage);
	if (!err)
		err = rd_gpu_create(comm);
	return err ? fail_while_joining(comm, err) : 0;
}

/* This rank fails before it meets the others: sends them the reason. */
static int decline(const struct rd_settings *settings, const struct rd_comm_origin *origin, int err)
{
	struct rd_control_config config = {
		.settings = settings, .parent = origin->parent, .group = origin->group
	};
	char reason[RD_REASON_SIZE];

	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	rd_control_decline(&config, err, reason);
	return rd_fail(err, "%s", reason);
}

static void start_trace(const struct rondo_comm *comm, const struct rd_comm_origin *origin)
{
	bool is_derived = origin->parent || origin->lineage;

	/* A part of one rank has no id, and sends nothing. */
	if (is_derived && !comm->local.comm_id)
		return;
	rd_trace_start(comm->trace, &(struct rd_trace_origin){ .rank = comm->rank,
					    .size = comm->size,
					    .channels = comm->channels,
					    .layouts = comm->layouts,
					    .group = is_derived ? comm->local.comm_id : 0 });
}

int rd_comm_make(struct rondo_comm **comm, const struct rd_settings *settings,
	const struct rd_comm_origin *origin)
{
	int64_t began = rd_clock_ns();
	struct rondo_comm *made = create(settings);
	struct rd_identity *self = calloc(1, sizeof(*self));
	int err = made && self ? prepare(made, self, origin)
			       : rd_fail(RONDO_MEMORY, "no memory for a comm");
	bool prepared = !err;

	if (prepared)
		err = start(made, self, origin);
	free(self);
	if (err) {
		destroy(made);
		return prepared ? err : decline(settings, origin, err);
	}
	if (made->trace)
		start_trace(made, origin);
	if (made->control)
		rd_control_detach(made->control);
	rd_log(RD_INFO, RD_BOOTSTRAP, "comm %p rank %d nranks %d - Init COMPLETE in %.1f ms",
		(void *)made, made->rank, made->size, (rd_clock_ns() - began) / 1e6);
	*comm = made;
	return 0;
}

int rd_comm_give_up(struct rondo_comm **made, int err)
{
	char reason[RD_REASON_SIZE];

	if (!*made)
		return err;
	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	rd_fail(RONDO_REVOKED, "rank %d gave up a new communicator: %s", (*made)->rank, reason);
	if ((*made)->control)
		rd_comm_fail(*made, RONDO_REVOKED, (*made)->rank);
	destroy(*made);
	*made = NULL;
	return rd_fail(err, "%s", reason);
}

int rd_comm_check_origin(
	const struct rondo_comm *comm, struct rondo_comm **made, const char *function)
{
	if (!made)
		return rd_fail(RONDO_INVALID, "%s: the place for the new comm is NULL", function);
	*made = NULL;
	if (!comm)
		return rd_fail(RONDO_INVALID, "%s: comm is NULL", function);
	if (rd_group_open())
		return rd_fail(RONDO_INVALID, "%s: end the group first", function);
	return rd_comm_check_process(comm, function);
}

int rd_comm_agree_on_memory(rondo_comm *comm, bool has_memory, bool *differs, const char *function)
{
	/* The error names the lowest rank that lacks it. */
	int32_t lacks = has_memory ? *differs : 1 + comm->size - comm->rank;
	int err = rondo_all_reduce(comm, &lacks, &lacks, 1, RONDO_I32, RONDO_MAX, NULL);

	if (err == RONDO_MISMATCH)
		return rd_fail(
			err, "%s; rank %d was in %s()", rondo_last_error(), comm->rank, function);
	if (!err && lacks > 1)
		err = rd_fail(RONDO_MEMORY, "%s: rank %d has no memory for it", function,
			1 + comm->size - lacks);
	*differs = lacks > 0;
	return err;
}

static const struct rd_comm_origin no_origin;

/* With invalid settings the caller's socket stays the caller's: a copy is used. */
static int decline_settings(
	struct rd_settings *settings, const struct rondo_config *config, int err)
{
	char reason[RD_REASON_SIZE];

	if (settings->rank < 0)
		return err;
	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	if (rd_meet_where(settings, config) || rd_secret_find(settings))
		return rd_fail(err, "%s", reason);
	if (config && config->rendezvous_fd >= 0 && settings->rendezvous_fd >= 0)
		settings->rendezvous_fd =
			fcntl(settings->rendezvous_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	rd_fail(err, "%s", reason);
	return decline(settings, &no_origin, err);
}

int rd_comm_create(rondo_comm **comm, struct rd_settings *settings,
	const struct rondo_config *config, int invalid)
{
	int err;

	if (invalid)
		return decline_settings(settings, config, invalid);
	/* Before the first line: the name of the log's file may contain the rank. */
	rd_log_rank(settings->rank);
	rd_settings_log(settings);
	if (settings->rank == 0)
		rd_log(RD_INFO, RD_BOOTSTRAP, "Rondo version %s", rondo_version());
	err = rd_plugins_load(settings);
	if (!err)
		err = rd_pick_check(settings);
	if (err)
		return decline_settings(settings, config, err);
	err = rd_meet_where(settings, config);
	if (err)
		return err;
	err = rd_secret_find(settings);
	err = err ? decline(settings, &no_origin, err) : rd_comm_make(comm, settings, &no_origin);
	rd_settings_forget(settings);
	return err;
}

int rondo_comm_create(rondo_comm **comm, const struct rondo_config *config)
{
	struct rd_settings settings;

	if (!comm)
		return rd_fail(RONDO_INVALID, "rondo_comm_create: comm is NULL");
	*comm = NULL;

	int invalid = rd_settings_read(&settings, config);

	return rd_comm_create(comm, &settings, config, invalid);
}

/* ---- Leaving ------------------------------------------------------------------------------- */

void rd_comm_wait_for_calls(struct rondo_comm *comm)
{
	rd_request_queue_drain(comm);
	pthread_mutex_lock(&comm->turn_lock);
	while (atomic_load(&comm->finished) != comm->issued)
		rd_turn_pause(comm);
	pthread_mutex_unlock(&comm->turn_lock);
}

/* The functions of messages may start requests of calls, and wait for them. */
static void end_requests(struct rondo_comm *comm)
{
	rd_comm_wait_for_calls(comm);
	rd_tagged_finish(comm);
	rd_request_queue_drain(comm);
	rd_request_queue_finish(comm);
}

static int finalize(rondo_comm *comm)
{
	int err;

	end_requests(comm);
	rd_gpu_finish(comm->gpu);
	err = comm->finalized || atomic_load(&comm->failed) ? rd_comm_failure(comm) : 0;
	if (err)
		return err;
	comm->watched_done = &comm->activity.done;
	if (comm->control)
		err = rd_control_finalize(comm->control);
	comm->control = NULL;
	rd_lineage_end(&comm->alone);
	/* Every later call checks this first. */
	comm->finalized = true;
	atomic_store(&comm->failed, RONDO_INVALID);
	return err;
}

int rondo_comm_finalize(rondo_comm *comm)
{
	int err;

	if (!comm)
		return rd_fail(RONDO_INVALID, "rondo_comm_finalize: comm is NULL");
	err = rd_comm_check_process(comm, "rondo_comm_finalize");
	if (err)
		return err;
	if (rd_group_open())
		return rd_fail(RONDO_INVALID, "rondo_comm_finalize: end the group first");
	if (atomic_load(&comm->used))
		return rd_comm_refuse_second(comm, "rondo_comm_finalize");
	atomic_store(&comm->changes, true);
	err = finalize(comm);
	atomic_store(&comm->changes, false);
	return err;
}

int rondo_comm_destroy(rondo_comm *comm)
{
	int err = 0;
	bool failed;

	if (!comm)
		return 0;
	if (rd_is_inherited(comm->forks)) {
		abandon(comm);
		return 0;
	}
	if (rd_group_open())
		return rd_fail(RONDO_INVALID, "rondo_comm_destroy: end the group first");
	atomic_store(&comm->changes, true);
	end_requests(comm);
	rd_gpu_finish(comm->gpu);
	failed = atomic_load(&comm->failed);
	if (comm->control)
		err = rd_control_leave(comm->control);
	comm->control = NULL;
	destroy(comm);
	return failed ? 0 : err;
}
