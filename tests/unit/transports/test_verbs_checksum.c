/*
 * Checksums of verbs: bytes that change on the way are found before the message is used. Two links
 * of this process have a device that copies at once what is written.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "transports/contract/traffic.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/landing.h"
#include "transports/verbs/messages.h"

#define HEADER sizeof(struct rd_verbs_header)
#define MOST 65536

enum way { IN_RING, FROM_MEMORY, LANDED };

struct end {
	struct rd_settings settings;
	struct rd_local local;
	struct rd_verbs_endpoint endpoint;
	struct rd_verbs_region region;
	struct rd_verbs_queue_pair pair;
	struct rd_verbs_address peer;
	struct ibv_mr mr, *mrs[1];
	struct ibv_qp qp;
	struct rd_verbs_link link;
};

static struct ibv_context context;
static struct end ends[2]; /* 0 sends */
static unsigned char *memory; /* registered: a message to send, and behind it room to land in */
static size_t flip_at; /* byte of the next message, header first, of which a bit changes */
static bool flips;

/* Writes from, then to `at`, and flips the bit in whichever part of the message that is. */
static void write_bytes(unsigned char *into, const void *from, size_t size, size_t at)
{
	memcpy(into, from, size);
	if (flips && flip_at >= at && flip_at < at + size)
		into[flip_at - at] ^= (unsigned char)(1 << flip_at % 8);
}

static int fake_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **refused)
{
	struct end *other = qp == &ends[0].qp ? &ends[1] : &ends[0];
	unsigned char *into = (unsigned char *)(uintptr_t)request->wr.rdma.remote_addr;
	bool is_payload = request->opcode == IBV_WR_RDMA_WRITE;
	size_t at = is_payload ? HEADER : 0;

	(void)refused;
	for (int i = 0; i < request->num_sge; i++) {
		const struct ibv_sge *part = &request->sg_list[i];

		if (other == &ends[0])
			memcpy(into, (void *)(uintptr_t)part->addr, part->length);
		else
			write_bytes(into, (void *)(uintptr_t)part->addr, part->length, at);
		into += part->length;
		at += part->length;
	}
	if (!is_payload)
		rd_verbs_message_arrived(&other->link, 0, ntohl(request->imm_data));
	return 0;
}

static void end_open(struct end *end, int rank, bool checksums)
{
	struct rd_verbs_link *link = &end->link;

	memset(end, 0, sizeof(*end));
	end->settings.checksum = checksums;
	end->local = (struct rd_local){ .rank = rank, .settings = &end->settings };
	end->endpoint.local = &end->local;
	strcpy(end->endpoint.rails[0].port.device, "fake");
	end->endpoint.rails[0].port.number = 1;
	end->mrs[0] = &end->mr;
	end->region = (struct rd_verbs_region){
		.base = (uintptr_t)memory, .size = 2 * MOST, .writable = true, .at = { &end->mr }
	};
	end->endpoint.regions.copy = &end->region;
	end->endpoint.regions.copied = 1;
	end->qp.context = &context;
	end->pair = (struct rd_verbs_queue_pair){
		.qp = &end->qp, .rail = &end->endpoint.rails[0], .inline_most = 128
	};
	*link = (struct rd_verbs_link){
		.base = { .peer = 1 - rank, .message_max = MOST, .ready = true },
		.endpoint = &end->endpoint,
		.rails = 1,
		.size = rd_verbs_ring_of(4, MOST),
		.pairs = &end->pair,
		.peers = &end->peer,
		.regions = end->mrs,
	};
	link->memory_size = sizeof(struct rd_verbs_landing) + 2 * link->size.size;
	link->memory = aligned_alloc(64, rd_round_up(link->memory_size, 64));
	link->in.ring = (char *)link->memory + sizeof(struct rd_verbs_landing);
	link->out.ring = link->in.ring + link->size.size;
}

static void open_ends(bool checksums)
{
	context.ops.post_send = fake_send;
	memory = aligned_alloc(64, 2 * MOST);
	flips = false;
	for (int i = 0; i < 2; i++)
		end_open(&ends[i], i, checksums);
	for (int i = 0; i < 2; i++)
		ends[i].peer.ring = (uintptr_t)ends[1 - i].link.in.ring;
}

static void close_ends(void)
{
	for (int i = 0; i < 2; i++)
		free(ends[i].link.memory);
	free(memory);
}

