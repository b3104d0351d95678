/*
 * A rank runs its steps in order, and a send does not wait: so a node comes behind the last receive
 * or reduction before it, and a send also behind those that made its value. FLUSH steps wait for
 * sends.
 */
#include "chakra.h"

#include <limits.h>
#include <stdlib.h>

#include "base/error.h"
#include "chakra_node.h"
#include "exec/slice.h"
#include "files.h"

/* Ids of nodes. */
struct ids {
	uint64_t *list;
	size_t count;
};

struct writer {
	const struct rd_plan *plan;
	FILE *out;
	struct rd_exec exec; /* how it cuts blocks */
	size_t piece;
	uint64_t next; /* the next node's id; ids count from 1 */
	uint64_t last; /* receive or reduction; 0: none yet */
	uint64_t *values; /* by chunk: the node that made its present value; 0: none */
	uint64_t *sends; /* by step: the node that sends */
	struct ids flushed; /* sends that the next receive waits for */
	struct ids parts; /* [ranks]: received messages that are still to be added */
	int *sent, *received; /* by peer: messages */
};

static void add_id(struct ids *ids, uint64_t id)
{
	if (id > 0)
		ids->list[ids->count++] = id;
}

/* ASTRA-sim's networks refuse messages without bytes, as those of a barrier are. */
static int64_t message_bytes(const struct writer *writer, int chunk)
{
	size_t bytes = rd_slice_count(&writer->exec, chunk, writer->piece);

	return bytes > 0 ? (int64_t)bytes : 1;
}

static int put(struct writer *writer, struct chakra_node *node, const char *verb, int chunk)
{
	char name[64];

	snprintf(name, sizeof(name), "%s chunk %d piece %zu", verb, chunk, writer->piece);
	node->name = name;
	node->id = writer->next++;
	return chakra_put(node, writer->out);
}

/* Puts a node that waits for the last one, and for the sends that are to be flushed. */
static int put_in_order(
	struct writer *writer, struct chakra_node *node, const char *verb, int chunk)
{
	struct ids *deps = &writer->flushed;
	size_t count = deps->count;
	int err;

	if (node->data_dep_count == 0 || node->data_deps[0] != writer->last)
		add_id(deps, writer->last);
	node->ctrl_deps = deps->list;
	node->ctrl_dep_count = deps->count;
	err = put(writer, node, verb, chunk);
	deps->count = count;
	return err;
}

static int put_send(struct writer *writer, const struct rd_step *step)
{
	uint64_t *value = &writer->values[step->chunk];
	struct chakra_node node = CHAKRA_NODE;

	node.type = CHAKRA_SEND;
	node.data_deps = value;
	node.data_dep_count = *value > 0;
	node.comm_src = writer->plan->problem.rank;
	node.comm_dst = step->to;
	node.comm_tag = writer->sent[step->to]++;
	node.comm_size = message_bytes(writer, step->chunk);
	writer->sends[step - writer->plan->steps] = writer->next;
	return put_in_order(writer, &node, "send", step->chunk);
}

static int put_receive(struct writer *writer, const struct rd_step *step)
{
	struct chakra_node node = CHAKRA_NODE;
	int err;

	node.type = CHAKRA_RECV;
	node.comm_src = step->peer;
	node.comm_dst = writer->plan->problem.rank;
	node.comm_tag = writer->received[step->peer]++;
	node.comm_size = message_bytes(writer, step->chunk);
	err = put_in_order(writer, &node, "receive", step->chunk);
	writer->flushed.count = 0;
	writer->last = node.id;
	add_id(&writer->parts, node.id);
	return err;
}

/* Adds the messages that came to the chunk's value. */
static int put_reduction(struct writer *writer, const struct rd_step *step)
{
	struct chakra_node node = CHAKRA_NODE;
	int64_t bytes = message_bytes(writer, step->chunk);
	int err;

	node.type = CHAKRA_COMP;
	node.tensor_size = bytes * (int64_t)writer->parts.count;
	add_id(&writer->parts, writer->values[step->chunk]);
	node.data_deps = writer->parts.list;
	node.data_dep_count = writer->parts.count;
	err = put(writer, &node, "reduce", step->chunk);
	writer->last = node.id;
	return err;
}

static int put_step(struct writer *writer, const struct rd_step *step)
{
	int err = 0;

	if (step->kind == RD_STEP_FLUSH)
		add_id(&writer->flushed, writer->sends[step->sender]);
	if (rd_step_receives(step))
		err = put_receive(writer, step);
	if (!err && rd_step_reduces(step))
		err = put_reduction(writer, step);
	if ((rd_step_receives(step) || rd_step_reduces(step)) && step->kind != RD_STEP_HOLD) {
		writer->values[step->chunk] = writer->last;
		writer->parts.count = 0;
	}
	if (!err && rd_step_sends(step))
		err = put_send(writer, step);
	return err;
}

