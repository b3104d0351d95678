/*
 * Flags that processes and devices watch: 32-bit counters in memory that all sides map. They count
 * upwards, cyclically. Waiters sleep on a futex. A write of a device (a GPU) bypasses the kernel
 * and wakes no waiter, so every wait also has a bound.
 */
#ifndef RD_FUTEX_H
#define RD_FUTEX_H

#include <linux/futex.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/tsan.h"

static inline bool rd_flag_reached(const uint32_t *flag, uint32_t value)
{
	if ((int32_t)(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - value) < 0)
		return false;
	rd_tsan_acquire(flag);
	return true;
}

static inline void rd_flag_write(uint32_t *flag, uint32_t value)
{
	rd_tsan_release(flag);
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
	syscall(SYS_futex, flag, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleeps until the flag may have changed from `seen`, at most most_ns nanoseconds. */
static inline void rd_flag_sleep(const uint32_t *flag, uint32_t seen, int64_t most_ns)
{
	struct timespec most = { most_ns / 1000000000, most_ns % 1000000000 };

	syscall(SYS_futex, flag, FUTEX_WAIT, seen, &most, NULL, 0);
}

#endif
