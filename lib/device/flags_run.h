/*
 * How kernels exchange flags: one source for every GPU. nvcc compiles it (cuda/block.cuh), and a
 * C++ compiler, for the tests' driver. The includer defines first:
 *
 *	ON_DEVICE	qualifies each function
 *	POLLS_PER_CHECK	polls of a flag between two checks of the clock and the abort flag
 *	REST(polls)	a pause, after this many polls in vain
 *	uint4		four 32-bit words x, y, z, w
 *	store_words(), load_words()	16 bytes; each 8 of them are stored and loaded at once
 *	load_flag(), set_flag()	one 32-bit word
 *	fence()		with the store of a flag after it, a release; with the load of a flag before
 *			it, an acquire; for all devices and the host
 *	clock_ns()
 *
 * A flag counts upwards and is never cleared. Where one has not come, a rank waits or gives up. So
 * no rank relies on its own flag's store being seen before it looks for a peer's: no fence must be
 * sequentially consistent.
 */
#ifndef RD_FLAGS_RUN_H
#define RD_FLAGS_RUN_H

#include "device/work.h"

/* ---- Failures ------------------------------------------------------------------------------- */

/* Reports to the host that work with this peer fails. */
static inline ON_DEVICE void report(struct rd_abort_flag *abort_flag, int peer, uint32_t error)
{
	set_flag(&abort_flag->peer, (uint32_t)peer);
	fence();
	set_flag(&abort_flag->error, error);
}

/* ---- Waits ---------------------------------------------------------------------------------- */

/* A wait for one peer. Starts as zeros. */
struct wait {
	uint32_t polls;
	uint64_t since_ns; /* 0: no check yet */
};

/* Call it after each poll in vain. True: the host stopped the work, or the peer was silent for
   timeout_ns, which this reports. */
static inline ON_DEVICE bool gave_up(
	struct rd_abort_flag *abort_flag, uint64_t timeout_ns, struct wait *wait, int peer)
{
	uint64_t waited_ns;

	if (++wait->polls % POLLS_PER_CHECK != 0)
		return false;
	if (load_flag(&abort_flag->stop))
		return true;
	if (wait->since_ns == 0)
		wait->since_ns = clock_ns();
	waited_ns = clock_ns() - wait->since_ns;
	if (waited_ns > RD_ABORT_SLOW_NS)
		set_flag(&abort_flag->slow, (uint32_t)peer + 1);
	if (waited_ns < timeout_ns)
		return false;
	report(abort_flag, peer, RD_ABORT_SILENCE);
	return true;
}

/* True: all that the peer wrote before the flag can be read. */
static inline ON_DEVICE bool has_reached(const uint32_t *flag, uint32_t number)
{
	if ((int32_t)(load_flag(flag) - number) < 0)
		return false;
	fence();
	return true;
}

/* Waits until has_reached(). False: it gave up. */
static inline ON_DEVICE bool await_flag(struct rd_abort_flag *abort_flag, uint64_t timeout_ns,
	const uint32_t *flag, uint32_t number, int peer)
{
	struct wait wait = { 0, 0 };

	while (!has_reached(flag, number)) {
		if (gave_up(abort_flag, timeout_ns, &wait, peer))
			return false;
		REST(wait.polls);
	}
	return true;
}

/* ---- LL: data with flags -------------------------------------------------------------------- */

static inline ON_DEVICE void store_ll(struct rd_ll *ll, uint64_t data, uint32_t number)
{
	store_words(&ll->low, (uint32_t)data, number, (uint32_t)(data >> 32), number);
}

static inline ON_DEVICE uint4 load_ll(const struct rd_ll *ll)
{
	return load_words(&ll->low);
}

/* Each half of the data has its own flag: both halves must be of this number. */
static inline ON_DEVICE bool is_complete(uint4 words, uint32_t number)
{
	return words.y == number && words.w == number;
}

static inline ON_DEVICE uint64_t data_of(uint4 words)
{
	return (uint64_t)words.z << 32 | words.x;
}

#endif
