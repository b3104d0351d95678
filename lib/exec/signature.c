#include "exec/signature.h"

#include <stdio.h>
#include <string.h>

#include "exec/algorithms.h"
#include "base/error.h"
#include "plan/plan.h"
#include "rondo/transport.h"

_Static_assert(sizeof(struct rd_signature) == RD_TAG_SIZE, "a signature is a link's whole tag");

/* The op of a signature for a user-defined operation. */
#define OP_OWN 0x80
#define OP_SCALES 0x40 /* the operation is a pre-multiplied sum */
#define OP_SERIAL 0x3f

void rd_signature_add_unusual(struct rd_signature *signature, const struct rd_call *call)
{
	const struct rd_user_op *op = call->user_op;

	if (op)
		signature->op = OP_OWN | (op->combine ? 0 : OP_SCALES) | (op->serial & OP_SERIAL);
	if (!call->vcounts)
		return;
	signature->form = RD_FORM_VCOUNTS;
	if (!call->vcounts->pairwise)
		signature->root = call->vcounts->digest;
}

struct rd_signature rd_signature_of(const struct rd_call *call)
{
	struct rd_signature signature = rd_signature_of_ordinary(call);

	if (!rd_call_is_ordinary(call))
		rd_signature_add_unusual(&signature, call);
	return signature;
}

static int describe_op(uint8_t op, char *text, size_t size)
{
	if (op < RONDO_OP_COUNT)
		return snprintf(text, size, " %s", rondo_op_name(op));
	return snprintf(text, size, " with %s #%u",
		op & OP_SCALES ? "pre-multiplied sum" : "operation", (op & OP_SERIAL) + 1u);
}

void rd_signature_print(const struct rd_signature *s, char *text, size_t size)
{
	bool has_vcounts = s->form & RD_FORM_VCOUNTS;
	int used =
		snprintf(text, size, "%s%s%s #%u", s->form & RD_FORM_CAPTURED ? "a captured " : "",
			rd_collective_name(s->collective), has_vcounts ? "_v" : "", s->number);

	if (s->collective == RD_BARRIER)
		return; /* no data */
	used += snprintf(text + used, size - used, " of ");
	if (!has_vcounts)
		used += snprintf(text + used, size - used, "%llu ", (unsigned long long)s->count);
	used += snprintf(text + used, size - used, "%s", rondo_type_name(s->type));
	if (rd_collective_reduces(s->collective))
		used += describe_op(s->op, text + used, size - used);
	if (rd_collective_has_root(s->collective))
		snprintf(text + used, size - used, " root %u", s->root);
}

/* Whether only two ranks have a block's length; else `root` is a digest of all lengths. */
static bool is_pairwise(const struct rd_signature *signature)
{
	return signature->collective != RD_ALL_GATHER && signature->collective != RD_REDUCE_SCATTER;
}

/* The same v-call, with counts that do not match. */
static int counts_differ(const struct rd_call *call, int parts, int peer,
	const struct rd_signature *theirs, const struct rd_signature *ours)
{
	const char *name = rd_collective_name(ours->collective);
	const char *type = rondo_type_name(ours->type);
	int rank = call->problem.rank, block = ours->chunk / parts;

	if (is_pairwise(ours))
		return rd_fail(RONDO_MISMATCH,
			"rank %d sends %llu %s to rank %d in %s_v #%u, which expects %llu", peer,
			(unsigned long long)theirs->count, type, rank, name, ours->number,
			(unsigned long long)ours->count);
	if (theirs->chunk == ours->chunk && theirs->count != ours->count)
		return rd_fail(RONDO_MISMATCH,
			"%s_v #%u: rank %d was told that rank %d's block has %llu %s, rank %d that "
			"it has %llu",
			name, ours->number, peer, block, (unsigned long long)theirs->count, type,
			rank, (unsigned long long)ours->count);
	return rd_fail(RONDO_MISMATCH, "%s_v #%u: rank %d and rank %d were given different counts",
		name, ours->number, peer, rank);
}

static const char *algorithm_of(const struct rd_signature *signature)
{
	int mark = signature->form / RD_FORM_ALGORITHM;

	for (int i = 0; rd_algorithms[i]; i++)
		if (rd_algorithm_mark(rd_algorithms[i]->name) == mark)
			return rd_algorithms[i]->name;
	return mark ? "an algorithm that is not known here" : "no algorithm";
}

/* The causes of different plans were compared when the ranks met. */
#define ONE_BUILD "their settings are the same, so check that all ranks run one build of Rondo"

/* The same call, which the two ranks run by different plans. */
static int plans_differ(const struct rd_call *call, int peer, const struct rd_signature *theirs,
	const struct rd_signature *ours, size_t sent, size_t wanted)
{
	int rank = call->problem.rank;
	bool they_exchange = theirs->form & RD_FORM_EXCHANGES_BUFFERS;
	char name[128];

	rd_signature_print(ours, name, sizeof(name));
	if ((theirs->form ^ ours->form) & RD_FORM_EXCHANGES_BUFFERS)
		return rd_fail(RONDO_MISMATCH,
			"rank %d first asks all ranks in %s where their buffers lie, for direct "
			"access, and rank %d does not: " ONE_BUILD,
			they_exchange ? peer : rank, name, they_exchange ? rank : peer);
	if (theirs->form != ours->form)
		return rd_fail(RONDO_MISMATCH, "rank %d runs %s by %s, rank %d by %s: " ONE_BUILD,
			peer, name, algorithm_of(theirs), rank, algorithm_of(ours));
	if (theirs->chunk != ours->chunk)
		return rd_fail(RONDO_MISMATCH,
			"rank %d sent chunk %u where rank %d expects chunk %u in %s, both by "
			"%s: " ONE_BUILD,
			peer, theirs->chunk, rank, ours->chunk, name, algorithm_of(ours));
	return rd_fail(RONDO_MISMATCH,
		"rank %d sent %zu bytes where rank %d expects %zu of chunk %u in %s, both by "
		"%s: " ONE_BUILD,
		peer, sent, rank, wanted, ours->chunk, name, algorithm_of(ours));
}

int rd_signature_mismatch(const struct rd_call *call, int parts, int peer,
	const struct rd_signature *theirs, const struct rd_signature *ours, size_t sent,
	size_t wanted)
{
	char there[128], here[128];

	rd_signature_print(theirs, there, sizeof(there));
	rd_signature_print(ours, here, sizeof(here));
	/* The digests differ, or the lengths of one block. Other counts may have led to another
	   plan. */
	if (strcmp(there, here) == 0 && ours->form & RD_FORM_VCOUNTS &&
		(theirs->root != ours->root ||
			(theirs->chunk == ours->chunk && theirs->count != ours->count)))
		return counts_differ(call, parts, peer, theirs, ours);
	if (strcmp(there, here) != 0)
		return rd_fail(RONDO_MISMATCH, "ranks made different calls: rank %d %s, rank %d %s",
			peer, there, call->problem.rank, here);
	return plans_differ(call, peer, theirs, ours, sent, wanted);
}

bool rd_signature_mismatches(const struct rd_signature *theirs, const struct rd_signature *ours)
{
	bool has_vcounts = ours->form & RD_FORM_VCOUNTS;

	return theirs->number == ours->number && theirs->collective != RD_TRANSFER &&
	       (theirs->collective != ours->collective ||
		       (theirs->form ^ ours->form) & RD_FORM_VCOUNTS ||
		       theirs->type != ours->type || theirs->op != ours->op ||
		       theirs->root != ours->root ||
		       (!has_vcounts && theirs->count != ours->count));
}
