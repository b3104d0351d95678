#include "comm/buffer_exchange.h"

#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "base/error.h"
#include "base/grow.h"
#include "exec/short_run.h"
#include "exec/exec_init.h"
#include "mesh/mesh.h"
#include "tuner/thresholds.h"

static int make(struct rondo_comm *comm)
{
	struct rd_buffer_exchange *exchange = comm->exchange;
	struct rd_problem problem = {
		.collective = RD_ALL_GATHER, .rank = comm->rank, .size = comm->size
	};
	int err = rd_plan_create(&exchange->plan, &rd_buffer_exchange_plan, &problem);

	if (err)
		return err;
	exchange->plans[0] = exchange->plan;
	err = rd_peer_set_of_plans(&exchange->peers, exchange->plans, 1);
	if (!err)
		err = rd_peer_set_of_all(&exchange->all_peers, comm->rank, comm->size);
	if (err)
		return err;
	exchange->meshed = exchange->peers.count == exchange->all_peers.count;
	for (int channel = 0; channel < comm->channels; channel++)
		exchange->plans[channel] = exchange->plan;
	exchange->send_marks = calloc(rd_exec_send_mark_count(exchange->plans, comm->channels) + 1,
		sizeof(*exchange->send_marks));
	exchange->all = calloc(comm->size, sizeof(*exchange->all));
	exchange->mapped = calloc(comm->size, sizeof(*exchange->mapped));
	exchange->peer_buffers = calloc(comm->size, sizeof(*exchange->peer_buffers));
	exchange->ins = calloc(comm->size, sizeof(*exchange->ins));
	exchange->outs = calloc(comm->size, sizeof(*exchange->outs));
	if (!exchange->send_marks || !exchange->all || !exchange->mapped ||
		!exchange->peer_buffers || !exchange->ins || !exchange->outs)
		return rd_fail(
			RONDO_MEMORY, "no memory to exchange buffers of %d ranks", comm->size);
	return 0;
}

int rd_buffer_exchange_make(struct rondo_comm *comm)
{
	int err;

	if (comm->exchange)
		return 0;
	comm->exchange = calloc(1, sizeof(*comm->exchange));
	err = comm->exchange ? make(comm) : rd_fail(RONDO_MEMORY, "no memory to exchange buffers");
	if (err)
		rd_buffer_exchange_destroy(comm);
	return err;
}

void rd_buffer_exchange_destroy(struct rondo_comm *comm)
{
	struct rd_buffer_exchange *exchange = comm->exchange;

	if (!exchange)
		return;
	rd_plan_destroy(exchange->plan);
	rd_peer_set_finish(&exchange->peers);
	rd_peer_set_finish(&exchange->all_peers);
	free(exchange->send_marks);
	free(exchange->all);
	free(exchange->mapped);
	free(exchange->peer_buffers);
	free(exchange->ins);
	free(exchange->outs);
	free(exchange->offered);
	free(exchange);
	comm->exchange = NULL;
}

/* ---- Our own regions ------------------------------------------------------------------------ */

static bool offer_to_all(struct rondo_comm *comm, const struct rd_region *region)
{
	bool offered = true;

	for (int i = 0; i < comm->endpoint_count; i++)
		if (comm->endpoints[i]->transport->offer)
			offered &= comm->endpoints[i]->transport->offer(
				comm->endpoints[i], region->id, region->fd, region->size);
	return offered;
}

static void withdraw_from_all(struct rondo_comm *comm, uint64_t id)
{
	for (int i = 0; i < comm->endpoint_count; i++)
		if (comm->endpoints[i]->transport->withdraw)
			comm->endpoints[i]->transport->withdraw(comm->endpoints[i], id);
}

/* Regions have come or gone: peers unmap those that no longer exist. */
static void withdraw_freed(struct rondo_comm *comm, uint64_t version)
{
	struct rd_buffer_exchange *exchange = comm->exchange;
	int kept = 0;

	for (int i = 0; i < exchange->offered_count; i++) {
		if (rd_region_exists(exchange->offered[i]))
			exchange->offered[kept++] = exchange->offered[i];
		else
			withdraw_from_all(comm, exchange->offered[i]);
	}
	exchange->offered_count = kept;
	exchange->in.id = exchange->out.id = 0;
	exchange->version = version;
}

static bool was_offered(const struct rd_buffer_exchange *exchange, uint64_t id)
{
	for (int i = 0; i < exchange->offered_count; i++)
		if (exchange->offered[i] == id)
			return true;
	return false;
}

/* Offers a region to the peers, once. False: not all peers can get it now, so none uses it. */
static bool offer(struct rondo_comm *comm, const struct rd_region *region)
{
	struct rd_buffer_exchange *exchange = comm->exchange;

	if (was_offered(exchange, region->id))
		return true;
	if (!rd_grow(&exchange->offered, exchange->offered_count, &exchange->offered_capacity,
		    sizeof(region->id)))
		return false;
	if (!offer_to_all(comm, region)) {
		withdraw_from_all(comm, region->id);
		return false;
	}
	exchange->offered[exchange->offered_count++] = region->id;
	return true;
}

