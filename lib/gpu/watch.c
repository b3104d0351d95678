#include "gpu/watch.h"

#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"
#include "gpu/peers.h"

/* Added to flags to end all waits for them: beyond any number in use. */
#define BEYOND (1u << 30)

/* Before this rank's kernels or stream go on without their part, which peers take for done. */
static void warn_peers(struct rd_gpu *gpu)
{
	uint32_t us = (uint32_t)gpu->comm->rank + 1;

	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++)
		if (peer != gpu->comm->rank && gpu->peer_flags[peer])
			__atomic_store_n(
				&gpu->peer_flags[peer]->abort_flag.warned, us, __ATOMIC_RELEASE);
}

/* The caller's thread counts. */
static uint32_t count_of(const uint32_t *count)
{
	return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

/* Whether this rank has released its streams for so long that a peer's kernel, which had begun
   before, has ended. */
static bool has_released_for_long(struct rd_gpu *gpu)
{
	int64_t never = 0, now_ns = rd_clock_ns();

	atomic_compare_exchange_strong(&gpu->released_ns, &never, now_ns);
	return now_ns - gpu->released_ns > RD_WATCH_LEAVE_MS * INT64_C(1000000);
}

/* Ends everything that waits for this rank's flags, at last for peers that are at work in its
   buffers. A late peer may still write a smaller number: rd_gpu_end_waits() repeats this until the
   streams have ended. */
static void release_waits(struct rd_gpu *gpu)
{
	struct rd_host_flags *host_flags = gpu->host_flags;
	uint32_t beyond = count_of(&gpu->announced) + BEYOND;

	/* First, for a kernel that sees `stop` leaves its part undone. */
	warn_peers(gpu);
	__atomic_store_n(&host_flags->abort_flag.stop, 1, __ATOMIC_RELEASE);
	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++) {
		rd_flag_write(&host_flags->entered[peer], beyond);
		rd_flag_write(&host_flags->offered[peer], count_of(&gpu->received[peer]) + BEYOND);
		if (!has_released_for_long(gpu))
			continue;
		rd_flag_write(&host_flags->left[peer], beyond);
		rd_flag_write(&host_flags->taken[peer], count_of(&gpu->sent[peer]) + BEYOND);
	}
	rd_flag_write(&gpu->own_flags->mapped, beyond);
}

int rd_gpu_watch_rank(const struct rd_gpu *gpu, uint32_t number)
{
	const struct rondo_comm *comm = gpu->comm;

	return number < (uint32_t)comm->size ? (int)number : comm->rank;
}

static void report_transfer(struct rd_gpu *gpu, int peer)
{
	const struct rd_abort_flag *abort_flag = &gpu->host_flags->abort_flag;

	rd_fail(RONDO_MISMATCH, "rank %d sends %llu %s to rank %d, which receives %llu %s", peer,
		(unsigned long long)abort_flag->counts[0], rondo_type_name(abort_flag->types[0]),
		gpu->comm->rank, (unsigned long long)abort_flag->counts[1],
		rondo_type_name(abort_flag->types[1]));
	rd_comm_fail(gpu->comm, RONDO_MISMATCH, peer);
}

/* A kernel has given up. */
static void report_abort(struct rd_gpu *gpu, uint32_t error)
{
	struct rondo_comm *comm = gpu->comm;
	const struct rd_abort_flag *abort_flag = &gpu->host_flags->abort_flag;
	/* Another thread of the kernel may write it now, for another peer. */
	int peer = rd_gpu_watch_rank(gpu, __atomic_load_n(&abort_flag->peer, __ATOMIC_RELAXED));

	if (error == RD_ABORT_MISMATCH) {
		rd_fail(RONDO_MISMATCH, "rank %d made another call on its device than rank %d",
			peer, comm->rank);
		rd_comm_fail(comm, RONDO_MISMATCH, peer);
		return;
	}
	if (error == RD_ABORT_TRANSFER) {
		report_transfer(gpu, peer);
		return;
	}
	rd_fail(RONDO_TIMEOUT, "rank %d's kernel waited %d ms for rank %d", comm->rank,
		rd_comm_timeout_ms(comm), peer);
	rd_comm_fail(comm, RONDO_TIMEOUT, peer);
}

