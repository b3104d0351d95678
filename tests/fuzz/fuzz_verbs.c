/*
 * The handshake of verbs: the hello of a peer, with its limits and the addresses of its queue
 * pairs, and its answer. The device is a fake one. An input has this rank's rails and limits, which
 * ports of the fake work, and then the bytes of the peer.
 */
#include "fuzz.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "transports/verbs/endpoint.h"
#include "transports/verbs/handshake.h"
#include "transports/verbs/operations.h"

#define PEER 1

/* ---- The fake device ------------------------------------------------------------------------ */

static struct ibv_context context;
static struct ibv_qp pairs[RD_VERBS_RAILS_MAX];
static int pairs_made, connected;
static unsigned broken; /* rails (bits) that refuse to be connected */

static int post_receive(
	struct ibv_qp *pair, struct ibv_recv_wr *request, struct ibv_recv_wr **refused)
{
	(void)pair;
	(void)request;
	(void)refused;
	return 0;
}

static struct ibv_mr *register_memory(struct ibv_pd *domain, void *memory, size_t size, int access)
{
	static struct ibv_mr region = { .rkey = 7 };

	(void)domain;
	(void)memory;
	(void)size;
	(void)access;
	return &region;
}

static int forget_memory(struct ibv_mr *region)
{
	(void)region;
	return 0;
}

static struct ibv_qp *create_pair(struct ibv_pd *domain, struct ibv_qp_init_attr *attributes)
{
	struct ibv_qp *pair = &pairs[pairs_made];

	(void)domain;
	(void)attributes;
	*pair = (struct ibv_qp){ .context = &context, .qp_num = (uint32_t)++pairs_made };
	return pair;
}

static int destroy_pair(struct ibv_qp *pair)
{
	(void)pair;
	return 0;
}

/* A device's firmware reads these numbers. */
static int modify_pair(struct ibv_qp *pair, struct ibv_qp_attr *attributes, int mask)
{
	(void)mask;
	if (attributes->qp_state == IBV_QPS_RTR) {
		FUZZ_CHECK(attributes->path_mtu >= IBV_MTU_256 &&
			   attributes->path_mtu <= IBV_MTU_1024);
		FUZZ_CHECK(attributes->dest_qp_num >> 24 == 0 && attributes->rq_psn >> 24 == 0);
		if (broken >> (pair - pairs) & 1)
			return ENETUNREACH;
	}
	if (attributes->qp_state == IBV_QPS_RTS)
		connected |= 1 << (pair - pairs);
	return 0;
}

static void use_fakes(void)
{
	context.ops.post_recv = post_receive;
	rd_verbs.reg_mr = register_memory;
	rd_verbs.dereg_mr = forget_memory;
	rd_verbs.create_qp = create_pair;
	rd_verbs.destroy_qp = destroy_pair;
	rd_verbs.modify_qp = modify_pair;
}

/* ---- The handshake -------------------------------------------------------------------------- */

static struct rd_settings settings;
static struct rd_local local = { .rank = 0, .size = 2, .settings = &settings };
static struct rd_verbs_device device = { .name = "fake" };
static struct rd_tcp_station station = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct rd_verbs_endpoint endpoint;

static void make_endpoint(struct fuzz_input *input)
{
	int type = fuzz_below(input, 3);

	settings = (struct rd_settings){ .slots = 2 + fuzz_below(input, 63),
		.piece_size = 64 << fuzz_below(input, 8) };
	endpoint = (struct rd_verbs_endpoint){ .base.message_max = settings.piece_size,
		.local = &local,
		.rail_count = 1 + fuzz_below(input, RD_VERBS_RAILS_MAX) };
	endpoint.connector.local = &local;
	endpoint.connector.station = &station;
	station.connectors = NULL;
	station.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	FUZZ_CHECK(station.epoll_fd >= 0);
	for (int i = 0; i < endpoint.rail_count; i++)
		endpoint.rails[i] = (struct rd_verbs_rail){
			.port = { .device = "fake",
				.number = 1 + i,
				.ethernet = type != RD_VERBS_IB,
				.gid = { .type = (enum rd_verbs_gid_type)type } },
			.device = &device,
			.mtu = IBV_MTU_1024,
			.room = RD_VERBS_COMPLETIONS,
		};
	broken = fuzz_byte(input);
	pairs_made = connected = 0;
}

/* This rank's own, from now on. */
static struct rd_verbs_link *open_link(int fd)
{
	static const struct rd_tcp_card card = { .count = 1, .shared = 1 };
	int err;
	struct rd_verbs_link *link = rd_verbs_link_create(&endpoint, PEER, 3, &err);

	FUZZ_CHECK(link);
	rd_verbs_handshake_begin(link, &card);
	/* In place of the connector, which awaits the peer. */
	link->connection.opened(link->connection.owner, &(struct rd_wire)RD_WIRE(fd));
	return link;
}

static bool was_ready; /* a link, after a handshake of today's version */

void fuzz_check_corpus(void)
{
	FUZZ_CHECK(was_ready);
}

static void check(const struct rd_verbs_link *link)
{
	const struct rd_link *base = &link->base;

	FUZZ_CHECK(endpoint.unfinished == (base->ready || base->error ? 0 : 1));
	FUZZ_CHECK(base->message_max >= 64 && base->message_max <= settings.piece_size);
	/* A ring that the peer's limits make larger would reach beyond the memory. */
	FUZZ_CHECK(sizeof(struct rd_verbs_landing) + 2 * link->size.size <= link->memory_size);
	FUZZ_CHECK(link->size.size >= 2 * link->size.most);
	if (!base->ready)
		return;
	was_ready = true;
	FUZZ_CHECK(link->connected && (link->connected & ~(unsigned)connected) == 0);
	FUZZ_CHECK(link->connected >> base->rail & 1);
}

static void receive(struct rd_verbs_link *link, struct fuzz_input *input, int peer, size_t part)
{
	bool ended = false;

	while (!ended && !link->base.error) {
		size_t now = part < input->left ? part : input->left;

		ended = now == 0;
		if (ended)
			shutdown(peer, SHUT_WR);
		else if (send(peer, input->at, now, MSG_NOSIGNAL) != (ssize_t)now)
			break;
		input->at += now;
		input->left -= now;
		link->source.handle(link->source.owner);
		check(link);
	}
	/* One event may read only a part: the end comes with the next. */
	for (int i = 0; i < 4 && !link->base.error && !link->hung_up; i++)
		link->source.handle(link->source.owner);
	FUZZ_CHECK(link->base.error || link->hung_up);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };
	struct rd_verbs_link *link;
	int ends[2];

	use_fakes();
	make_endpoint(&input);
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	link = open_link(ends[0]);
	receive(link, &input, ends[1], 1 + 4 * (size_t)fuzz_byte(&input));
	rd_verbs_link_destroy(link);
	close(ends[1]);
	close(station.epoll_fd);
	return 0;
}
