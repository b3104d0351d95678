#include "gpu/sharers.h"

#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "gpu/peers.h"
#include "gpu/watch.h"

/* Bound in ns of a sleep: also a failure of the comm ends the wait. */
#define SLEEP_NS 1000000

struct rd_sharers {
	struct rd_sharers *next;
	uint64_t comm_id;
	int device;
	int holders;
	uint32_t ranks; /* a bit each */
	uint32_t meetings[RD_WORK_RANKS]; /* how often each has come */
	void *streams[RD_WORK_RANKS];
	uint32_t sent[RD_WORK_RANKS]
		     [RD_WORK_RANKS]; /* sends that are queued, by sender and receiver */
	uint32_t received[RD_WORK_RANKS][RD_WORK_RANKS]; /* the same of receives */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rd_sharers *all;

static uint32_t find_ranks(const struct rd_gpu *gpu)
{
	const struct rd_member *members = rd_control_members(gpu->comm->control);
	uint32_t pci = members[gpu->comm->rank].place.device_pci, ranks = 0;

	for (int peer = 0; peer < gpu->comm->size; peer++)
		if (gpu->same_process[peer] && members[peer].place.device_pci == pci)
			ranks |= 1u << peer;
	return ranks;
}

static struct rd_sharers *find(const struct rd_gpu *gpu)
{
	for (struct rd_sharers *sharers = all; sharers; sharers = sharers->next)
		if (sharers->comm_id == gpu->comm->local.comm_id && sharers->device == gpu->device)
			return sharers;
	return NULL;
}

int rd_sharers_join(struct rd_gpu *gpu)
{
	uint32_t ranks = gpu->comm->size <= RD_WORK_RANKS ? find_ranks(gpu) : 0;
	struct rd_sharers *sharers;

	if ((ranks & (ranks - 1)) == 0)
		return 0;
	pthread_mutex_lock(&lock);
	sharers = find(gpu);
	if (!sharers) {
		sharers = calloc(1, sizeof(*sharers));
		if (sharers) {
			sharers->comm_id = gpu->comm->local.comm_id;
			sharers->device = gpu->device;
			sharers->ranks = ranks;
			sharers->next = all;
			all = sharers;
		}
	}
	if (sharers)
		sharers->holders++;
	gpu->sharers = sharers;
	pthread_mutex_unlock(&lock);
	return sharers ? 0 : rd_fail(RONDO_MEMORY, "no memory for a comm's device");
}

void rd_sharers_leave(struct rd_gpu *gpu)
{
	if (!gpu->sharers)
		return;
	pthread_mutex_lock(&lock);
	if (--gpu->sharers->holders == 0) {
		struct rd_sharers **at = &all;

		while (*at != gpu->sharers)
			at = &(*at)->next;
		*at = gpu->sharers->next;
		free(gpu->sharers);
	}
	gpu->sharers = NULL;
	pthread_mutex_unlock(&lock);
}

bool rd_sharers_has(const struct rd_gpu *gpu, int peer)
{
	return gpu->sharers && gpu->sharers->ranks >> peer & 1 && peer != gpu->comm->rank;
}

static int await(struct rd_gpu *gpu, int peer, const uint32_t *flag, uint32_t value)
{
	int64_t began = rd_clock_ns();
	int reported_ms = 0;

	for (int round = 0; !rd_flag_reached(flag, value); round++) {
		int64_t waited_ms = (rd_clock_ns() - began) / 1000000;
		uint32_t seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
		int err = rd_gpu_watch(gpu);

		if (err)
			return err;
		rd_comm_slow(
			gpu->comm, &reported_ms, waited_ms, peer, "to queue a call on devices");
		if (waited_ms > gpu->comm->settings.timeout_ms)
			return rd_gpu_watch_report(
				gpu, waited_ms, peer, "to queue a call on devices");
		if (round < RD_WATCH_YIELDS)
			sched_yield();
		else if (!rd_flag_reached(flag, value))
			rd_flag_sleep(flag, seen, SLEEP_NS);
	}
	return 0;
}

int rd_sharers_meet(struct rd_gpu *gpu)
{
	int rank = gpu->comm->rank, err = 0;
	uint32_t meeting;

	if (!gpu->sharers)
		return 0;
	meeting = gpu->sharers->meetings[rank] + 1;
	rd_flag_write(&gpu->sharers->meetings[rank], meeting);
	for (int peer = 0; peer < gpu->comm->size && !err; peer++)
		if (rd_sharers_has(gpu, peer))
			err = await(gpu, peer, &gpu->sharers->meetings[peer], meeting);
	return err;
}

static int refuse_stream(struct rd_gpu *gpu, int rank, int peer)
{
	rd_fail(RONDO_INVALID,
		"ranks %d and %d of this process hand in the same stream, in which one would wait "
		"for the other: give each rank a stream of its own",
		rank, peer);
	return rd_comm_fail(gpu->comm, RONDO_INVALID, rank);
}

int rd_sharers_begin(struct rd_gpu *gpu, void *stream)
{
	void **streams;
	int err;

	if (!gpu->sharers)
		return 0;
	streams = gpu->sharers->streams;
	streams[gpu->comm->rank] = stream;
	err = rd_sharers_meet(gpu);
	for (int rank = 0; rank < gpu->comm->size && !err; rank++)
		for (int peer = rank + 1; peer < gpu->comm->size && !err; peer++)
			if (gpu->sharers->ranks >> rank & 1 && gpu->sharers->ranks >> peer & 1 &&
				streams[rank] == streams[peer])
				err = refuse_stream(gpu, rank, peer);
	return err;
}

void rd_sharers_note_send(struct rd_gpu *gpu, int peer)
{
	uint32_t *sent;

	if (!rd_sharers_has(gpu, peer))
		return;
	sent = &gpu->sharers->sent[gpu->comm->rank][peer];
	rd_flag_write(sent, *sent + 1);
}

int rd_sharers_await_send(struct rd_gpu *gpu, int peer)
{
	int rank = gpu->comm->rank;

	if (!rd_sharers_has(gpu, peer))
		return 0;
	return await(
		gpu, peer, &gpu->sharers->sent[peer][rank], ++gpu->sharers->received[peer][rank]);
}
