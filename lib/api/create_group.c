/*
 * Making a comm of some ranks of another one, which they alone call. The id of the new comm follows
 * from the parent's, the ranks and the purpose, so nothing is exchanged before they meet: each
 * greets with the id at the place of the first rank, which holds it until its own call.
 */
#include "api/communicator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "comm/cores.h"

/* ---- The id --------------------------------------------------------------------------------- */

static uint64_t make_id(const rondo_comm *parent, const int *ranks, int count, uint64_t purpose)
{
	uint64_t id = rd_hash(RD_HASH_INIT, &parent->local.comm_id, sizeof(parent->local.comm_id));

	id = rd_hash(id, &purpose, sizeof(purpose));
	id = rd_hash(id, ranks, (size_t)count * sizeof(*ranks));
	return id ? id : 1;
}

/* The place of this id among those that this rank has used; -1: no memory. Under the lock. */
static int find_use(rondo_comm *parent, uint64_t id)
{
	struct rd_group_use *more;
	int at = 0;

	while (at < parent->group_use_count && parent->group_uses[at].id != id)
		at++;
	if (at < parent->group_use_count)
		return at;
	more = realloc(parent->group_uses, ((size_t)at + 1) * sizeof(*more));
	if (!more)
		return -1;
	more[at] = (struct rd_group_use){ .id = id };
	parent->group_uses = more;
	parent->group_use_count = at + 1;
	return at;
}

/* How often this rank has made a group with this id before; -1: no memory. */
static int64_t count_use(rondo_comm *parent, uint64_t id)
{
	int64_t before = -1;
	int at;

	pthread_mutex_lock(&parent->hold_lock);
	at = find_use(parent, id);
	if (at >= 0)
		before = parent->group_uses[at].times++;
	pthread_mutex_unlock(&parent->hold_lock);
	return before;
}

/* ---- Making --------------------------------------------------------------------------------- */

struct group {
	struct rd_settings settings;
	struct rd_findings findings;
	struct rd_comm_origin origin;
};

/* Where all ranks are on one host, the links of the group can do as the parent's: if those of some
   pairs map no memory, only where it has the same ranks. */
static void find_limits(struct group *group, const rondo_comm *parent, const int *ranks, int count)
{
	const struct rd_member *members = rd_control_members(parent->control);
	struct rd_findings *findings = &group->findings;

	if (parent->layouts[0]->group_count > 1 || (count < parent->size && !parent->maps))
		return;
	findings->limits = (struct rd_link_limits){
		.piece_size = parent->piece_size,
		.maps = parent->maps,
		.near_rails = parent->rails[RD_NEAR],
		.far_rails = RD_NO_RAILS,
		.cores = (uint32_t)rd_cores_count(
			parent->processors, members, ranks, count, &parent->local.place)
				 .cores,
	};
	findings->transport_count = parent->endpoint_count;
	for (int i = 0; i < parent->endpoint_count; i++)
		findings->transports[i] = parent->endpoints[i]->transport;
}

static void plan(
	struct group *group, rondo_comm *parent, const int *ranks, int count, uint64_t purpose)
{
	struct rd_settings *settings = &group->settings;

	*settings = parent->settings;
	settings->rendezvous_fd = -1;
	settings->size = count;
	settings->rank = 0;
	while (ranks[settings->rank] != parent->rank)
		settings->rank++;
	group->findings = (struct rd_findings){ .place = parent->local.place,
		.processors = parent->processors,
		.costs = parent->costs };
	if (parent->rows)
		group->findings.rows = *parent->rows;
	group->origin = (struct rd_comm_origin){
		.parent = parent->control, .shared = parent->shared, .findings = &group->findings
	};
	if (count == 1)
		return;
	find_limits(group, parent, ranks, count);
	group->origin.group = make_id(parent, ranks, count, purpose);
	rd_lineage_meet(settings, &rd_control_members(parent->control)[ranks[0]].lineage);
}

static int make(struct group *group, rondo_comm **made)
{
	int err = rd_comm_make(made, &group->settings, &group->origin);

	rd_settings_forget(&group->settings);
	return err;
}

int rd_comm_make_group(
	rondo_comm *parent, const int *ranks, int count, uint64_t purpose, rondo_comm **made)
{
	struct group group;

	plan(&group, parent, ranks, count, purpose);
	return make(&group, made);
}

/* ---- The calls ------------------------------------------------------------------------------ */

