/*
 * Checks of calls: each rank sends each other the signature of its call, in the tag of a message,
 * and facts that must fit. The call itself comes next. So a difference is found at the call, on
 * every rank, whatever its messages would have shown. Checked are
 *
 *   - all collectives with RONDO_CHECK=1;
 *   - the first of each collective and root where plug-ins bring algorithms: whether these write
 *     the same plans in each process. Each proves the plans that it writes itself (proof.h).
 */
#ifndef RD_CALL_CHECK_H
#define RD_CALL_CHECK_H

#include "exec/exec.h"
#include "plan/peer_set.h"

struct rondo_comm;

/* The memory of a call's buffers. */
#define RD_MEMORY_NONE 0
#define RD_MEMORY_HOST 1
#define RD_MEMORY_DEVICE 2

/* The facts of one rank's call. */
struct rd_call_facts {
	uint64_t plans; /* digest of plug-ins' plans for it; 0: they are not compared */
	/* Where only two ranks have a block's length: digests of the lengths that this rank gives,
	   and of those that it wants. Their sums over all ranks are equal. */
	uint64_t given, wanted;
	uint32_t op; /* number of the user operation; 0: none */
	uint32_t memory; /* RD_MEMORY_ something */
};

struct rd_call_check {
	struct rd_plan *plan;
	const struct rd_plan *plans[1];
	struct rd_peer_set peers; /* of the plan */
	uint64_t *send_marks;
	struct rd_exec exec;
	struct rd_call_facts mine, *all; /* [size] */
	/* [collective * size + root]: plug-ins' plans have been compared. NULL: no plug-in brings
	   algorithms. */
	unsigned char *compared;
};

/* Call after rd_connect(). */
int rd_call_check_create(struct rondo_comm *comm);
void rd_call_check_destroy(struct rondo_comm *comm);

/* Whether a call is to be checked; the same on every rank that makes the same calls. */
bool rd_call_check_is_due(const struct rondo_comm *comm, const struct rd_call *call);

/* Begins the check, whose *exec the caller runs to its end. Returns 0 or an error. */
int rd_call_check_begin(
	struct rondo_comm *comm, const struct rd_call *call, bool on_device, struct rd_exec **exec);

/*
 * Ends the check. Returns RONDO_MISMATCH, the same on every rank, where the calls or plans
 * differ. *misfits: they fit but for the length of a block, in which two ranks differ. One of these
 * finds it when it runs the call, and names both.
 */
int rd_call_check_end(struct rondo_comm *comm, const struct rd_call *call, bool *misfits);

#endif
