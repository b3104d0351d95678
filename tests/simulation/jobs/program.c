/* The program of a rank: a thread for each comm makes it, uses it, and leaves. */
#include <stdio.h>
#include <string.h>

#include "base/cancellation.h"
#include "base/hash.h"
#include "world.h"

#define LOOK_MS 60 /* between two looks at a comm's state */

static struct role {
	int comm, number; /* the rank's in it */
	struct rd_cancellation cancellation;
} roles[JOB_COMMS][JOB_RANKS];

static struct part *part_of(const struct role *role)
{
	return &job.comms[role->comm].parts[role->number];
}

static struct part *parent_of(const struct role *role)
{
	const struct job_comm *comm = &job.comms[role->comm];
	int rank = comm->members[role->number];

	return comm->parent < 0 ? NULL
				: &job.comms[comm->parent].parts[plan_number(comm->parent, rank)];
}

static void set_stage(const struct role *role, enum part_stage stage)
{
	struct part *part = part_of(role), *parent = parent_of(role);

	part->stage = stage;
	fibers_wake(part);
	if (parent)
		fibers_wake(parent);
}

static void set_error(struct part *part, int error, const char *reason)
{
	if (part->error || !error)
		return;
	part->error = error;
	part->end_ns = sim.now_ns;
	snprintf(part->reason, sizeof(part->reason), "%s", reason);
}

/* ---- Making --------------------------------------------------------------------------------- */

static void fill_settings(const struct role *role, struct rd_settings *settings)
{
	const struct job_comm *comm = &job.comms[role->comm];

	*settings = (struct rd_settings){ .rank = role->number,
		.size = comm->size,
		.address = "10.0.0.1",
		.port = KERNEL_PORT,
		.rendezvous_fd = -1,
		.algo = "",
		.channels = 1,
		.piece_size = part_of(role)->odd ? 8192 : 4096,
		.timeout_ms = JOB_CALL_MS,
		.heartbeat_timeout_ms = JOB_HEARTBEAT_MS,
		.unreachable_ms = JOB_UNREACHABLE_MS,
		.init_timeout_ms = JOB_INIT_MS };
}

static void fill_place(struct rd_place *place, int rank)
{
	snprintf(place->host_name, sizeof(place->host_name), "h%d", sim.hosts[rank]);
	memcpy(place->host_id, place->host_name, sizeof(place->host_name));
	place->pid = 100 + rank;
}

/* As api/create_group.c: the id, and the place of the first rank. */
static void meet(const struct role *role, struct rd_settings *settings)
{
	const struct job_comm *comm = &job.comms[role->comm];
	const struct rd_control *parent = parent_of(role)->control;
	int numbers[JOB_RANKS];
	uint64_t id;

	for (int i = 0; i < comm->size; i++)
		numbers[i] = plan_number(comm->parent, comm->members[i]);
	id = rd_hash(RD_HASH_INIT, &rd_control_comm_id(parent)->number, sizeof(id));
	id = rd_hash(id, &comm->purpose, sizeof(comm->purpose));
	id = rd_hash(id, numbers, sizeof(numbers[0]) * (size_t)comm->size);
	if (comm->id && comm->id != id)
		sim_fail("ranks have two ids for comm %d", role->comm);
	job.comms[role->comm].id = id;
	rd_lineage_meet(settings, &rd_control_members(parent)[numbers[0]].lineage);
}

/* The members are those that were asked for. */
static void check_members(const struct role *role)
{
	const struct job_comm *comm = &job.comms[role->comm];
	struct rd_control *control = part_of(role)->control;

	if (comm->id && rd_control_comm_id(control)->number != comm->id)
		sim_fail("comm %d has another id on its rank %d", role->comm, role->number);
	for (int i = 0; i < comm->size; i++)
		if (rd_control_members(control)[i].place.pid != 100 + comm->members[i])
			sim_fail("rank %d of comm %d is process %d", i, role->comm,
				rd_control_members(control)[i].place.pid);
}