static int check_ranks(const rondo_comm *parent, const int *ranks, int count, const char *function)
{
	bool *listed;
	int err = 0;

	if (!ranks || count < 1 || count > parent->size)
		return rd_fail(RONDO_INVALID, "%s: %d ranks of %d%s", function, count, parent->size,
			ranks ? "" : ", and the list is NULL");
	listed = calloc((size_t)parent->size, sizeof(*listed));
	if (!listed)
		return rd_fail(RONDO_MEMORY, "%s: no memory for %d ranks", function, parent->size);
	for (int i = 0; i < count && !err; i++) {
		int rank = ranks[i];

		if (rank < 0 || rank >= parent->size)
			err = rd_fail(RONDO_INVALID, "%s: there is no rank %d of %d", function,
				rank, parent->size);
		else if (listed[rank])
			err = rd_fail(RONDO_INVALID, "%s: rank %d is listed twice", function, rank);
		else
			listed[rank] = true;
	}
	if (!err && !listed[parent->rank])
		err = rd_fail(RONDO_INVALID, "%s: rank %d calls it, and is not listed", function,
			parent->rank);
	free(listed);
	return err;
}

/* Reasons have the numbers in the new comm: the list tells the parent's. */
static int fail(int err, const int *ranks, int count)
{
	char list[128];
	int size = 0;

	for (int i = 0; i < count && size < (int)sizeof(list) - 24; i++)
		size += sprintf(list + size, "%s%d", i ? ", " : "", ranks[i]);
	return rd_fail(err, "the comm of ranks %s%s: %s", list,
		size < (int)sizeof(list) - 24 ? "" : ", ...", rondo_last_error());
}

/* The order of the calls counts: each of the same list and tag has a purpose of its own. */
static int count_call(rondo_comm *parent, const int *ranks, int count, int tag,
	const char *function, uint64_t *purpose)
{
	int err = atomic_load(&parent->failed) ? rd_comm_failure(parent)
					       : check_ranks(parent, ranks, count, function);
	int64_t times;

	if (err)
		return err;
	*purpose = (uint64_t)(unsigned)tag;
	times = count_use(parent, make_id(parent, ranks, count, *purpose));
	*purpose |= (uint64_t)times << 32;
	return times < 0 ? rd_fail(RONDO_MEMORY, "%s: no memory to count groups", function) : 0;
}

int rondo_comm_create_group(
	rondo_comm *parent, const int *ranks, int count, int tag, rondo_comm **comm)
{
	static const char function[] = "rondo_comm_create_group";
	int err = rd_comm_check_origin(parent, comm, function);
	uint64_t purpose;

	if (!err)
		err = count_call(parent, ranks, count, tag, function, &purpose);
	if (err)
		return err;
	err = rd_comm_make_group(parent, ranks, count, purpose, comm);
	return err ? fail(err, ranks, count) : 0;
}

/* ---- Without blocking ----------------------------------------------------------------------- */

struct arguments {
	struct group group;
	int count, ranks[];
};

/* If the resolver's call outlasts a cancellation, the parent may be freed: all that follows fails
   before it reads the parent. */
static int make_in_thread(rondo_comm **comm, void *argument)
{
	struct arguments *arguments = argument;
	int err = make(&arguments->group, comm);

	return err ? fail(err, arguments->ranks, arguments->count) : 0;
}

static int begin(rondo_creation **creation, rondo_comm *parent, const int *ranks, int count,
	uint64_t purpose)
{
	size_t size = (size_t)count * sizeof(*ranks);
	struct arguments *arguments = calloc(1, sizeof(*arguments) + size);
	struct rd_creation_work work = { .make = make_in_thread, .arguments = arguments };
	int err;

	if (!arguments)
		return rd_fail(RONDO_MEMORY, "no memory for the creation of a comm");
	plan(&arguments->group, parent, ranks, count, purpose);
	rd_creation_choose_device(&arguments->group.settings);
	arguments->count = count;
	memcpy(arguments->ranks, ranks, size);
	work.rank = arguments->group.settings.rank;
	err = rd_creation_begin(creation, &work);
	if (!err)
		return 0;
	rd_settings_forget(&arguments->group.settings);
	free(arguments);
	return err;
}

int rondo_comm_create_group_begin(
	rondo_comm *parent, const int *ranks, int count, int tag, rondo_creation **creation)
{
	static const char function[] = "rondo_comm_create_group_begin";
	rondo_comm *none;
	uint64_t purpose;
	int err;

	if (!creation)
		return rd_fail(RONDO_INVALID, "%s: creation is NULL", function);
	*creation = NULL;
	err = rd_comm_check_origin(parent, &none, function);
	if (!err)
		err = count_call(parent, ranks, count, tag, function, &purpose);
	return err ? err : begin(creation, parent, ranks, count, purpose);
}