static bool lies_in(const struct rd_region *region, const char *at, size_t size)
{
	return region->id != 0 && at >= region->base && size <= region->size &&
	       (size_t)(at - region->base) <= region->size - size;
}

/* The id and offset of a buffer; id 0 where it lies in no region. `last`: the region of the last
   buffer. */
static void describe(struct rondo_comm *comm, const void *at, size_t size, struct rd_region *last,
	uint64_t *id, uint64_t *offset)
{
	*id = *offset = 0;
	if (!lies_in(last, at, size)) {
		last->id = 0;
		if (!rd_region_find(at, size, last) || !offer(comm, last)) {
			last->id = 0;
			return;
		}
	}
	*id = last->id;
	*offset = (uint64_t)((const char *)at - last->base);
}

/* ---- The exchange --------------------------------------------------------------------------- */

static int power_of(const struct rd_call *call)
{
	return 63 - __builtin_clzll((call->count * rondo_type_size(call->type)) | 1);
}

/* A program whose buffers of a size were out of reach each time will hardly bring others now. */
bool rd_buffer_exchange_is_due(
	const struct rondo_comm *comm, const struct rd_call *call, uint32_t number)
{
	const struct rd_buffer_exchange *exchange = comm->exchange;
	int power = power_of(call);

	return exchange->failed_in_a_row[power] < RD_EXCHANGE_TRIES ||
	       number - exchange->last[power] >= RD_EXCHANGE_RETRY_EVERY;
}

int rd_buffer_exchange_pays(struct rondo_comm *comm, const struct rd_call *call, bool *pays)
{
	struct rd_choice *choice;
	int err;

	*pays = false;
	if (!comm->maps || call->vcounts || call->problem.collective == RD_TRANSFER)
		return 0;
	err = rd_picker_choose(comm->picker, call->problem.collective,
		call->count * rondo_type_size(call->type), rd_type_class_of(call->type), true,
		&choice);
	if (err == RONDO_UNSUPPORTED)
		return 0;
	if (!err && choice->algorithm->direct_access)
		err = rd_buffer_exchange_make(comm);
	*pays = !err && choice->algorithm->direct_access;
	return err;
}

static size_t in_size(const struct rd_call *call, int rank)
{
	struct rd_problem there = call->problem;

	there.rank = rank;
	return rd_in_blocks(&there) * call->count * rondo_type_size(call->type);
}

static size_t out_size(const struct rd_call *call, int rank)
{
	struct rd_problem there = call->problem;

	there.rank = rank;
	if (!rd_collective_writes_far(there.collective))
		return 0;
	return rd_out_blocks(&there) * call->count * rondo_type_size(call->type);
}

/* A pair may have taken another transport than the cards promised. */
static bool peers_map(const struct rondo_comm *comm)
{
	for (int peer = 0; peer < comm->size; peer++) {
		const struct rd_link *link = comm->links[peer * comm->channels];

		if (link && !link->transport->map)
			return false;
	}
	return true;
}

struct rd_exec *rd_buffer_exchange_begin(struct rondo_comm *comm, const struct rd_call *call)
{
	struct rd_buffer_exchange *exchange = comm->exchange;
	struct rd_exec *exec = &exchange->exec;
	struct rd_call exchange_call = *call;
	uint64_t version = rd_regions_version();

	exchange->power = (uint8_t)power_of(call);
	exchange->last[exchange->power] = call->number;
	exchange->brief.count = -1;
	if (version != exchange->version)
		withdraw_freed(comm, version);
	memset(&exchange->mine, 0, sizeof(exchange->mine));
	bool mapped = peers_map(comm);

	if (mapped && in_size(call, comm->rank) > 0)
		describe(comm, call->in, in_size(call, comm->rank), &exchange->in,
			&exchange->mine.in_id, &exchange->mine.in_offset);
	if (mapped && out_size(call, comm->rank) > 0)
		describe(comm, call->out, out_size(call, comm->rank), &exchange->out,
			&exchange->mine.out_id, &exchange->mine.out_offset);

	exchange_call.vcounts = NULL;
	exchange_call.user_op = NULL;
	exchange_call.problem = exchange->plan->problem;
	exchange_call.type = RONDO_U64;
	exchange_call.op = RONDO_SUM;
	exchange_call.count = sizeof(struct rd_buffers) / sizeof(uint64_t);
	exchange_call.in = &exchange->mine;
	exchange_call.out = exchange->all;
	rd_exec_init(exec, exchange->plans, &exchange_call, comm->links, 1,
		sizeof(struct rd_buffers) * 2, NULL, exchange->send_marks);
	exec->stride = comm->channels;
	/* Ranks compare the signature of the user's call, not of the exchange. */
	exec->signature = rd_signature_of(call);
	exec->signature.form = RD_FORM_EXCHANGES_BUFFERS;
	return exec;
}

