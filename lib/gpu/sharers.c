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

struct sharer {
	int rank;
	uint32_t rounds; /* how often it has come */
	void *stream;
};

/* Transfers from one sharer to another that are queued. */
struct pair {
	uint32_t sent, received;
};

struct rd_sharers {
	struct rd_sharers *next;
	uint64_t comm_id;
	int device;
	int holders;
	struct pair *pairs; /* by sender and receiver */
	int count;
	struct sharer members[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rd_sharers *all;

/* Whether the peer is a sharer, or this rank itself. */
static bool shares(const struct rd_gpu *gpu, int peer)
{
	const struct rd_member *members = rd_control_members(gpu->comm->control);
	int rank = gpu->comm->rank;

	return rd_peers_one_process(gpu->comm, peer, rank) &&
	       members[peer].place.device_pci == members[rank].place.device_pci;
}

static struct rd_sharers *make(const struct rd_gpu *gpu, int count)
{
	size_t n = (size_t)count;
	struct rd_sharers *sharers = calloc(1, sizeof(*sharers) + n * sizeof(*sharers->members));

	if (!sharers)
		return NULL;
	sharers->pairs = calloc(n * n, sizeof(*sharers->pairs));
	if (!sharers->pairs) {
		free(sharers);
		return NULL;
	}
	sharers->comm_id = gpu->comm->local.comm_id;
	sharers->device = gpu->device;
	for (int rank = 0; rank < gpu->comm->size; rank++)
		if (shares(gpu, rank))
			sharers->members[sharers->count++].rank = rank;
	return sharers;
}

/* The member's number; -1: the rank is none. */
static int member_of(const struct rd_sharers *sharers, int rank)
{
	for (int i = 0; i < sharers->count; i++)
		if (sharers->members[i].rank == rank)
			return i;
	return -1;
}

static struct sharer *own_member(const struct rd_gpu *gpu)
{
	return &gpu->sharers->members[member_of(gpu->sharers, gpu->comm->rank)];
}

static struct pair *pair_of(const struct rd_gpu *gpu, int sender, int receiver)
{
	int from = member_of(gpu->sharers, sender), to = member_of(gpu->sharers, receiver);

	return &gpu->sharers->pairs[from * gpu->sharers->count + to];
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
	struct rd_sharers *sharers;
	int count = 0;

	for (int peer = 0; peer < gpu->comm->size; peer++)
		count += shares(gpu, peer);
	if (count < 2)
		return 0;
	pthread_mutex_lock(&lock);
	sharers = find(gpu);
	if (!sharers) {
		sharers = make(gpu, count);
		if (sharers) {
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
		free(gpu->sharers->pairs);
		free(gpu->sharers);
	}
	gpu->sharers = NULL;
	pthread_mutex_unlock(&lock);
}

bool rd_sharers_has(const struct rd_gpu *gpu, int peer)
{
	return gpu->sharers && peer != gpu->comm->rank && member_of(gpu->sharers, peer) >= 0;
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
		if (waited_ms > rd_comm_timeout_ms(gpu->comm))
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
	struct rd_sharers *sharers = gpu->sharers;
	uint32_t round;
	int err = 0;

	if (!sharers)
		return 0;
	round = own_member(gpu)->rounds + 1;
	rd_flag_write(&own_member(gpu)->rounds, round);
	for (int i = 0; i < sharers->count && !err; i++)
		err = await(gpu, sharers->members[i].rank, &sharers->members[i].rounds, round);
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
	const struct sharer *members;
	int err;

	if (!gpu->sharers)
		return 0;
	members = gpu->sharers->members;
	own_member(gpu)->stream = stream;
	err = rd_sharers_meet(gpu);
	for (int i = 0; i < gpu->sharers->count && !err; i++)
		for (int k = i + 1; k < gpu->sharers->count && !err; k++)
			if (members[i].stream == members[k].stream)
				err = refuse_stream(gpu, members[i].rank, members[k].rank);
	return err;
}

void rd_sharers_note_send(struct rd_gpu *gpu, int peer)
{
	uint32_t *sent;

	if (!rd_sharers_has(gpu, peer))
		return;
	sent = &pair_of(gpu, gpu->comm->rank, peer)->sent;
	rd_flag_write(sent, *sent + 1);
}

int rd_sharers_await_send(struct rd_gpu *gpu, int peer)
{
	struct pair *pair;

	if (!rd_sharers_has(gpu, peer))
		return 0;
	pair = pair_of(gpu, peer, gpu->comm->rank);
	return await(gpu, peer, &pair->sent, ++pair->received);
}