/* A message from rank 0 to all. */
static int exchange_costs(const struct role *role)
{
	struct rd_control *control = part_of(role)->control;
	char text[RD_COSTS_SIZE + 1], expected[32];
	int err;

	snprintf(expected, sizeof(expected), "costs of comm %d", role->comm);
	if (role->number == 0)
		return rd_control_tell_costs(control, expected);
	err = rd_control_await_costs(control, text);
	if (!err && strcmp(text, expected) != 0)
		sim_fail("rank %d of comm %d has \"%s\"", role->number, role->comm, text);
	return err;
}

static int finish_making(const struct role *role)
{
	struct part *part = part_of(role);
	struct rd_link_limits limits = { 4096, false, RD_NO_RAILS, RD_NO_RAILS, 1 };
	int err;

	check_members(role);
	err = rd_control_ready(part->control, 0, &limits);
	if (!err)
		err = exchange_costs(role);
	if (!err)
		rd_control_detach(part->control);
	return err;
}

static int make(struct role *role)
{
	static const struct rd_link_limits limits = { 4096, false, RD_NO_RAILS, RD_NO_RAILS, 1 };
	const struct job_comm *comm = &job.comms[role->comm];
	struct part *part = part_of(role), *parent = parent_of(role);
	struct rd_settings settings;
	struct rd_identity self = { 0 };
	struct rd_control_config config = { .settings = &settings,
		.self = &self,
		.activity = &part->activity,
		.failed = &part->failed,
		.wake_fd = -1,
		.limits = comm->limits ? &limits : NULL };
	int err;

	fill_settings(role, &settings);
	fill_place(&self.member.place, comm->members[role->number]);
	if (parent) {
		meet(role, &settings);
		config.parent = parent->control;
		config.group = comm->id;
	}
	err = rd_control_create(&part->control, &config);
	return err ? err : finish_making(role);
}

static void *cancel(void *argument)
{
	struct role *role = argument;
	struct part *part = part_of(role);

	fibers_sleep((uint64_t)part->cancel_ms * MS);
	if (part->stage != PART_CREATES)
		return NULL;
	sim_trace(job.comms[role->comm].members[role->number], "cancels comm %d", role->comm);
	part->cancelled = true;
	rd_cancellation_cancel(&role->cancellation);
	return NULL;
}

/* A rank that is gone, or lost, to this one. */
static void check_presence(const struct role *role)
{
	const struct job_comm *comm = &job.comms[role->comm];

	for (int i = 0; i < comm->size; i++)
		if (rd_control_presence(part_of(role)->control, i) == RD_DEAD &&
			!job.ranks[comm->members[i]].dead)
			sim_fail("rank %d of comm %d takes rank %d for dead, which lives: %s",
				role->number, role->comm, i, part_of(role)->reason);
}

static void destroy(const struct role *role)
{
	struct rd_control *control = part_of(role)->control;

	if (!control)
		return;
	check_presence(role);
	part_of(role)->control = NULL;
	rd_control_destroy(control);
}

static void create(struct role *role)
{
	struct part *part = part_of(role);
	int canceller = -1, rank = job.comms[role->comm].members[role->number];

	part->called = true;
	sim_trace(rank, "makes comm %d, as its rank %d", role->comm, role->number);
	if (rd_cancellation_init(&role->cancellation, role->number))
		sim_fail("no eventfd");
	fibers_set_cancellation(&role->cancellation);
	if (part->cancel_ms >= 0)
		canceller = fibers_start(rank, cancel, role);
	set_error(part, make(role), rondo_last_error());
	if (part->error)
		destroy(role);
	part->made = !part->error;
	part->made_ns = sim.now_ns;
	fibers_set_cancellation(NULL);
	set_stage(role, part->error ? PART_ENDS : PART_HAS);
	if (canceller >= 0)
		fibers_join(canceller);
	rd_cancellation_finish(&role->cancellation);
}

/* ---- Using ---------------------------------------------------------------------------------- */

static void open_links(const struct role *role)
{
	struct part *part = part_of(role);
	int peers[JOB_RANKS], count = 0;

	for (int i = 0; i < job.comms[role->comm].size; i++)
		if (i != role->number && draw_one_in(&sim.run, 2)) {
			part->opens |= 1u << i;
			peers[count++] = i;
		}
	if (rd_control_open(part->control, peers, count))
		sim_fail("no memory for links");
}