static bool has_buffers(const struct rondo_comm *comm, const struct rd_call *call, int rank)
{
	const struct rd_buffers *buffers = &comm->exchange->all[rank];

	return (in_size(call, rank) == 0 || buffers->in_id) &&
	       (out_size(call, rank) == 0 || buffers->out_id);
}

/* The address here of a peer's buffer; NULL, with the reason recorded, if it cannot be mapped. */
static char *reach(struct rondo_comm *comm, int peer, struct rd_peer_region *last, uint64_t id,
	uint64_t offset, size_t size)
{
	struct rd_link *link = comm->links[peer * comm->channels];

	if (last->id != id) {
		last->base = link->transport->map(link, id, &last->size);
		last->id = last->base ? id : 0;
	}
	if (last->id == id && size <= last->size && offset <= last->size - size)
		return last->base + offset;
	rd_fail(RONDO_SYSTEM, "rank %d cannot map the memory of rank %d's buffers", comm->rank,
		peer);
	return NULL;
}

static int reach_peer(struct rondo_comm *comm, const struct rd_call *call, int peer)
{
	struct rd_buffer_exchange *exchange = comm->exchange;
	const struct rd_buffers *buffers = &exchange->all[peer];
	struct rd_peer_buffers *reached = &exchange->peer_buffers[peer];

	memset(reached, 0, sizeof(*reached));
	if (in_size(call, peer) > 0) {
		reached->in = reach(comm, peer, &exchange->ins[peer], buffers->in_id,
			buffers->in_offset, in_size(call, peer));
		if (!reached->in)
			return RONDO_SYSTEM;
	}
	if (out_size(call, peer) > 0) {
		reached->out = reach(comm, peer, &exchange->outs[peer], buffers->out_id,
			buffers->out_offset, out_size(call, peer));
		if (!reached->out)
			return RONDO_SYSTEM;
	}
	return 0;
}

bool rd_buffer_exchange_needs_all(const struct rondo_comm *comm, const struct rd_call *call)
{
	if (comm->exchange->meshed)
		return false;
	for (int rank = 0; rank < comm->size; rank++)
		if (!has_buffers(comm, call, rank))
			return false;
	return true;
}

void rd_buffer_exchange_has_all(struct rondo_comm *comm)
{
	struct rd_buffer_exchange *exchange = comm->exchange;

	exchange->meshed = true;
	/* All regions are offered again: peers whose links have opened since know none. */
	exchange->offered_count = 0;
	exchange->in.id = exchange->out.id = 0;
}

int rd_buffer_exchange_end(struct rondo_comm *comm, const struct rd_call *call, bool *peers_mapped)
{
	struct rd_buffer_exchange *exchange = comm->exchange;
	uint8_t *failed = &exchange->failed_in_a_row[exchange->power];
	int err = 0;

	*peers_mapped = false;
	exchange->served = NULL;
	*failed += *failed < RD_EXCHANGE_TRIES;
	for (int rank = 0; rank < comm->size; rank++)
		if (!has_buffers(comm, call, rank))
			return 0;
	*failed = 0;
	for (int rank = 0; rank < comm->size && !err; rank++)
		if (rank != comm->rank)
			err = reach_peer(comm, call, rank);
	exchange->peer_buffers[comm->rank] = (struct rd_peer_buffers){ call->in, call->out };
	memcpy(exchange->mapped, exchange->all, comm->size * sizeof(*exchange->all));
	*peers_mapped = !err;
	return err;
}

/* ---- Again ---------------------------------------------------------------------------------- */

bool rd_buffer_exchange_repeats(const struct rondo_comm *comm, const struct rd_prepared *last)
{
	const struct rd_buffer_exchange *exchange = comm->exchange;

	return exchange->served == last && exchange->version == rd_regions_version();
}

bool rd_buffer_exchange_again(struct rondo_comm *comm, uint32_t number)
{
	struct rd_buffer_exchange *exchange = comm->exchange;
	struct rd_exec *exec = &exchange->exec;
	int step;

	exchange->last[exchange->power] = number;
	if (exchange->brief.count < 0)
		rd_short_init(&exchange->brief, exec, rd_comm_looks(comm), exchange->steps);
	step = rd_short_run(&exchange->brief, number);
	if (step >= 0) {
		rd_exec_again(exec, exec->call.in, exec->call.out, number);
		rd_exec_skip(exec, step);
		if (rd_exec_step(exec) != RD_DONE)
			return false;
	}
	return memcmp(exchange->all, exchange->mapped, comm->size * sizeof(*exchange->all)) == 0;
}
