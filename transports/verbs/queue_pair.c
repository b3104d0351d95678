#include "transports/verbs/queue_pair.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"

/* A send of this many bytes or less goes into the request itself, if the device can do that. */
#define INLINE_WANTED 220

/* Sends without a signal between two with one; receives that are posted again at once. */
#define SIGNAL_INTERVAL 16
#define RECEIVE_BATCH 16

/* A message that meets no receive is sent again after 0.64 ms, without end. Credits prevent it. */
#define RNR_TIMER 12
#define RNR_RETRY 7

#define HOPS 64
#define PSN_MASK 0xffffffu

static int fail_number(const struct rd_verbs_queue_pair *pair, int number, const char *activity)
{
	errno = number;
	return rd_fail_errno(
		"%s:%d %s", pair->rail->port.device, pair->rail->port.number, activity);
}

/* ---- Receives ------------------------------------------------------------------------------ */

/* Messages are written to the ring: a receive has no memory of its own. */
static void post_receives(struct rd_verbs_queue_pair *pair, unsigned count)
{
	struct ibv_recv_wr requests[RECEIVE_BATCH], *refused;

	for (unsigned i = 0; i < count; i++)
		requests[i] = (struct ibv_recv_wr){
			.wr_id = (uintptr_t)pair | 1,
			.next = i + 1 < count ? &requests[i + 1] : NULL,
		};
	pair->error = ibv_post_recv(pair->qp, requests, &refused);
}

void rd_verbs_queue_pair_received(struct rd_verbs_queue_pair *pair)
{
	if (++pair->received < RECEIVE_BATCH || pair->error || pair->dead)
		return;
	pair->received = 0;
	post_receives(pair, RECEIVE_BATCH);
}

/* ---- Sends --------------------------------------------------------------------------------- */

void rd_verbs_queue_pair_post(struct rd_verbs_queue_pair *pair, struct ibv_send_wr *request,
	bool signalled, uint64_t mark)
{
	struct ibv_send_wr *refused;

	assert(rd_verbs_queue_pair_has_room(pair, 1));
	if (pair->error || pair->dead)
		return;
	pair->posted++;
	request->wr_id = (uintptr_t)pair;
	if (signalled || ++pair->unsignalled == SIGNAL_INTERVAL) {
		request->send_flags |= IBV_SEND_SIGNALED;
		pair->unsignalled = 0;
		pair->signals[pair->signals_in++ % RD_VERBS_SENDS] =
			(struct rd_verbs_signal){ pair->posted, mark };
	}
	pair->error = ibv_post_send(pair->qp, request, &refused);
}

uint64_t rd_verbs_queue_pair_sent(struct rd_verbs_queue_pair *pair)
{
	const struct rd_verbs_signal *signal = &pair->signals[pair->signals_out++ % RD_VERBS_SENDS];

	pair->done = signal->posted;
	return signal->mark;
}

/* ---- States -------------------------------------------------------------------------------- */

static int to_init(struct rd_verbs_queue_pair *pair)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)pair->rail->port.number,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	int number = rd_verbs.modify_qp(pair->qp, &attributes,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return number ? fail_number(pair, number, "cannot initialize a queue pair") : 0;
}

int rd_verbs_queue_pair_create(
	struct rd_verbs_queue_pair *pair, struct rd_verbs_rail *rail, void *owner)
{
	struct ibv_qp_init_attr attributes = {
		.qp_context = pair,
		.send_cq = rail->cq,
		.recv_cq = rail->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = RD_VERBS_SENDS,
			.max_recv_wr = RD_VERBS_RECEIVES,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = INLINE_WANTED,
		},
	};
	int err;

	*pair = (struct rd_verbs_queue_pair){ .rail = rail, .owner = owner };
	if (getrandom(&pair->psn, sizeof(pair->psn), 0) != sizeof(pair->psn))
		return rd_fail_errno("cannot draw a random number");
	pair->psn &= PSN_MASK;
	pair->qp = rd_verbs.create_qp(rail->device->pd, &attributes);
	if (!pair->qp) {
		/* Inline data is optional: a device may have less of it, or none. */
		attributes.cap.max_inline_data = 0;
		pair->qp = rd_verbs.create_qp(rail->device->pd, &attributes);
	}
	if (!pair->qp)
		return fail_number(pair, errno, "cannot make a queue pair");
	pair->inline_most = attributes.cap.max_inline_data < INLINE_WANTED
				    ? attributes.cap.max_inline_data
				    : INLINE_WANTED;
	err = to_init(pair);
	if (err)
		return err;
	for (unsigned i = 0; i < RD_VERBS_RECEIVES && !pair->error; i += RECEIVE_BATCH)
		post_receives(pair, RECEIVE_BATCH);
	return pair->error ? fail_number(pair, pair->error, "refuses receives") : 0;
}

