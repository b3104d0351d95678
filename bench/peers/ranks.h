/*
 * The ranks that a bare loop forks, and its waits. If a rank dies, the parent names it and ends the
 * others.
 */
#ifndef PEERS_RANKS_H
#define PEERS_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#define PEERS_RANKS_MOST 64
/* Looks in vain between two readings of the clock. */
#define PEERS_LOOKS 4096

#ifdef __cplusplus
extern "C" {
#endif

/* One wait; zeroed before. */
struct peers_wait {
	unsigned looks; /* in vain */
	int64_t deadline_ns;
};

/* Whether the wait lasts for too long. */
bool peers_wait_is_late(struct peers_wait *wait);

/* To be called after each look in vain. True: give up. */
static inline bool peers_wait_is_over(struct peers_wait *wait)
{
	return ++wait->looks % PEERS_LOOKS == 0 && peers_wait_is_late(wait);
}

/* Runs live(rank, argument) in a process each. Returns 0 if all ranks returned 0, else 1. `forked`
   (may be NULL) is called in the parent when all have been forked. */
int peers_ranks_run(const char *program, int ranks, int (*live)(int rank, void *argument),
	void (*forked)(void *argument), void *argument);

#ifdef __cplusplus
}
#endif

#endif
