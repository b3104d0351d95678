/*
 * Processes that ranks started and left: daemons, and what they start. We adopt them (the kernel
 * calls it a child subreaper), so that none outlives the ranks.
 */
#ifndef RUN_ORPHANS_H
#define RUN_ORPHANS_H

#include <stdbool.h>
#include <sys/types.h>

struct orphans {
	pid_t *others; /* children that we had before: a shell may start some, and become us */
	int other_count;
};

/* Adopts what ranks leave from now on. */
void orphans_init(struct orphans *orphans);
void orphans_finish(struct orphans *orphans);

/* Reaps those that have ended. `is_rank` tells whether a child is a rank, which stays. */
void orphans_reap(bool (*is_rank)(const void *group, pid_t pid), const void *group);

/*
 * Once all ranks are reaped, but those that do not end (`is_left`; NULL: there are none): kills
 * what they left, and waits for the end of these processes, at most ORPHANS_WAIT_MS. Returns one
 * that is still there; 0: none is.
 */
#define ORPHANS_WAIT_MS 5000
pid_t orphans_kill(const struct orphans *orphans, bool (*is_left)(const void *group, pid_t pid),
	const void *group);

#endif
