/*
 * How kernels give up: a wait ends when the host says so, or when the peer is silent for too long,
 * of which the host is told. Work is what a kernel was launched with: it has `abort flag` and
 * `timeout_ns`.
 */
#ifndef RD_ABORT_FLAG_CUH
#define RD_ABORT_FLAG_CUH

#include "device/work.h"

#ifndef RONDO_MACHINE
#define RONDO_MACHINE "machine.cuh"
#endif
#include RONDO_MACHINE

/* Between polls: whether to give up, because the host says so or the peer is silent for too long.
 */
struct patience {
	uint32_t polls;
	uint64_t since;
};

template <typename Work>
static __device__ bool is_over(const Work &work, struct patience &patience, int peer)
{
	if (++patience.polls % POLLS_A_LOOK != 0)
		return false;
	if (*(volatile uint32_t *)&work.abort_flag->stop)
		return true;
	if (patience.since == 0)
		patience.since = clock_ns();

	uint64_t waited = clock_ns() - patience.since;

	if (waited > RD_HALT_SLOW_NS)
		*(volatile uint32_t *)&work.abort_flag->slow = peer + 1;
	if (waited < work.timeout_ns)
		return false;
	*(volatile uint32_t *)&work.abort_flag->peer = peer;
	__threadfence_system();
	*(volatile uint32_t *)&work.abort_flag->error = RD_ABORT_SILENCE;
	return true;
}

template <typename Work> static __device__ void say_mismatch(const Work &work, int peer)
{
	*(volatile uint32_t *)&work.abort_flag->peer = peer;
	__threadfence_system();
	*(volatile uint32_t *)&work.abort_flag->error = RD_ABORT_MISMATCH;
}

#endif
