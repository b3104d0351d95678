/* The creation of a comm (comm/comm.h), for the functions that create one. */
#ifndef RD_COMMUNICATOR_H
#define RD_COMMUNICATOR_H

#include "comm/comm.h"

/* A rank finds these out for a comm, and not again for a group of its ranks. */
struct rd_findings {
	struct rd_place place; /* of this rank */
	struct rd_processors processors;
	struct rd_costs costs; /* the same on all ranks, as are the rows */
	struct rd_tuner_rows rows;
	/* The limits of links over these; piece_size 0: those of the group may differ. */
	struct rd_link_limits limits;
	const struct rd_transport *transports[RD_TRANSPORTS_MAX];
	int transport_count;
};

/* The comm that a new one comes from. */
struct rd_comm_origin {
	struct rd_control *parent; /* its failure ends the creation; NULL: none */
	struct rd_shared *shared; /* the parent's; NULL: none */
	uint64_t group; /* the id of the new comm, a group of the parent's ranks; 0: it is none */
	const struct rd_findings *findings; /* the parent's, of a group; NULL: it is none */
	const struct rd_lineage *lineage; /* of the comm that has shrunk; NULL: none has */
};

/* Creates a comm of complete settings; takes over their rendezvous_fd. Returns 0 or an error. */
int rd_comm_make(struct rondo_comm **comm, const struct rd_settings *settings,
	const struct rd_comm_origin *origin);

/*
 * rondo_comm_create() once the settings are read. invalid: the error of that, whose reason is
 * recorded; 0: none. The config says where the ranks meet: of its texts, the address alone is read.
 */
int rd_comm_create(struct rondo_comm **comm, struct rd_settings *settings,
	const struct rondo_config *config, int invalid);

/*
 * meet.c. Sets address, port and rendezvous_fd of settings that were read: by the program's unique
 * id, over PMI, or at the socket that a launcher opened. Otherwise they stay as they are. In rank
 * 0, rendezvous_fd is then the new comm's own. Waits for the other ranks where that takes PMI.
 */
int rd_meet_where(struct rd_settings *settings, const struct rondo_config *config);
/* Meets the other ranks, connects to each, and finds the costs. Returns 0 or an error. */
int rd_meet(struct rondo_comm *comm, const struct rd_identity *self,
	const struct rd_comm_origin *origin);
/* Those that it has made. */
void rd_meet_destroy_layouts(struct rondo_comm *comm);

/* Waits until all calls that this rank has issued have ended. */
void rd_comm_wait_for_calls(struct rondo_comm *comm);

/* Where some rank could not make *made, none keeps it: ends and frees it, so that no rank waits for
   another there, and sets it to NULL, which it may be before. Returns err, with its reason. */
int rd_comm_give_up(struct rondo_comm **made, int err);

/* Refuses a NULL, an open group and a forked child, for a function that makes a comm of another;
   sets *made to NULL. */
int rd_comm_check_origin(
	const struct rondo_comm *comm, struct rondo_comm **made, const char *function);

/* The first call of such a function, which allocates nothing: whether all ranks have the memory
   for the rest, and whether the arguments of any differ from the usual ones. Other ranks may make
   another call: the error then says where this rank was. */
int rd_comm_agree_on_memory(rondo_comm *comm, bool has_memory, bool *differs, const char *function);

/*
 * Makes the comm of these ranks of the parent, this one among them, in their order. They meet at
 * the place of the first. purpose: another one each time that the same ranks make a comm; the same
 * on all of them. Returns 0 or an error.
 */
int rd_comm_make_group(
	rondo_comm *parent, const int *ranks, int count, uint64_t purpose, rondo_comm **made);

/* ---- A creation that need not block: a thread makes the comm, and any thread may cancel it --- */

/* The way of making a comm. */
struct rd_creation_work {
	int rank; /* in the new comm */
	/* Called once, in the creation's thread, with the arguments; returns 0 or an error. Its
	   waits end when the creation is cancelled (base/cancellation.h). */
	int (*make)(rondo_comm **comm, void *arguments);
	void *arguments; /* freed once make() has returned */
};

/* Takes over the arguments, unless it fails. Returns 0 or an error. */
int rd_creation_begin(rondo_creation **creation, const struct rd_creation_work *work);

/* Where no device is set, it becomes the calling thread's current one, if there is one. */
void rd_creation_choose_device(struct rd_settings *settings);

#endif
