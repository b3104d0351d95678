#include "transports/verbs/messages.h"

#include <string.h>

#include "base/crc32c.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/immediate.h"
#include "transports/verbs/landing.h"
#include "transports/verbs/resume.h"

/* Requests that messages leave free in a queue pair, for credits. */
#define SENDS_SPARE 8

static bool has_checksums(const struct rd_verbs_link *link)
{
	return link->endpoint->local->settings->checksum;
}

static uint32_t checksum(
	uint64_t number, size_t size, const struct rd_tag *tag, const void *payload)
{
	uint64_t numbers[] = { number, size };
	uint32_t crc = rd_crc32c(0, numbers, sizeof(numbers));

	return rd_crc32c(rd_crc32c(crc, tag, sizeof(*tag)), payload, size);
}

static struct rd_verbs_queue_pair *pair_of(const struct rd_verbs_link *link)
{
	return &link->pairs[link->base.rail];
}

/* ---- Going out ----------------------------------------------------------------------------- */

static struct rd_verbs_header *next_header(const struct rd_verbs_link *link)
{
	return (struct rd_verbs_header *)(link->out.ring + link->out.next.offset);
}

/* Position of the oldest message that the peer has not released. */
static uint64_t oldest_position(const struct rd_verbs_output *out)
{
	return out->released == out->count
		       ? out->next.position
		       : out->sent[out->released % RD_VERBS_MESSAGES].at.position;
}

void *rd_verbs_message_room(struct rd_verbs_link *link, size_t size)
{
	const struct rd_verbs_output *out = &link->out;

	if (link->paused || out->count - out->released == RD_VERBS_MESSAGES ||
		!rd_verbs_ring_has_room(&link->size, &out->next, oldest_position(out), size) ||
		!rd_verbs_queue_pair_has_room(pair_of(link), 1 + SENDS_SPARE))
		return NULL;
	return next_header(link) + 1;
}

/* Memory of the payload, as the device reads it. */
static struct ibv_sge payload_of(const struct rd_verbs_link *link, const struct rd_verbs_sent *sent)
{
	const struct rd_verbs_header *header = (void *)(link->out.ring + sent->at.offset);

	return (struct ibv_sge){
		.addr = (uintptr_t)(sent->from ? sent->from : header + 1),
		.length = sent->size,
		.lkey = sent->from ? sent->keys[link->base.rail]
				   : link->regions[link->base.rail]->lkey,
	};
}

/* Writes the slot into the peer's ring: the header, and the payload behind it, wherever that lies
   here. Without the payload if that has landed. */
static void write_slot(struct rd_verbs_link *link, const struct rd_verbs_sent *sent,
	struct ibv_sge payload, bool landed)
{
	struct rd_verbs_queue_pair *pair = pair_of(link);
	const struct rd_verbs_address *peer = &link->peers[link->base.rail];
	struct rd_verbs_header *header = (void *)(link->out.ring + sent->at.offset);
	bool gathers = !landed && sent->from;
	size_t size = sizeof(*header) + (landed || gathers ? 0 : payload.length);
	struct ibv_sge parts[2] = {
		{ (uintptr_t)header, (uint32_t)size, link->regions[link->base.rail]->lkey },
		payload,
	};
	struct ibv_send_wr request = {
		.sg_list = parts,
		.num_sge = gathers ? 2 : 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = !gathers && size <= pair->inline_most ? IBV_SEND_INLINE : 0,
		.imm_data = rd_verbs_immediate(link, RD_VERBS_MESSAGE),
		.wr.rdma = { .remote_addr = peer->ring + sent->at.offset, .rkey = peer->key },
	};

	header->size = sent->size | (landed ? RD_VERBS_LANDED : 0);
	rd_verbs_queue_pair_post(pair, &request, sent->from, sent->from ? sent->mark : 0);
}

/* Adds a message. Its payload lies in its room, or else in the caller's memory. */
static struct rd_verbs_sent *add_message(
	struct rd_verbs_link *link, const struct rd_tag *tag, const void *payload, size_t size)
{
	struct rd_verbs_output *out = &link->out;
	struct rd_verbs_sent *sent = &out->sent[out->count % RD_VERBS_MESSAGES];

	*next_header(link) = (struct rd_verbs_header){
		.check = has_checksums(link) ? checksum(out->count, size, tag, payload)
					     : (uint32_t)out->count,
		.tag = *tag,
	};
	sent->at = out->next;
	sent->size = (uint32_t)size;
	sent->from = NULL;
	rd_verbs_cursor_pass(&out->next, &link->size, size);
	out->count++;
	return sent;
}

