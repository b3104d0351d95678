/* A coordinator of 4,096 ranks on 512 hosts: what it sends to each, and what it keeps. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/control_socket.h"
#include "bootstrap/coordinator/coordinator.h"
#include "transports/shm/card.h"
#include "transports/tcp/card.h"

#define RANKS 4096
#define RANKS_OF_HOST 8
#define BYTES_MOST (160 << 10)

static struct rd_settings settings = { .size = RANKS,
	.algo = "",
	.channels = 1,
	.piece_size = 1 << 17,
	.timeout_ms = 1000,
	.init_timeout_ms = 1000,
	.heartbeat_timeout_ms = 1000 };
static uint32_t seed = 1;

static uint16_t draw_port(void)
{
	seed = seed * 1664525u + 1013904223u;
	return (uint16_t)(32768 + (seed >> 16) % 28232);
}

static void add_shm_card(struct rd_card *card)
{
	struct rd_shm_card shm;

	cr_assert_eq(rd_shm_card_make(&shm, 0), 0);
	strcpy(card->transport, "shm");
	card->size = sizeof(shm);
	memcpy(card->bytes, &shm, sizeof(shm));
}

static void add_tcp_card(struct rd_card *card, const struct rd_place *place, int host)
{
	struct sockaddr_storage address = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&address;
	struct rd_tcp_card tcp;

	in->sin_family = AF_INET;
	in->sin_port = htons(draw_port());
	in->sin_addr.s_addr = htonl(0x0a000000u + (unsigned)host);
	rd_tcp_card_init(&tcp, place);
	rd_tcp_card_add(&tcp, &address);
	tcp.shared = 1;
	strcpy(card->transport, "tcp");
	card->size = sizeof(tcp);
	memcpy(card->bytes, &tcp, sizeof(tcp));
}

static void fill_identity(struct rd_identity *identity, int rank)
{
	struct rd_place *place = &identity->member.place;
	int host = rank / RANKS_OF_HOST, slot = rank % RANKS_OF_HOST;

	memset(identity, 0, sizeof(*identity));
	*place = (struct rd_place){
		.pid = draw_port() * 10, .core = slot, .slot = slot, .gpu = -1, .device = -1
	};
	snprintf(place->host_name, sizeof(place->host_name), "node%03d", host);
	snprintf(place->host_id, sizeof(place->host_id), "5f0a9c6e-%04d-boot", host);
	identity->member.lineage.origin = rank;
	identity->member.lineage.port = draw_port();
	snprintf(identity->member.lineage.address, sizeof(identity->member.lineage.address),
		"10.0.%d.%d", host / 256, host % 256);
	add_shm_card(&identity->cards[0]);
	add_tcp_card(&identity->cards[1], place, host);
}

/* Messages and bytes to one rank so far. */
struct traffic {
	size_t messages, bytes;
};

static void take_all(struct rd_coordinator *coordinator, int connection, struct traffic *traffic)
{
	static unsigned char frame[RD_FRAME_MAX];
	struct rd_control_message message;

	while (rd_coordinator_next(coordinator, connection, &message)) {
		traffic->messages++;
		traffic->bytes += rd_control_encode(&message, frame);
	}
}

static void send_hello(struct rd_coordinator *coordinator, int connection, int rank)
{
	static struct rd_control_message message;

	memset(&message, 0, sizeof(message));
	message.kind = RD_CONTROL_HELLO;
	message.hello.version = RD_WIRE_VERSION;
	message.hello.rank = rank;
	message.hello.size = RANKS;
	snprintf(message.hello.library, sizeof(message.hello.library), "%s", rondo_version());
	message.hello.digest = rd_settings_digest(&settings);
	message.hello.channels = settings.channels;
	message.hello.piece_size = settings.piece_size;
	fill_identity(&message.hello.identity, rank);
	rd_coordinator_take(coordinator, connection, &message, 0);
}

static void send_kind(struct rd_coordinator *coordinator, int connection, enum rd_control_kind kind)
{
	struct rd_control_message message = { .kind = kind };

	if (kind == RD_CONTROL_READY)
		message.ready.limits = (struct rd_link_limits){ 1 << 17, true, 1, 1, 1 };
	if (kind == RD_CONTROL_COSTS) {
		message.costs.size = 100;
		memset(message.costs.text, 'c', 100);
	}
	rd_coordinator_take(coordinator, connection, &message, 0);
}

static void all_send(struct rd_coordinator *coordinator, const int *connections,
	enum rd_control_kind kind, struct traffic *traffic)
{
	for (int rank = 0; rank < RANKS; rank++)
		send_kind(coordinator, connections[rank], kind);
	for (int rank = 0; rank < RANKS; rank++)
		take_all(coordinator, connections[rank], &traffic[rank]);
}

Test(scale, of_4096_ranks_is_linear, .timeout = 60)
{
	static int connections[RANKS];
	static struct traffic traffic[RANKS];
	struct rd_coordinator *coordinator;
	struct rd_comm_id id = { 1, { 0 } };
	size_t parts;

	cr_assert_eq(rd_coordinator_create(&coordinator, &settings, "10.0.0.1:29500", &id, 0), 0);
	for (int rank = 0; rank < RANKS; rank++) {
		connections[rank] = rd_coordinator_open(coordinator, 0);
		send_hello(coordinator, connections[rank], rank);
	}
	cr_assert_eq(coordinator->error, 0, "%s", coordinator->reason);
	for (int rank = 0; rank < RANKS; rank++)
		take_all(coordinator, connections[rank], &traffic[rank]);
	parts = (size_t)coordinator->part_count;
	all_send(coordinator, connections, RD_CONTROL_READY, traffic);
	send_kind(coordinator, connections[0], RD_CONTROL_COSTS);
	all_send(coordinator, connections, RD_CONTROL_BYE, traffic);
	cr_expect_eq(coordinator->error, 0, "%s", coordinator->reason);
	for (int rank = 0; rank < RANKS; rank++) {
		/* HEARTBEAT, the table, READY, COSTS, LEFT of the first and its own. */
		cr_assert_leq(traffic[rank].messages, parts + 5, "rank %d: %zu messages", rank,
			traffic[rank].messages);
		cr_assert_leq(traffic[rank].bytes, BYTES_MOST, "rank %d: %zu bytes", rank,
			traffic[rank].bytes);
	}
	rd_coordinator_destroy(coordinator);
}

Test(scale, keeps_2_kib_for_each_rank)
{
	cr_expect_leq(sizeof(struct rd_coordinator_rank) +
			      sizeof(struct rd_coordinator_connection) +
			      sizeof(struct rd_control_socket) + sizeof(struct rd_member),
		2048);
}