int rd_gpu_watch(struct rd_gpu *gpu)
{
	struct rondo_comm *comm = gpu->comm;
	uint32_t error = __atomic_load_n(&gpu->host_flags->abort_flag.error, __ATOMIC_ACQUIRE);
	uint32_t warned = __atomic_load_n(&gpu->host_flags->abort_flag.warned, __ATOMIC_ACQUIRE);

	if (error && !atomic_load(&comm->failed))
		report_abort(gpu, error);
	if (warned && !atomic_load(&comm->failed)) {
		int peer = rd_gpu_watch_rank(gpu, warned - 1);

		rd_fail(RONDO_BROKEN, "rank %d gave up a call on devices", peer);
		rd_comm_fail(comm, RONDO_BROKEN, peer);
	}
	if (!atomic_load(&comm->failed))
		return 0;

	int err = rd_comm_failure(comm);

	release_waits(gpu);
	rd_async_error_set(gpu->async_error, err);
	return err;
}

void rd_gpu_await_peers(struct rd_gpu *gpu)
{
	const struct rd_host_flags *host_flags = gpu->host_flags;

	if (!rd_gpu_goes_directly(gpu))
		return;
	for (int peer = 0; peer < gpu->comm->size; peer++) {
		const uint32_t *left = &host_flags->left[peer], *taken = &host_flags->taken[peer];

		for (int round = 0; peer != gpu->comm->rank && rd_gpu_watch(gpu) &&
				    (!rd_flag_reached(left, count_of(&gpu->announced)) ||
					    !rd_flag_reached(taken, count_of(&gpu->sent[peer])));
			round++)
			rd_gpu_watch_pause(left, count_of(&gpu->announced), round);
	}
}

int rd_gpu_watch_report(struct rd_gpu *gpu, int64_t waited_ms, int peer, const char *where)
{
	struct rondo_comm *comm = gpu->comm;

	rd_fail(RONDO_TIMEOUT, "rank %d waited %lld ms for rank %d %s", comm->rank,
		(long long)waited_ms, peer, where);
	rd_comm_fail(comm, RONDO_TIMEOUT, peer);
	return rd_gpu_watch(gpu);
}

void rd_gpu_watch_pause(const uint32_t *flag, uint32_t value, int round)
{
	uint32_t seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE);

	if (round < RD_WATCH_YIELDS)
		sched_yield();
	else if (!rd_flag_reached(flag, value))
		rd_flag_sleep(flag, seen, RD_WATCH_SLEEP_NS);
}

int rd_gpu_watch_flag(
	struct rd_gpu *gpu, const uint32_t *flag, uint32_t value, int peer, uint32_t number)
{
	const uint32_t *ready = &gpu->stream_flags->ready;
	int64_t began = 0;
	int reported_ms = 0;

	for (int round = 0; !rd_flag_reached(flag, value); round++) {
		int64_t now = rd_clock_ns(), waited_ms;
		int err = rd_gpu_watch(gpu);

		if (err)
			return err;
		if (began == 0 && (number == 0 || rd_flag_reached(ready, number)))
			began = now;
		waited_ms = began ? (now - began) / 1000000 : 0;
		if (peer >= 0)
			rd_comm_slow(gpu->comm, &reported_ms, waited_ms, peer,
				"to join a call on devices");
		if (peer >= 0 && waited_ms > rd_comm_timeout_ms(gpu->comm))
			return rd_gpu_watch_report(
				gpu, waited_ms, peer, "to join a call on devices");
		rd_gpu_watch_pause(flag, value, round);
	}
	return 0;
}

void rd_gpu_end_waits(struct rd_gpu *gpu, int64_t *since_ns)
{
	uint32_t *finished = &gpu->stream_flags->finished, number = count_of(&gpu->number);
	int64_t now_ns = rd_clock_ns();

	release_waits(gpu);
	if (*since_ns == 0)
		*since_ns = now_ns;
	if (rd_flag_reached(finished, number) ||
		now_ns - *since_ns < RD_WATCH_RELEASE_MS * INT64_C(1000000))
		return;
	rd_log(RD_WARN, RD_ROUTE,
		"rank %d: a stream does not end after a failure: its memory is kept",
		gpu->comm->rank);
	gpu->broken = true;
	rd_flag_write(finished, number);
}

/* The progress thread watches meanwhile: a dead peer ends this too. */
void rd_gpu_await(const struct rd_gpu *gpu, uint32_t number)
{
	const uint32_t *finished = &gpu->stream_flags->finished;

	while (!rd_flag_reached(finished, number))
		rd_flag_sleep(
			finished, __atomic_load_n(finished, __ATOMIC_ACQUIRE), RD_WATCH_SLEEP_NS);
}
