/*
 * Making a comm of some ranks of another one, which they alone call. The id of the new comm follows
 * from the parent's, the ranks and the purpose, so nothing is exchanged before they meet: each
 * greets with the id at the place of the first rank, which holds it until its own call.
 */
#include "api/create_group.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/communicator.h"
#include "base/error.h"
#include "base/hash.h"

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

int rd_comm_make_group(
	rondo_comm *parent, const int *ranks, int count, uint64_t purpose, rondo_comm **made)
{
	struct rd_settings settings = parent->settings;
	struct rd_comm_origin origin = { .parent = parent };
	int err;

	settings.rendezvous_fd = -1;
	settings.size = count;
	settings.rank = 0;
	while (ranks[settings.rank] != parent->rank)
		settings.rank++;
	if (count > 1) {
		origin.group = make_id(parent, ranks, count, purpose);
		rd_lineage_meet(&settings, &rd_control_members(parent->control)[ranks[0]].lineage);
	}
	err = rd_comm_make(made, &settings, &origin);
	rd_settings_forget(&settings);
	return err;
}

/* ---- The call ------------------------------------------------------------------------------- */

static int check_ranks(const rondo_comm *parent, const int *ranks, int count)
{
	static const char function[] = "rondo_comm_create_group";
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
	char reason[RD_REASON_SIZE], list[128];
	int size = 0;

	for (int i = 0; i < count && size < (int)sizeof(list) - 24; i++)
		size += sprintf(list + size, "%s%d", i ? ", " : "", ranks[i]);
	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	return rd_fail(err, "the comm of ranks %s%s: %s", list,
		size < (int)sizeof(list) - 24 ? "" : ", ...", reason);
}

int rondo_comm_create_group(
	rondo_comm *parent, const int *ranks, int count, int tag, rondo_comm **comm)
{
	int err = rd_comm_check_origin(parent, comm, "rondo_comm_create_group");
	uint64_t purpose = (uint64_t)(unsigned)tag;
	int64_t times;

	if (!err && atomic_load(&parent->failed))
		err = rd_comm_failure(parent);
	if (!err)
		err = check_ranks(parent, ranks, count);
	if (err)
		return err;
	times = count_use(parent, make_id(parent, ranks, count, purpose));
	if (times < 0)
		return rd_fail(RONDO_MEMORY, "rondo_comm_create_group: no memory to count groups");
	err = rd_comm_make_group(parent, ranks, count, purpose | (uint64_t)times << 32, comm);
	return err ? fail(err, ranks, count) : 0;
}
