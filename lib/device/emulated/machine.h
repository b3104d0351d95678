/*
 * The primitives of an emulated GPU for the kernels' shared sources (flags_run.h, work_run.h,
 * steps_run.h, transfer_run.h). The calling thread is a kernel's one block, and its only thread.
 */
#ifndef RD_EMULATED_MACHINE_H
#define RD_EMULATED_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/tsan.h"

#define ON_DEVICE
#define THREAD 0
#define THREADS_HERE 1
#define NEXT_PEER(peer) ((peer) + 1)
#define BLOCK 0
#define BLOCKS(count) ((void)(count), 1)
#define ALL_BLOCKS 1
#define SYNC_BLOCK() ((void)0)
#define TYPED
#define ELEMENTS struct elements
#define UNROLL
#define KEEP_LOOP
#define POLLS_PER_CHECK 1
#define REST(polls) rest(polls)

/* Polls that yield; later ones sleep, because a peer's thread may need this one's core. */
#define YIELDS 20
#define REST_NS 50000

struct elements {
	size_t size; /* bytes of an element */
};

typedef struct uint4 {
	uint32_t x, y, z, w;
} uint4;

static inline void rest(uint32_t polls)
{
	const struct timespec moment = { 0, REST_NS };

	if (polls < YIELDS)
		sched_yield();
	else
		nanosleep(&moment, NULL);
}

static inline uint64_t clock_ns(void)
{
	return (uint64_t)rd_clock_ns();
}

static inline void fence(void)
{
	/* Each store below releases what precedes it, and each load acquires. */
}

static inline uint32_t load_flag(const uint32_t *flag)
{
	uint32_t number = __atomic_load_n(flag, __ATOMIC_ACQUIRE);

	rd_tsan_acquire(flag);
	return number;
}

static inline void set_flag(uint32_t *flag, uint32_t number)
{
	rd_tsan_release(flag);
	__atomic_store_n(flag, number, __ATOMIC_RELEASE);
}

/* Each half is atomic by itself. In places another rank's thread runs in between, so that a reader
   which checks one flag alone reads half of the data. */
static inline void store_words(uint32_t *at, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	rd_tsan_release(at);
	__atomic_store_n((uint64_t *)at, (uint64_t)b << 32 | a, __ATOMIC_RELEASE);
	if ((uintptr_t)at % 1024 == 16)
		sched_yield();
	__atomic_store_n((uint64_t *)at + 1, (uint64_t)d << 32 | c, __ATOMIC_RELEASE);
}

static inline uint4 load_words(const uint32_t *at)
{
	uint64_t low = __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
	uint64_t high = __atomic_load_n((const uint64_t *)at + 1, __ATOMIC_ACQUIRE);

	rd_tsan_acquire(at);
	return (uint4){ (uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high,
		(uint32_t)(high >> 32) };
}

/* In place there is nothing to copy, and a peer may be reading it. */
static inline void copy_bytes(char *to, const char *from, size_t size, int blocks)
{
	(void)blocks;
	if (to != from && size > 0)
		memmove(to, from, size);
}

#endif