void rd_verbs_queue_pair_destroy(struct rd_verbs_queue_pair *pair)
{
	if (pair->qp)
		rd_verbs.destroy_qp(pair->qp);
	pair->qp = NULL;
}

bool rd_verbs_queue_pair_stop(struct rd_verbs_queue_pair *pair)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };

	return rd_verbs.modify_qp(pair->qp, &attributes, IBV_QP_STATE) == 0;
}

void rd_verbs_queue_pair_address(
	const struct rd_verbs_queue_pair *pair, struct rd_verbs_address *address)
{
	const struct rd_verbs_port *port = &pair->rail->port;

	*address = (struct rd_verbs_address){
		.number = pair->qp->qp_num,
		.psn = pair->psn,
		.lid = port->lid,
		.mtu = (uint8_t)pair->rail->mtu,
		.gid_type = (uint8_t)port->gid.type,
	};
	memcpy(address->gid, port->gid.bytes, sizeof(address->gid));
}

/* InfiniBand needs the global route only between subnets, whose GIDs begin differently. */
static bool is_global(const struct rd_verbs_port *port, const struct rd_verbs_address *address)
{
	return port->ethernet || address->lid == 0 || memcmp(port->gid.bytes, address->gid, 8) != 0;
}

static int to_receive(struct rd_verbs_queue_pair *pair, const struct rd_verbs_address *address,
	const struct rd_settings *settings)
{
	const struct rd_verbs_port *port = &pair->rail->port;
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = address->mtu < pair->rail->mtu ? address->mtu : pair->rail->mtu,
		.dest_qp_num = address->number,
		.rq_psn = address->psn,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = {
			.dlid = address->lid,
			.sl = (uint8_t)settings->ib_service_level,
			.is_global = is_global(port, address),
			.port_num = (uint8_t)port->number,
			.grh = {
				.sgid_index = (uint8_t)port->gid_index,
				.hop_limit = HOPS,
				.traffic_class = (uint8_t)settings->ib_traffic_class,
			},
		},
	};
	int number;

	memcpy(attributes.ah_attr.grh.dgid.raw, address->gid, sizeof(address->gid));
	number = rd_verbs.modify_qp(pair->qp, &attributes,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	return number ? fail_number(pair, number, "finds no way to the peer's port") : 0;
}

static int to_send(struct rd_verbs_queue_pair *pair, const struct rd_settings *settings)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)settings->ib_timeout,
		.retry_cnt = (uint8_t)settings->ib_retry,
		.rnr_retry = RNR_RETRY,
		.sq_psn = pair->psn,
	};
	int number = rd_verbs.modify_qp(pair->qp, &attributes,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);

	return number ? fail_number(pair, number, "cannot connect its queue pair") : 0;
}

static int check_address(
	const struct rd_verbs_queue_pair *pair, const struct rd_verbs_address *address)
{
	const struct rd_verbs_port *port = &pair->rail->port;

	if (address->number > PSN_MASK || address->psn > PSN_MASK || address->mtu < IBV_MTU_256 ||
		address->mtu > IBV_MTU_4096 || address->gid_type > RD_VERBS_ROCE_V2)
		return rd_fail(RONDO_PROTOCOL, "the peer's queue pair has no valid address");
	if (address->gid_type != port->gid.type)
		return rd_fail(RONDO_UNREACHABLE,
			"the peer's port has %s, and %s:%d has %s (RONDO_IB_GID_INDEX chooses)",
			rd_verbs_gid_type_text(address->gid_type), port->device, port->number,
			rd_verbs_gid_type_text(port->gid.type));
	return 0;
}

int rd_verbs_queue_pair_connect(struct rd_verbs_queue_pair *pair,
	const struct rd_verbs_address *address, const struct rd_settings *settings)
{
	int err = check_address(pair, address);

	if (!err)
		err = to_receive(pair, address, settings);
	if (!err)
		err = to_send(pair, settings);
	return err;
}