static void send_by(enum way way, uint64_t key, size_t size)
{
	struct rd_verbs_link *link = &ends[0].link;
	struct rd_tag tag = tag_of(key);
	void *room = rd_verbs_message_room(link, size);

	cr_assert_not_null(room);
	if (way == IN_RING) {
		fill_bytes(room, size, key);
		rd_verbs_message_send(link, &tag, size);
		return;
	}
	if (way == LANDED)
		rd_verbs_landing_announce(&ends[1].link, memory + MOST, size);
	fill_bytes(memory, size, key);
	rd_verbs_message_send_from(link, &tag, memory, size);
}

static void take(enum way way, uint64_t key, size_t size)
{
	struct rd_verbs_link *link = &ends[1].link;
	struct rd_tag tag = tag_of(key);
	struct rd_message message;

	/* The same message, until it is released. */
	for (int i = 0; i < 2; i++) {
		cr_assert(rd_verbs_message_next(link, &message), "%s", link->base.reason);
		cr_assert_eq(message.size, size);
		cr_assert_eq(memcmp(message.tag, &tag, sizeof(tag)), 0);
		cr_assert_eq(intact(message.data, size, key), size);
		cr_assert_eq(message.data == memory + MOST, way == LANDED);
	}
	rd_verbs_message_release(link);
}

static size_t draw_size(enum way way, uint64_t key)
{
	return way == LANDED ? 4096 + key * 977 % (MOST - 4096) : size_of(key, MOST);
}

Test(verbs_checksum, all_messages_arrive_with_and_without_them, .timeout = 60)
{
	for (int checksums = 0; checksums < 2; checksums++) {
		open_ends(checksums);
		for (uint64_t key = 0; key < 300; key++) {
			enum way way = (enum way)(key % 3);

			send_by(way, key, draw_size(way, key));
			take(way, key, draw_size(way, key));
			if (way != IN_RING && ends[0].link.base.sent < ends[0].link.base.posted)
				rd_verbs_message_done(&ends[0].link, &ends[0].pair);
		}
		close_ends();
	}
}

/* The second message has a flipped bit in that byte. */
static void flip(enum way way, size_t size, size_t byte)
{
	struct rd_link *base = &ends[1].link.base;
	struct rd_message message;

	open_ends(true);
	send_by(way, 0, size);
	take(way, 0, size);
	flips = true;
	flip_at = byte;
	send_by(way, 1, size);
	cr_assert(!rd_verbs_message_next(&ends[1].link, &message), "byte %zu", byte);
	cr_assert_eq(base->error, RONDO_PROTOCOL);
	cr_assert(strstr(base->reason, "sent rank 1 "), "%s", base->reason);
	cr_assert(strstr(base->reason, "message 1 "), "%s", base->reason);
	cr_assert(strstr(base->reason, "(verbs channel 0"), "%s", base->reason);
	/* A size that cannot be is found by itself. */
	cr_assert(byte < 4 || strstr(base->reason, " with CRC "), "%s", base->reason);
	cr_assert(byte < 4 || strstr(base->reason, "by fake:1)"), "%s", base->reason);
	close_ends();
}

Test(verbs_checksum, a_flipped_bit_in_a_header_is_found_and_named, .timeout = 60)
{
	for (size_t byte = 0; byte < HEADER; byte++)
		for (enum way way = IN_RING; way <= LANDED; way++)
			flip(way, 5000, byte);
}

Test(verbs_checksum, a_flipped_bit_in_a_payload_is_found_and_named, .timeout = 60)
{
	for (size_t byte = 0; byte < 40; byte++)
		flip(IN_RING, 40, HEADER + byte);
	for (size_t byte = 0; byte < MOST; byte += byte < 64 ? 7 : 4093)
		for (enum way way = IN_RING; way <= LANDED; way++)
			flip(way, MOST, HEADER + byte);
}

Test(verbs_checksum, without_them_a_wrong_number_alone_is_found, .timeout = 60)
{
	struct rd_message message;

	open_ends(false);
	flips = true;
	flip_at = HEADER + 8;
	send_by(IN_RING, 0, 100);
	cr_assert(rd_verbs_message_next(&ends[1].link, &message));
	cr_assert_neq(intact(message.data, 100, 0), 100);
	rd_verbs_message_release(&ends[1].link);
	flip_at = offsetof(struct rd_verbs_header, check);
	send_by(IN_RING, 1, 100);
	cr_assert(!rd_verbs_message_next(&ends[1].link, &message));
	cr_assert_eq(ends[1].link.base.error, RONDO_PROTOCOL);
	close_ends();
}
