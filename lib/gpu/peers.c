#include "gpu/peers.h"

#include <string.h>

#include "base/log.h"
#include "comm/connect.h"
#include "comm/hold.h"
#include "device/devmem.h"
#include "device/region.h"

/* ---- Meeting ------------------------------------------------------------------------------- */

int rd_peers_gather(struct rd_gpu *gpu, const void *mine, void *all, size_t size)
{
	struct rondo_comm *comm = gpu->comm;
	struct rd_task task = {
		.comm = comm,
		.call = {
			.problem = { .collective = RD_ALL_GATHER,
				.rank = comm->rank,
				.size = comm->size,
				.layout = comm->layouts[0] },
			.type = RONDO_U8,
			.count = size,
			.in = mine,
			.out = all,
		},
	};

	if (comm->size == 1) {
		memcpy(all, mine, size);
		return 0;
	}
	comm->calls_itself = true;
	rd_tasks_issue(&task, 1);

	int err = rd_run(&task, 1);

	comm->calls_itself = false;
	return err;
}

int rd_peers_agree(struct rd_gpu *gpu, bool mine, bool *all)
{
	unsigned char one = mine, answers[RD_WORK_RANKS];
	int err = rd_peers_gather(gpu, &one, answers, 1);

	*all = !err;
	for (int rank = 0; rank < gpu->comm->size && !err; rank++)
		*all &= answers[rank];
	return err;
}

/* Regions are offered over links that are open. */
int rd_peers_connect(struct rd_gpu *gpu)
{
	struct rondo_comm *comm = gpu->comm;
	int err;

	if (!comm->maps || comm->size > RD_WORK_RANKS)
		return 0;
	err = rd_buffer_exchange_make(comm);
	return err ? err : rd_connect_now(comm, &comm->exchange->all_peers);
}

static bool offer_host_flags(struct rd_gpu *gpu, uint64_t *id)
{
	struct rondo_comm *comm = gpu->comm;
	struct rd_region region;
	bool offered = true;

	if (!comm->maps || !rd_region_find(gpu->host_flags, sizeof(*gpu->host_flags), &region))
		return false;
	*id = region.id;
	if (!rd_hold(comm))
		return false;
	for (int i = 0; i < comm->endpoint_count && offered; i++)
		if (comm->endpoints[i]->transport->offer)
			offered = comm->endpoints[i]->transport->offer(
				comm->endpoints[i], region.id, region.fd, region.size);
	rd_unhold(comm);
	return offered;
}

void rd_peers_offer(struct rd_gpu *gpu, struct rd_gpu_card *card)
{
	struct rondo_comm *comm = gpu->comm;
	void *device_flags;

	rd_devmem_create(gpu->ops, gpu->device, sizeof(*gpu->device_flags), &device_flags);
	gpu->device_flags = gpu->peer_device_flags[comm->rank % RD_WORK_RANKS] = device_flags;
	card->device_flags_address = (uintptr_t)device_flags;
	card->able = device_flags &&
		     gpu->ops->export(device_flags, &card->device_flags_handle) == 0 &&
		     offer_host_flags(gpu, &card->host_flags_id);
	if (!card->able)
		rd_log(RD_INFO, RD_ROUTE, "device memory of rank %d is not for others: %s",
			comm->rank, comm->maps ? rondo_last_error() : "its links map no memory");
}

/* ---- Mapping ------------------------------------------------------------------------------- */

bool rd_peers_one_process(const struct rondo_comm *comm, int a, int b)
{
	const struct rd_member *members = rd_control_members(comm->control);

	return rd_place_same_process(&members[a].place, &members[b].place);
}

static bool map_host_flags(struct rd_gpu *gpu, int peer, const struct rd_gpu_card *card)
{
	struct rd_link *link = gpu->comm->links[peer * gpu->comm->channels];
	size_t size = 0;
	void *host_flags;

	if (!rd_hold(gpu->comm))
		return false;
	host_flags = link->transport->map ? link->transport->map(link, card->host_flags_id, &size)
					  : NULL;
	rd_unhold(gpu->comm);

	if (!host_flags || size < sizeof(struct rd_host_flags) ||
		gpu->ops->share(gpu->device, host_flags, size))
		return false;
	gpu->peer_flags[peer] = host_flags;
	return true;
}

