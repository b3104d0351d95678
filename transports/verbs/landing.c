#include "transports/verbs/landing.h"

#include <stddef.h>

#include "base/hash.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/immediate.h"

/* Below this many bytes, a copy costs less than an announcement. */
#define LANDING_MIN 4096

static struct rd_verbs_queue_pair *pair_of(const struct rd_verbs_link *link)
{
	return &link->pairs[link->base.rail];
}

static uint64_t check_of(const struct rd_verbs_landing *landing)
{
	return rd_hash(RD_HASH_INIT, landing, offsetof(struct rd_verbs_landing, check));
}

/* It goes inline: the next one may be written before the device has read this one. */
static void write_landing(struct rd_verbs_link *link, struct rd_verbs_landing *landing)
{
	const struct rd_verbs_address *peer = &link->peers[link->base.rail];
	struct ibv_sge part = { (uintptr_t)landing, sizeof(*landing), 0 };
	struct ibv_send_wr request = {
		.sg_list = &part,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_INLINE,
		.imm_data = rd_verbs_immediate(link, RD_VERBS_LANDING),
		.wr.rdma = { .remote_addr = peer->ring - sizeof(*landing), .rkey = peer->key },
	};

	landing->check = check_of(landing);
	rd_verbs_queue_pair_post(pair_of(link), &request, false, 0);
}

void rd_verbs_landing_announce(struct rd_verbs_link *link, void *into, size_t size)
{
	struct rd_verbs_input *in = &link->in;
	const struct rd_verbs_queue_pair *pair = pair_of(link);
	const struct rd_verbs_region *region;

	if (size < LANDING_MIN || size > link->base.message_max ||
		(in->landing && in->landing_number == in->released) || link->paused ||
		sizeof(struct rd_verbs_landing) > pair->inline_most ||
		!rd_verbs_queue_pair_has_room(pair, 2))
		return;
	region = rd_verbs_regions_find(&link->endpoint->regions, into, size);
	if (!region || !region->writable)
		return;
	in->landing = into;
	in->landing_size = size;
	in->landing_number = in->released;
	write_landing(link, &(struct rd_verbs_landing){
				    .number = in->released,
				    .address = (uintptr_t)into,
				    .key = region->at[link->base.rail]->rkey,
				    .size = (uint32_t)size,
			    });
}

void rd_verbs_landing_arrived(struct rd_verbs_link *link, int rail)
{
	struct rd_verbs_landing *landing = &link->out.landing;

	/* The peer may be writing the next announcement, whose own arrival is still to come. */
	*landing = *(const struct rd_verbs_landing *)link->memory;
	if (landing->check != check_of(landing))
		*landing = (struct rd_verbs_landing){ 0 };
	link->out.landing_rail = rail;
}

bool rd_verbs_landing_write(struct rd_verbs_link *link, uint64_t number, struct ibv_sge *part)
{
	const struct rd_verbs_landing *landing = &link->out.landing;
	struct ibv_send_wr request = {
		.sg_list = part,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = landing->address, .rkey = landing->key },
	};

	if (landing->size == 0 || landing->number != number || landing->size != part->length ||
		link->out.landing_rail != link->base.rail)
		return false;
	rd_verbs_queue_pair_post(pair_of(link), &request, false, 0);
	return true;
}
