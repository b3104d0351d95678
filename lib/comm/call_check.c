#include "comm/call_check.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"
#include "check/proof.h"
#include "comm/comm.h"
#include "exec/algorithms.h"
#include "exec/exec_init.h"
#include "mesh/mesh.h"
#include "tuner/eligible.h"

_Static_assert(sizeof(struct rd_call_facts) <= 64, "the least RONDO_PIECE");

static int make(struct rondo_comm *comm, bool has_plugins)
{
	struct rd_call_check *check = comm->check;
	struct rd_problem problem = {
		.collective = RD_ALL_GATHER, .rank = comm->rank, .size = comm->size
	};
	int err = rd_plan_create(&check->plan, &rd_buffer_exchange_plan, &problem);

	if (err)
		return err;
	check->plans[0] = check->plan;
	err = rd_peer_set_of_plans(&check->peers, check->plans, 1);
	if (err)
		return err;
	check->send_marks =
		calloc(rd_exec_send_mark_count(check->plans, 1) + 1, sizeof(*check->send_marks));
	check->all = calloc((size_t)comm->size, sizeof(*check->all));
	if (has_plugins)
		check->compared = calloc(RD_COLLECTIVE_COUNT, (size_t)comm->size);
	if (!check->send_marks || !check->all || (has_plugins && !check->compared))
		return rd_fail(RONDO_MEMORY, "no memory for a comm of %d ranks", comm->size);
	return 0;
}

int rd_call_check_create(struct rondo_comm *comm)
{
	bool has_plugins = *comm->settings.plugins;

	if (!has_plugins && !comm->settings.check)
		return 0;
	comm->check = calloc(1, sizeof(*comm->check));
	if (!comm->check)
		return rd_fail(RONDO_MEMORY, "no memory to check calls");
	return make(comm, has_plugins);
}

void rd_call_check_destroy(struct rondo_comm *comm)
{
	struct rd_call_check *check = comm->check;

	if (!check)
		return;
	rd_plan_destroy(check->plan);
	rd_peer_set_finish(&check->peers);
	free(check->send_marks);
	free(check->all);
	free(check->compared);
	free(check);
}

static unsigned char *compared(const struct rondo_comm *comm, const struct rd_problem *problem)
{
	return &comm->check->compared[(size_t)problem->collective * (size_t)comm->size +
				      (size_t)problem->root];
}

static bool is_to_compare(const struct rondo_comm *comm, const struct rd_problem *problem)
{
	return comm->check->compared && !*compared(comm, problem);
}

bool rd_call_check_is_due(const struct rondo_comm *comm, const struct rd_call *call)
{
	return comm->check && call->problem.collective != RD_TRANSFER &&
	       (comm->settings.check || is_to_compare(comm, &call->problem));
}

/* ---- This rank's facts ---------------------------------------------------------------------- */

/* By each layout of the channels. */
static int add_plans(const struct rondo_comm *comm, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem, uint64_t *digest)
{
	struct rd_problem here = *problem;
	int err = 0;

	for (int channel = 0; channel < comm->channels && !err; channel++) {
		if (channel > 0 && here.layout == comm->layouts[channel])
			continue;
		here.layout = comm->layouts[channel];

		int able = rd_algorithm_can(algorithm, &here);

		*digest = rd_hash(*digest, &able, sizeof(able));
		err = able > 0 ? rd_proof_add_plans(algorithm, &here, digest) : able;
	}
	return err;
}

static int digest_plans(
	const struct rondo_comm *comm, const struct rd_problem *problem, uint64_t *digest)
{
	int err = 0;

	*digest = RD_HASH_INIT;
	for (int i = 0; rd_algorithms[i] && !err; i++)
		if (rd_algorithms[i]->write[problem->collective] &&
			rd_proof_is_demanded(rd_algorithms[i]))
			err = add_plans(comm, rd_algorithms[i], problem, digest);
	return err;
}

static uint64_t digest_length(int block, size_t size)
{
	const uint64_t words[] = { (uint64_t)block, size };

	return rd_hash(RD_HASH_INIT, words, sizeof(words));
}