/* Sends the latest message. A failover may have begun since its room was reserved: then it is
   repeated. */
static void send_message(struct rd_verbs_link *link, const struct rd_verbs_sent *sent)
{
	struct ibv_sge payload = payload_of(link, sent);
	bool landed;

	if (link->paused)
		return;
	landed = rd_verbs_landing_write(link, link->out.count - 1, &payload);
	write_slot(link, sent, payload, landed);
}

/* Sends a message again, to its slot: the peer may have another key for the place of landing. */
static void repeat_message(struct rd_verbs_link *link, const struct rd_verbs_sent *sent)
{
	write_slot(link, sent, payload_of(link, sent), false);
}

void rd_verbs_message_send(struct rd_verbs_link *link, const struct rd_tag *tag, size_t size)
{
	send_message(link, add_message(link, tag, next_header(link) + 1, size));
}

void rd_verbs_message_send_from(
	struct rd_verbs_link *link, const struct rd_tag *tag, const void *from, size_t size)
{
	const struct rd_verbs_region *region = NULL;
	struct rd_verbs_sent *sent;

	link->base.posted++;
	if (sizeof(struct rd_verbs_header) + size > pair_of(link)->inline_most)
		region = rd_verbs_regions_find(&link->endpoint->regions, from, size);
	if (!region && size > 0)
		memcpy(next_header(link) + 1, from, size);
	sent = add_message(link, tag, from, size);
	if (region) {
		sent->from = from;
		sent->mark = link->base.posted;
		for (int i = 0; i < link->rails; i++)
			sent->keys[i] = region->at[i]->lkey;
		link->out.owed = link->base.posted;
	}
	if (link->base.sent >= link->out.owed)
		link->base.sent = link->base.posted;
	send_message(link, sent);
}

static void write_immediate(struct rd_verbs_link *link, uint32_t immediate, bool signalled)
{
	const struct rd_verbs_address *peer = &link->peers[link->base.rail];
	struct ibv_send_wr request = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = immediate,
		.wr.rdma = { .remote_addr = peer->ring, .rkey = peer->key },
	};

	rd_verbs_queue_pair_post(pair_of(link), &request, signalled, 0);
}

void rd_verbs_credits_send(struct rd_verbs_link *link, bool signalled)
{
	write_immediate(link, rd_verbs_immediate(link, RD_VERBS_CREDITS), signalled);
}

bool rd_verbs_is_resume(uint32_t immediate)
{
	return (immediate & ~(RD_VERBS_RESUME_MASK | 0xffff)) == RD_VERBS_RESUME;
}

/* It returns all credits as well. */
void rd_verbs_resume_send(struct rd_verbs_link *link)
{
	struct rd_verbs_input *in = &link->in;
	struct rd_verbs_counts counts = { .arrived = in->arrived, .released = in->released };

	in->returned = in->released;
	in->returned_position = in->next.position;
	write_immediate(link, htonl(RD_VERBS_RESUME | rd_verbs_resume_encode(counts)), false);
}

/* Messages before `arrived` need the caller's memory no more, though completions may be lost. */
static void end_uses(struct rd_verbs_link *link, uint64_t arrived)
{
	const struct rd_verbs_output *out = &link->out;
	uint64_t done = link->base.posted;

	for (uint64_t number = out->count; number-- > arrived;) {
		const struct rd_verbs_sent *sent = &out->sent[number % RD_VERBS_MESSAGES];

		if (sent->from)
			done = sent->mark - 1;
	}
	if (done > link->base.sent)
		link->base.sent = done;
}

void rd_verbs_messages_repeat(struct rd_verbs_link *link, uint64_t arrived, uint64_t released)
{
	struct rd_verbs_output *out = &link->out;

	out->released = released;
	end_uses(link, arrived);
	for (uint64_t number = arrived; number < out->count; number++) {
		const struct rd_verbs_sent *sent = &out->sent[number % RD_VERBS_MESSAGES];

		/* Its memory is the caller's again. */
		if (sent->from && sent->mark <= link->base.sent) {
			rd_verbs_link_fail(link, RONDO_PROTOCOL,
				"lost a message that its device had confirmed");
			return;
		}
		repeat_message(link, sent);
	}
	/* Signalled, for close() waits until all requests are done. */
	rd_verbs_credits_send(link, true);
}

