/*
 * Two ranks of one process may map the same memory twice. ThreadSanitizer knows memory by its
 * address, and so does not see that a word which one of them writes and the other reads orders what
 * both do to the rest of the process's memory. Here it is told. A word is known by its place in its
 * page, which no mapping changes.
 */
#ifndef RD_TSAN_H
#define RD_TSAN_H

#ifdef __SANITIZE_THREAD__
#include <stdint.h>

void __tsan_acquire(void *at);
void __tsan_release(void *at);

/* One for all files that include this. */
__attribute__((weak)) char rd_alias_places[4096];

static inline void *rd_alias_place(const void *flag)
{
	return &rd_alias_places[(uintptr_t)flag % sizeof(rd_alias_places)];
}

/* Before the word is written, and after it has been read. */
#define rd_alias_release(flag) __tsan_release(rd_alias_place(flag))
#define rd_alias_acquire(flag) __tsan_acquire(rd_alias_place(flag))
#else
#define rd_alias_release(flag) ((void)(flag))
#define rd_alias_acquire(flag) ((void)(flag))
#endif

#endif