static void check_opened(const struct role *role)
{
	const struct job_comm *comm = &job.comms[role->comm];
	int peer;

	for (int i = 0; rd_control_opened(part_of(role)->control, i, &peer); i++)
		if (!(comm->parts[peer].opens >> role->number & 1))
			sim_fail("rank %d of comm %d learns of a link that rank %d opens to others",
				role->number, role->comm, peer);
}

/* Whether a thread of this rank is about to make another comm of it. */
static bool has_plans(const struct role *role)
{
	int rank = job.comms[role->comm].members[role->number];

	for (int i = role->comm + 1; i < job.comm_count; i++) {
		int number = job.comms[i].parent == role->comm ? plan_number(i, rank) : -1;

		if (number >= 0 && job.comms[i].parts[number].stage == PART_WAITS)
			return true;
	}
	return false;
}

static void revoke(const struct role *role)
{
	struct part *part = part_of(role);
	char reason[80];
	int error;

	snprintf(reason, sizeof(reason), "rank %d revoked comm %d", role->number, role->comm);
	error = rd_control_report(part->control, RONDO_REVOKED, role->number, reason);
	set_error(part, error, rondo_last_error());
}

static void use(const struct role *role)
{
	struct part *part = part_of(role);
	uint64_t end_ns = part->made_ns + (uint64_t)part->use_ms * MS;
	uint64_t revoke_ns = part->made_ns + (uint64_t)part->revoke_ms * MS;

	open_links(role);
	while (!atomic_load(&part->failed) && (sim.now_ns < end_ns || has_plans(role))) {
		if (part->revoke_ms >= 0 && sim.now_ns >= revoke_ns) {
			revoke(role);
			break;
		}
		fibers_await(part, sim.now_ns + LOOK_MS * MS);
	}
	if (atomic_load(&part->failed))
		set_error(part, rd_control_verdict(part->control), rondo_last_error());
	check_opened(role);
}

/* ---- The end -------------------------------------------------------------------------------- */

static void end(const struct role *role)
{
	struct part *part = part_of(role);
	struct rd_control *control = part->control;
	int error = 0;

	set_stage(role, PART_ENDS);
	while (part->children > 0)
		fibers_await(part, NEVER);
	if (part->error || !control) {
		destroy(role);
		return;
	}
	check_presence(role);
	part->end_ns = sim.now_ns;
	part->control = NULL;
	if (part->finalizes)
		error = rd_control_finalize(control);
	else
		error = rd_control_leave(control);
	set_error(part, error, rondo_last_error());
}

static bool await_parent(const struct role *role)
{
	struct part *part = part_of(role), *parent = parent_of(role);

	while (parent && (parent->stage == PART_WAITS || parent->stage == PART_CREATES))
		fibers_await(parent, NEVER);
	fibers_sleep((uint64_t)part->delay_ms * MS);
	if (parent && parent->stage == PART_HAS && atomic_load(&parent->failed))
		set_error(part, rd_control_verdict(parent->control), rondo_last_error());
	return !part->absent && !part->error && (!parent || parent->stage == PART_HAS);
}

static void *run(void *argument)
{
	struct role *role = argument;
	struct part *part = part_of(role), *parent = parent_of(role);

	if (await_parent(role)) {
		if (parent)
			parent->children++;
		set_stage(role, PART_CREATES);
		create(role);
		if (parent)
			parent->children--;
		if (part->made)
			use(role);
		end(role);
	}
	sim_trace(job.comms[role->comm].members[role->number], "ends comm %d: %s%s%s", role->comm,
		part->error ? rondo_error_name(part->error) : "success", part->error ? ": " : "",
		part->reason);
	set_stage(role, PART_ENDED);
	return NULL;
}

void program_start(int rank)
{
	for (int i = 0; i < job.comm_count; i++) {
		int number = plan_number(i, rank);

		if (number < 0)
			continue;
		roles[i][number] = (struct role){ .comm = i, .number = number };
		fibers_start(rank, run, &roles[i][number]);
	}
}