/* Where no request is free, a completion comes, and this is called again. */
static void return_credits(struct rd_verbs_link *link)
{
	const struct rd_verbs_input *in = &link->in;

	if (!link->paused &&
		rd_verbs_credits_due(&link->size, in->released - in->returned,
			in->next.position - in->returned_position) &&
		rd_verbs_queue_pair_has_room(pair_of(link), 1))
		rd_verbs_credits_send(link, false);
}

void rd_verbs_message_done(struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair)
{
	uint64_t mark = rd_verbs_queue_pair_sent(pair);

	/* Behind the last message from the caller's memory, all have been copied. */
	if (mark > link->base.sent)
		link->base.sent = mark == link->out.owed ? link->base.posted : mark;
	return_credits(link);
}

/* ---- Coming in ----------------------------------------------------------------------------- */

static void take_credits(struct rd_verbs_link *link, uint16_t released)
{
	struct rd_verbs_output *out = &link->out;
	uint16_t more = (uint16_t)(released - (uint16_t)out->released);

	if (more > out->count - out->released)
		rd_verbs_link_fail(
			link, RONDO_PROTOCOL, "returned more credits than it had messages");
	else
		out->released += more;
}

void rd_verbs_message_arrived(struct rd_verbs_link *link, int rail, uint32_t immediate)
{
	uint32_t kind = immediate & RD_VERBS_KINDS;

	take_credits(link, (uint16_t)immediate);
	if (kind == RD_VERBS_MESSAGE && link->in.arrived - link->in.returned < RD_VERBS_MESSAGES)
		link->in.arrived++;
	else if (kind == RD_VERBS_LANDING)
		rd_verbs_landing_arrived(link, rail);
	else if (kind != RD_VERBS_CREDITS)
		rd_verbs_link_fail(link, RONDO_PROTOCOL, "sent what is no message");
}

static bool is_valid(const struct rd_verbs_link *link, size_t size, uint32_t check, bool landed)
{
	const struct rd_verbs_input *in = &link->in;

	return size <= link->base.message_max &&
	       (has_checksums(link) || check == (uint32_t)in->released) &&
	       (!landed || (in->landing && in->landing_number == in->released &&
				   in->landing_size == size));
}

/* Whether the first message, which is valid, has the CRC that its sender computed. */
static bool is_intact(struct rd_verbs_link *link, const struct rd_message *message, uint32_t check)
{
	struct rd_verbs_input *in = &link->in;
	const struct rd_verbs_port *port = &pair_of(link)->rail->port;
	uint32_t crc;

	if (!has_checksums(link) || in->checked > in->released)
		return true;
	crc = checksum(in->released, message->size, message->tag, message->data);
	if (crc != check) {
		rd_verbs_link_fail(link, RONDO_PROTOCOL,
			"sent rank %d message %llu with CRC %08x, which arrived with %08x (verbs "
			"channel %d, by %s:%d)",
			link->endpoint->local->rank, (unsigned long long)in->released, check, crc,
			link->base.channel, port->device, port->number);
		return false;
	}
	in->checked = in->released + 1;
	return true;
}

bool rd_verbs_message_next(struct rd_verbs_link *link, struct rd_message *message)
{
	struct rd_verbs_input *in = &link->in;
	const struct rd_verbs_header *header;
	size_t size;
	bool landed;

	if (in->arrived == in->released)
		return false;
	header = (const void *)(in->ring + in->next.offset);
	size = header->size;
	landed = size & RD_VERBS_LANDED;
	size &= ~(size_t)RD_VERBS_LANDED;
	if (!is_valid(link, size, header->check, landed)) {
		rd_verbs_link_fail(link, RONDO_PROTOCOL,
			"sent rank %d a header with %zu bytes and check %08x as that of message "
			"%llu (verbs channel %d)",
			link->endpoint->local->rank, size, header->check,
			(unsigned long long)in->released, link->base.channel);
		return false;
	}
	/* The peer can still write there, so the size that was checked is kept. */
	in->size = size;
	*message = (struct rd_message){
		.data = landed ? in->landing : (const void *)(header + 1),
		.size = size,
		.tag = &header->tag,
	};
	return is_intact(link, message, header->check);
}

void rd_verbs_message_release(struct rd_verbs_link *link)
{
	struct rd_verbs_input *in = &link->in;

	rd_verbs_cursor_pass(&in->next, &link->size, in->size);
	in->released++;
	return_credits(link);
}