static bool map_device_flags(
	struct rd_gpu *gpu, int peer, const struct rd_gpu_card *card, int there)
{
	void *base;
	size_t size;

	if (gpu->same_process[peer]) {
		struct rd_device_flags *device_flags =
			(struct rd_device_flags *)(uintptr_t)card->device_flags_address;

		if (!rd_devmem_get(device_flags))
			return false;
		gpu->peer_device_flags[peer] = device_flags;
		return there == gpu->device || gpu->ops->peer(gpu->device, there) == 0;
	}
	if (gpu->ops->import(gpu->device, &card->device_flags_handle, &base, &size))
		return false;
	gpu->peer_device_flags[peer] = base;
	return size >= sizeof(struct rd_device_flags);
}

void rd_peers_find_own_process(struct rd_gpu *gpu)
{
	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++)
		gpu->same_process[peer] = rd_peers_one_process(gpu->comm, peer, gpu->comm->rank);
}

static bool map_peers(struct rd_gpu *gpu, const struct rd_gpu_card *cards)
{
	const struct rd_member *members = rd_control_members(gpu->comm->control);
	const struct rondo_comm *comm = gpu->comm;

	for (int peer = 0; peer < comm->size; peer++) {
		const struct rd_place *there = &members[peer].place;

		if (peer == comm->rank)
			continue;
		if (!map_host_flags(gpu, peer, &cards[peer]) ||
			!map_device_flags(gpu, peer, &cards[peer], there->device)) {
			rd_log(RD_INFO, RD_ROUTE, "rank %d cannot map device memory of rank %d: %s",
				comm->rank, peer, rondo_last_error());
			return false;
		}
	}
	return true;
}

static uint32_t check_of(const struct rd_gpu *gpu, int from, int to)
{
	return (uint32_t)gpu->comm->local.comm_id ^ ((uint32_t)from * 256 + (uint32_t)to + 1);
}

/* Every rank writes a flag into the device flags of every rank. */
static bool write_checks(struct rd_gpu *gpu)
{
	int rank = gpu->comm->rank;

	for (int peer = 0; peer < gpu->comm->size; peer++) {
		gpu->host_flags->check = check_of(gpu, rank, peer);
		if (gpu->ops->copy(gpu->device, gpu->stream,
			    &gpu->peer_device_flags[peer]->checked[rank], &gpu->host_flags->check,
			    sizeof(uint32_t)) ||
			gpu->ops->stream_synchronize(gpu->device, gpu->stream))
			return false;
	}
	return true;
}

static bool read_checks(struct rd_gpu *gpu)
{
	for (int peer = 0; peer < gpu->comm->size; peer++) {
		if (gpu->ops->copy(gpu->device, gpu->stream, &gpu->host_flags->check,
			    &gpu->device_flags->checked[peer], sizeof(uint32_t)) ||
			gpu->ops->stream_synchronize(gpu->device, gpu->stream) ||
			gpu->host_flags->check != check_of(gpu, peer, gpu->comm->rank))
			return false;
	}
	return true;
}

int rd_peers_try(struct rd_gpu *gpu, const struct rd_gpu_card *cards, bool *direct)
{
	struct rondo_comm *comm = gpu->comm;
	int err;

	*direct = comm->size <= RD_WORK_RANKS && comm->size > 1;
	for (int rank = 0; rank < comm->size && *direct; rank++)
		*direct = cards[rank].able;
	if (!*direct)
		return 0;
	err = rd_peers_agree(gpu, map_peers(gpu, cards) && write_checks(gpu), direct);
	if (!err && *direct)
		err = rd_peers_agree(gpu, read_checks(gpu), direct);
	return err;
}

void rd_peers_unmap(struct rd_gpu *gpu)
{
	for (int peer = 0; peer < RD_WORK_RANKS; peer++) {
		if (gpu->peer_flags[peer] && gpu->peer_flags[peer] != gpu->host_flags)
			gpu->ops->unshare(gpu->device, gpu->peer_flags[peer]);
		if (!gpu->peer_device_flags[peer])
			continue;
		if (gpu->peer_device_flags[peer] == gpu->device_flags || gpu->same_process[peer])
			rd_devmem_put(gpu->peer_device_flags[peer]);
		else
			gpu->ops->drop(gpu->device, gpu->peer_device_flags[peer]);
	}
}
