/*
 * Growing a comm by newcomers. The ranks of the comm agree on the size, and get rank 0's unique id.
 * Then they make the new comm with the newcomers, which call rondo_comm_create(). Last, they
 * exchange their results, so that all return the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/communicator.h"
#include "api/group.h"
#include "base/error.h"
#include "bootstrap/unique_id.h"
#include "secure/secret.h"

/* One rank's part in the exchanges. */
struct part {
	int32_t error, size, has_id;
	union {
		struct rondo_unique_id id;
		char reason[RD_REASON_SIZE];
	};
};

static int exchange(rondo_comm *comm, const struct part *mine, struct part *all)
{
	return rondo_all_gather(comm, mine, all, sizeof(*mine), RONDO_U8, NULL);
}

/* The arguments of all ranks: each finds the same fault. */
static int check_parts(const rondo_comm *comm, const struct part *all)
{
	for (int rank = 0; rank < comm->size; rank++) {
		if (all[rank].size != all[0].size)
			return rd_fail(RONDO_MISMATCH,
				"rondo_comm_grow: rank 0 wants %d ranks, rank %d %d", all[0].size,
				rank, all[rank].size);
		if (all[rank].has_id != (rank == 0))
			return rd_fail(RONDO_INVALID,
				"rondo_comm_grow: rank 0 gives the unique id, all others NULL; rank "
				"%d does not",
				rank);
	}
	if (all[0].size > comm->size && all[0].size <= RD_SIZE_MAX)
		return 0;
	return rd_fail(RONDO_INVALID,
		"rondo_comm_grow: %d ranks grow to more, and %d at most, not to %d", comm->size,
		RD_SIZE_MAX, all[0].size);
}

/* The secret's key derives from the id: the listener of the comm's job has another. */
static int make(rondo_comm *comm, const struct part *first, rondo_comm **made)
{
	struct rd_settings settings = comm->settings;
	struct rd_comm_origin origin = { .parent = comm->control };
	int err;

	settings.size = first->size;
	settings.rendezvous_fd = -1;
	settings.has_psk = false;
	err = rd_unique_id_meet(&settings, &first->id);
	if (!err)
		err = rd_secret_find(&settings);
	if (!err)
		err = rd_comm_make(made, &settings, &origin);
	rd_settings_forget(&settings);
	return err;
}

static int run(rondo_comm *comm, struct part *mine, struct part *all, rondo_comm **made)
{
	bool differs = true;
	int err = rd_comm_agree_on_memory(comm, all, &differs, "rondo_comm_grow");

	if (!err)
		err = exchange(comm, mine, all);
	if (!err)
		err = check_parts(comm, all);
	if (err)
		return err;
	*mine = (struct part){ .error = make(comm, &all[0], made) };
	if (mine->error)
		snprintf(mine->reason, sizeof(mine->reason), "%s", rondo_last_error());
	err = exchange(comm, mine, all);
	for (int rank = 0; rank < comm->size && !err; rank++) {
		all[rank].reason[RD_REASON_SIZE - 1] = '\0';
		if (all[rank].error)
			err = rd_fail(all[rank].error, "rank %d could not grow: %s", rank,
				all[rank].reason);
	}
	return err;
}

static int grow(rondo_comm *comm, int size, const struct rondo_unique_id *id, rondo_comm **grown)
{
	struct part mine = { .size = size, .has_id = id != NULL };
	struct part *all = calloc((size_t)comm->size, sizeof(*all));
	int err;

	if (id)
		mine.id = *id;
	comm->calls_itself = true;
	err = run(comm, &mine, all, grown);
	comm->calls_itself = false;
	free(all);
	return err ? rd_comm_give_up(grown, err) : 0;
}

int rondo_comm_grow(
	rondo_comm *comm, int size, const struct rondo_unique_id *id, rondo_comm **grown)
{
	int err = rd_comm_check_origin(comm, grown, "rondo_comm_grow");

	return err ? err : grow(comm, size, id, grown);
}