/* Takes the nodes of all pieces from *left. Each has as many as the first, which was written. */
static int spend(const struct writer *writer, uint64_t *left)
{
	uint64_t nodes = writer->next - 1;

	if (nodes > 0 && writer->exec.pieces > *left / nodes)
		return rd_fail(RONDO_UNSUPPORTED,
			"the call has more nodes than a trace, %d: give a larger --piece",
			CHAKRA_NODES_MAX);
	*left -= nodes * writer->exec.pieces;
	return 0;
}

static int put_pieces(struct writer *writer, int chunks, uint64_t *left)
{
	int err = chakra_begin(writer->out);

	for (; writer->piece < writer->exec.pieces && !err; writer->piece++) {
		writer->flushed.count = 0; /* no piece writes where another is sent from */
		for (int chunk = 0; chunk < chunks; chunk++)
			writer->values[chunk] = 0;
		for (int i = 0; i < writer->plan->step_count && !err; i++)
			err = put_step(writer, &writer->plan->steps[i]);
		if (!err && writer->piece == 0)
			err = spend(writer, left);
	}
	return err;
}

static int write_plan(
	const struct rd_plan *plan, const struct plan_options *options, FILE *out, uint64_t *left)
{
	size_t ranks = (size_t)plan->problem.size, steps = (size_t)plan->step_count;
	int chunks = rd_blocks(&plan->problem) * plan->parts, err;
	struct writer writer = { .plan = plan, .out = out, .next = 1 };
	size_t least = RD_SLICE_ALIGNMENT;

	if (plan->direct_access)
		return rd_fail(RONDO_UNSUPPORTED,
			"%s needs direct access, which has no form in Chakra's traces",
			plan->algorithm);
	writer.exec.plans = &plan;
	writer.exec.element = 1;
	writer.exec.call.count = plan->problem.collective == RD_BARRIER ? 0 : options->size;
	rd_slices_cut(&writer.exec, options->piece_size > least ? options->piece_size : least);
	writer.values = calloc((size_t)chunks, sizeof(*writer.values));
	writer.sends = calloc(steps + 1, sizeof(*writer.sends));
	writer.flushed.list = calloc(steps + 1, sizeof(*writer.flushed.list));
	writer.parts.list = calloc(ranks + 1, sizeof(*writer.parts.list));
	writer.sent = calloc(ranks, sizeof(*writer.sent));
	writer.received = calloc(ranks, sizeof(*writer.received));
	err = writer.values && writer.sends && writer.flushed.list && writer.parts.list &&
			      writer.sent && writer.received
		      ? put_pieces(&writer, chunks, left)
		      : rd_fail(RONDO_MEMORY, "no memory for a Chakra trace");
	free(writer.values);
	free(writer.sends);
	free(writer.flushed.list);
	free(writer.parts.list);
	free(writer.sent);
	free(writer.received);
	return err;
}

/* ---- Files ---------------------------------------------------------------------------------- */

/* An existing file stays as it is until the nodes are whole. */
static int write_rank(
	const struct rd_plan *plan, const struct plan_options *options, uint64_t *left)
{
	char path[PATH_MAX], *bytes = NULL;
	size_t size = 0;
	FILE *out;
	int err;

	if (snprintf(path, sizeof(path), "%s.%d.et", options->output, plan->problem.rank) >=
		PATH_MAX)
		return rd_fail(RONDO_INVALID, "the name %.40s... is too long", options->output);
	out = open_memstream(&bytes, &size);
	err = out ? write_plan(plan, options, out, left) : RONDO_MEMORY;
	if (!out || fclose(out))
		err = rd_fail(RONDO_MEMORY, "no memory for a Chakra trace");
	if (!err)
		err = file_save(path, bytes, size);
	free(bytes);
	return err;
}

int chakra_export(const struct plan_problem *made, const struct plan_options *options,
	const struct rd_algorithm *algorithm)
{
	struct rd_problem problem = made->problem;
	uint64_t left = CHAKRA_NODES_MAX;
	int err = 0;

	for (problem.rank = 0; problem.rank < problem.size && !err; problem.rank++) {
		struct rd_plan *plan;

		err = rd_plan_create(&plan, algorithm, &problem);
		if (err)
			return err;
		err = write_rank(plan, options, &left);
		rd_plan_destroy(plan);
	}
	return err;
}
