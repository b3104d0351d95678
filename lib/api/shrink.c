/*
 * Shrinking a failed comm to the ranks that are left. They meet, and agree on who they are
 * (bootstrap/shrink/shrink.h). They make the new comm as any is made. If a rank dies meanwhile,
 * they give it up, and begin again.
 */
#include "api/communicator.h"
#include "base/log.h"
#include "bootstrap/shrink/shrink.h"

static bool has(const rondo_comm *made, const struct rd_member *member)
{
	const struct rd_member *members = made->control ? rd_control_members(made->control) : NULL;

	for (int rank = 0; rank < made->size && members; rank++)
		if (members[rank].lineage.origin == member->lineage.origin)
			return true;
	return false;
}

/* Ranks that the others went on without are lost here, too: they do not get in later. */
static void lose_absent(const rondo_comm *comm, const rondo_comm *made)
{
	const struct rd_member *members = rd_control_members(comm->control);

	for (int rank = 0; rank < comm->size; rank++)
		if (rank != comm->rank && !has(made, &members[rank]) &&
			rd_control_presence(comm->control, rank) < RD_LOST)
			rd_control_set_presence(comm->control, rank, RD_LOST);
}

static int make_once(rondo_comm *comm, struct rd_shrink *shrink, rondo_comm **made)
{
	struct rd_comm_origin origin = { .shared = comm->shared,
		.lineage = rd_control_lineage(comm->control) };
	struct rd_settings settings;
	int err = rd_shrink_meet(shrink, &settings);

	if (err)
		return err;
	err = rd_comm_make(made, &settings, &origin);
	rd_settings_forget(&settings);
	if (!err)
		lose_absent(comm, *made);
	err = rd_shrink_agree(shrink, err, err ? NULL : (*made)->control);
	/* 1 is no error: the ranks begin again. */
	if (err)
		rd_comm_give_up(made, err > 0 ? RONDO_DIED : err);
	return err;
}

static int shrink_comm(rondo_comm *comm, rondo_comm **made)
{
	struct rd_shrink *shrink;
	int err = rd_shrink_create(
		&shrink, &comm->settings, comm->control, &comm->vote, rd_comm_timeout_ms(comm));

	if (err)
		return err;
	do
		err = make_once(comm, shrink, made);
	while (err > 0);
	rd_shrink_destroy(shrink);
	if (err)
		return err;
	rd_control_end_lineage(comm->control);
	rd_log(RD_INFO, RD_BOOTSTRAP, "comm %p of %d ranks shrank to comm %p: rank %d of %d",
		(void *)comm, comm->size, (void *)*made, (*made)->rank, (*made)->size);
	return 0;
}

static int shrink_alone(rondo_comm *comm, rondo_comm **made)
{
	struct rd_settings settings = comm->settings;
	int err;

	settings.rendezvous_fd = -1;
	err = rd_comm_make(made, &settings, &(struct rd_comm_origin){ .lineage = &comm->alone });
	rd_settings_forget(&settings);
	return err;
}

int rondo_comm_shrink(rondo_comm *comm, rondo_comm **shrunk)
{
	int err = rd_comm_check_origin(comm, shrunk, "rondo_comm_shrink");

	if (!err && comm->finalized)
		err = rd_comm_failure(comm);
	if (err)
		return err;
	if (!rd_comm_enter(comm))
		return rd_comm_refuse_second(comm, "rondo_comm_shrink");
	if (!atomic_load(&comm->failed))
		rondo_comm_revoke(comm, "to shrink it");
	err = comm->control ? shrink_comm(comm, shrunk) : shrink_alone(comm, shrunk);
	rd_comm_exit(comm);
	return err;
}
