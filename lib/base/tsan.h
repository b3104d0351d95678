/*
 * ThreadSanitizer annotations for memory that is mapped twice. Two ranks of one process may map
 * the same memory at two addresses. ThreadSanitizer identifies memory by its address. It therefore
 * misses the order that a flag, written by one rank and read by the other, gives to their other
 * accesses. These macros supply that order. They identify a flag by its offset in its page, which
 * no mapping changes.
 */
#ifndef RD_TSAN_H
#define RD_TSAN_H

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#include <stdint.h>

/* Weak: one array for all files that include this header. */
__attribute__((weak)) char rd_tsan_places[4096];

static inline void *rd_tsan_place(const void *flag)
{
	return &rd_tsan_places[(uintptr_t)flag % sizeof(rd_tsan_places)];
}

/* Call release before the flag is written, and acquire after it has been read. */
#define rd_tsan_release(flag) __tsan_release(rd_tsan_place(flag))
#define rd_tsan_acquire(flag) __tsan_acquire(rd_tsan_place(flag))
#else
#define rd_tsan_release(flag) ((void)(flag))
#define rd_tsan_acquire(flag) ((void)(flag))
#endif

#endif
