#include "api/communicator.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/inherited.h"
#include "bootstrap/pmi.h"
#include "bootstrap/unique_id.h"
#include "comm/calibrate.h"
#include "comm/comm_log.h"
#include "comm/connect.h"
#include "comm/cores.h"
#include "comm/hold.h"
#include "comm/opening.h"
#include "comm/plan_cache.h"

/* ---- Where ---------------------------------------------------------------------------------- */

/*
 * The socket that a launcher opened is for the address that it chose, and for every comm that meets
 * there: each listens at a copy.
 */
static void share_rendezvous(struct rd_settings *settings, const struct rondo_config *config)
{
	bool elsewhere = config && (config->address || config->port >= 0);
	int copy;

	if (settings->rendezvous_fd < 0 || (config && config->rendezvous_fd >= 0))
		return;
	copy = elsewhere ? -1 : fcntl(settings->rendezvous_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	/* A descriptor that cannot be copied is no socket: its use fails later, with the reason. */
	if (copy >= 0 || elsewhere)
		settings->rendezvous_fd = copy;
}

/* Whether the program says itself where rank 0 listens. */
static bool gives_socket(const struct rondo_config *config)
{
	return config && (config->address || config->port >= 0 || config->rendezvous_fd >= 0);
}

int rd_meet_where(struct rd_settings *settings, const struct rondo_config *config)
{
	bool has_id = config && config->unique_id;

	if (has_id && gives_socket(config))
		return rd_fail(RONDO_INVALID,
			"unique_id in struct rondo_config replaces address, port and "
			"rendezvous_fd: set none of them");
	if (has_id) {
		/* That of the environment is for other comms. */
		settings->rendezvous_fd = -1;
		return rd_unique_id_meet(settings, config->unique_id);
	}
	if (!gives_socket(config)) {
		int err = rd_refuse_inherited_rank(settings);

		if (err)
			return err;
		if (settings->pmi_fd >= 0 && settings->size > 1)
			return rd_pmi_meet(settings);
	}
	share_rendezvous(settings, config);
	return 0;
}

/* ---- Places and cores ----------------------------------------------------------------------- */

static void count_cores(struct rondo_comm *comm, const struct rd_member *members)
{
	struct rd_sharing here = rd_cores_count(
		comm->processors, members, NULL, comm->size, &members[comm->rank].place);

	comm->cores = here.cores;
	comm->oversubscribed = here.ranks > here.cores;
	comm->single_cored = 2 * here.ranks > here.cores;
}

/* Creates the layout of each channel; channels of one order share it. */
static int create_layouts(struct rondo_comm *comm, const struct rd_member *members)
{
	struct rd_place *places = calloc((size_t)comm->size, sizeof(*places));
	int err = 0;

	if (!places)
		return rd_fail(RONDO_MEMORY, "no memory for the places of %d ranks", comm->size);
	for (int rank = 0; rank < comm->size; rank++)
		places[rank] = members[rank].place;
	for (int channel = 0; channel < comm->channels && !err; channel++) {
		struct rd_layout **layout = &comm->layouts[channel];

		err = rd_order_create(layout, places, comm->size, channel);
		if (err || channel == 0 || !rd_order_equal(*layout, comm->layouts[channel - 1]))
			continue;
		rd_order_destroy(*layout);
		*layout = comm->layouts[channel - 1];
	}
	free(places);
	return err;
}

void rd_meet_destroy_layouts(struct rondo_comm *comm)
{
	for (int channel = comm->channels - 1; channel >= 0; channel--)
		if (channel == 0 || comm->layouts[channel] != comm->layouts[channel - 1])
			rd_order_destroy(comm->layouts[channel]);
}

/* ---- Costs ---------------------------------------------------------------------------------- */

static int set_picker(struct rondo_comm *comm)
{
	struct rd_tuner_config config = {
		.size = comm->size,
		.layout = comm->layouts[0],
		.costs = comm->costs,
		.channels = comm->channels,
		.piece_size = comm->piece_size,
		.exchange_size = sizeof(struct rd_buffers),
		.rows = comm->rows,
		.algo = comm->settings.algo,
	};
	struct rd_picker *picker = rd_picker_create(&config);

	if (!picker)
		return RONDO_MEMORY;
	rd_picker_destroy(comm->picker);
	comm->picker = picker;
	rd_plan_cache_drop_choices(comm);
	return 0;
}

/* Calibration makes calls, so there is a picker of default costs before it. These calls come before
   the comm exists, while no rank computes: they wait no longer than the rendezvous may take. */
static int calibrate(struct rondo_comm *comm)
{
	uint32_t cores = comm->costs.cores;
	int timeout_ms = comm->settings.timeout_ms, err;

	if (timeout_ms > comm->settings.init_timeout_ms)
		comm->timeout_ms = comm->settings.init_timeout_ms;
	rd_costs_default(&comm->costs);
	comm->costs.cores = cores;
	err = set_picker(comm);
	if (!err)
		err = rd_calibrate(comm);
	comm->timeout_ms = timeout_ms;
	return err;
}

/* A group has the costs of its parent, which are the same on all ranks; and of its own, the cores,
   by rank 0's word. */
static int find_costs(struct rondo_comm *comm, const struct rd_findings *parents)
{
	uint32_t cores = comm->costs.cores;
	int err = 0;

	if (parents) {
		comm->costs = parents->costs;
		comm->costs.cores = cores;
		err = rd_keep_rows(comm, &parents->rows);
	} else {
		err = calibrate(comm);
	}
	if (!err)
		err = set_picker(comm);
	comm->times_calls = rd_log_on(RD_INFO, RD_PICK);
	return err;
}

/* ---- Meeting -------------------------------------------------------------------------------- */

static void log_address(const struct rondo_comm *comm)
{
	char text[RD_ADDRESS_SIZE];

	if (!rd_log_on(RD_INFO, RD_BOOTSTRAP))
		return;
	rd_local_address_print(text, rd_control_local(comm->control));
	rd_log(RD_INFO, RD_BOOTSTRAP, "Bootstrap : Using %s", text);
}

/* Whether the links of this comm can do as the parent's. */
static bool keeps_limits(const struct rondo_comm *comm, const struct rd_findings *parents)
{
	if (!parents || !parents->limits.piece_size ||
		comm->endpoint_count != parents->transport_count)
		return false;
	for (int i = 0; i < comm->endpoint_count; i++)
		if (comm->endpoints[i]->transport != parents->transports[i] ||
			comm->endpoints[i]->message_max < parents->limits.piece_size)
			return false;
	return true;
}

/* Meets the other ranks. */
static int make_control(struct rondo_comm *comm, const struct rd_identity *self,
	const struct rd_comm_origin *origin, const struct rd_link_limits *limits)
{
	struct rd_control_config config = {
		.settings = &comm->settings,
		.self = self,
		.activity = &comm->activity,
		.failed = &comm->failed,
		.wake_fd = comm->shared->wake_fd,
		.listener = comm->shared->listener,
		.parent = origin->parent,
		.lineage = origin->lineage,
		.group = origin->group,
		.limits = limits,
		.links = { comm, rd_open_serve },
	};
	int err = rd_control_create(&comm->control, &config);

	if (err)
		return err;
	log_address(comm);
	comm->local.comm_id = rd_control_comm_id(comm->control)->number;
	memcpy(comm->local.key, rd_control_comm_id(comm->control)->key, RD_COMM_KEY_SIZE);
	if (rd_control_done(comm->control))
		comm->watched_done = rd_control_done(comm->control);
	return 0;
}

static int meet_and_connect(struct rondo_comm *comm, const struct rd_identity *self,
	const struct rd_comm_origin *origin)
{
	const struct rd_link_limits *limits =
		keeps_limits(comm, origin->findings) ? &origin->findings->limits : NULL;
	const struct rd_member *members;
	int err = make_control(comm, self, origin, limits);

	if (err)
		return err;
	members = rd_control_members(comm->control);
	count_cores(comm, members);
	/* Single copy needs the receiver to run before the sender can continue. On an
	   oversubscribed host that costs a context switch, so messages go through slots there. */
	comm->single_copy = comm->oversubscribed ? RD_SINGLE_COPY_NEVER : RD_SINGLE_COPY_LEARNED;
	err = create_layouts(comm, members);
	return err ? err : rd_connect(comm, limits);
}

int rd_meet(struct rondo_comm *comm, const struct rd_identity *self,
	const struct rd_comm_origin *origin)
{
	int err, opened, peer;

	/* Others may open links to this rank once they have met it. */
	rd_hold(comm);
	err = meet_and_connect(comm, self, origin);
	opened = comm->connecting.opened;
	atomic_store(&comm->complete, !err);
	rd_unhold(comm);
	if (err)
		return err;
	if (rd_control_opened(comm->control, opened, &peer))
		rd_control_serve_links(comm->control);
	rd_comm_log(comm, rd_control_members(comm->control));
	err = find_costs(comm, origin->findings);
	return err ? err : rd_call_check_create(comm);
}