/* A rank's block for itself has one length, not two. */
static void digest_lengths(const struct rd_call *call, struct rd_call_facts *facts)
{
	const struct rd_problem *problem = &call->problem;

	for (int block = 0; block < rd_blocks(problem); block++) {
		int in = rd_in_block(problem, block), out = rd_out_block(problem, block);

		if (in >= 0 && out < 0)
			facts->given += digest_length(block, call->vcounts->in[in].size);
		if (out >= 0 && in < 0)
			facts->wanted += digest_length(block, call->vcounts->out[out].size);
	}
}

/* A rank whose blocks are all empty gives no memory. */
static uint32_t memory_of(const struct rd_call *call, bool on_device)
{
	bool gives = rd_call_in_size(call) > 0 || rd_call_out_size(call) > 0;

	return !gives ? RD_MEMORY_NONE : on_device ? RD_MEMORY_DEVICE : RD_MEMORY_HOST;
}

/* ---- The check ------------------------------------------------------------------------------ */

int rd_call_check_begin(
	struct rondo_comm *comm, const struct rd_call *call, bool on_device, struct rd_exec **exec)
{
	struct rd_call_check *check = comm->check;
	struct rd_call exchange = *call;
	int err = 0;

	check->mine = (struct rd_call_facts){ .memory = memory_of(call, on_device),
		.op = call->user_op ? call->user_op->serial + 1 : 0 };
	if (call->vcounts && call->vcounts->pairwise)
		digest_lengths(call, &check->mine);
	if (is_to_compare(comm, &call->problem))
		err = digest_plans(comm, &call->problem, &check->mine.plans);
	if (err)
		return err;
	exchange.vcounts = NULL;
	exchange.user_op = NULL;
	exchange.problem = check->plan->problem;
	exchange.type = RONDO_U64;
	exchange.op = RONDO_SUM;
	exchange.count = sizeof(check->mine) / sizeof(uint64_t);
	exchange.full_count = 0;
	exchange.in = &check->mine;
	exchange.out = check->all;
	rd_exec_init(&check->exec, check->plans, &exchange, comm->links, 1, 2 * sizeof(check->mine),
		NULL, check->send_marks);
	check->exec.stride = comm->channels;
	/* Ranks compare the signature of the user's call. With vcounts its count is a mean. */
	check->exec.signature = rd_signature_of(call);
	if (call->vcounts)
		check->exec.signature.count = 0;
	*exec = &check->exec;
	return 0;
}

/* The first rank that gives this memory; -1: none does. */
static int first_with(const struct rd_call_check *check, int size, uint32_t memory)
{
	for (int rank = 0; rank < size; rank++)
		if (check->all[rank].memory == memory)
			return rank;
	return -1;
}

static int memories_differ(const struct rd_call_check *check, int size)
{
	int host = first_with(check, size, RD_MEMORY_HOST);
	int device = first_with(check, size, RD_MEMORY_DEVICE);
	char name[128];

	if (host < 0 || device < 0)
		return 0;
	rd_signature_print(&check->exec.signature, name, sizeof(name));
	return rd_fail(RONDO_MISMATCH, "rank %d gives device memory in %s, rank %d host memory",
		device, name, host);
}

static int facts_differ(const struct rd_call_check *check, const struct rd_call *call, int rank)
{
	const struct rd_call_facts *first = &check->all[0], *other = &check->all[rank];
	char name[128];

	rd_signature_print(&check->exec.signature, name, sizeof(name));
	if (first->op != other->op)
		return rd_fail(RONDO_MISMATCH,
			"ranks made different calls: rank 0 %s with operation #%u, rank %d with #%u",
			name, first->op, rank, other->op);
	if (first->plans != other->plans)
		return rd_fail(RONDO_MISMATCH,
			"rank 0 and rank %d write different plans for %s on %d ranks by algorithms "
			"of plug-ins: a plan must follow from its problem alone. Leave "
			"RONDO_ALGO_PLUGIN out",
			rank, rd_collective_name(call->problem.collective), call->problem.size);
	return 0;
}

int rd_call_check_end(struct rondo_comm *comm, const struct rd_call *call, bool *misfits)
{
	const struct rd_call_check *check = comm->check;
	uint64_t given = 0, wanted = 0;
	int err = memories_differ(check, comm->size);

	for (int rank = 0; rank < comm->size && !err; rank++) {
		given += check->all[rank].given;
		wanted += check->all[rank].wanted;
		err = facts_differ(check, call, rank);
	}
	*misfits = given != wanted;
	if (!err && check->compared)
		*compared(comm, &call->problem) = 1;
	return err;
}
