/*
 * The watch over the processes of one host: the kernel itself reports a death, by a robust futex
 * (set_robust_list(2)). A rank's control thread owns two futexes in shared memory. Two threads of
 * another rank wait on one each, on different CPUs: one of them is not behind the dying thread. A
 * dying thread releases its robust futexes before the process frees its memory and closes its
 * sockets. That takes long where memory is large, and never ends where a forked child holds the
 * sockets too.
 *
 * The ranks of a host form a ring: each waits for the next, unless both are in one process. Once
 * that one has left or died, it waits for the one behind it. They exchange memory over abstract
 * sockets, which leave nothing behind; packets of other users are dropped. A rank that learns of
 * the next one's death tells all others of its host, for the comms that it has no part in. With it
 * go how many calls the dead rank had finished in each comm.
 *
 * Only the control thread, which owns the futexes, calls these functions. The watch is optional:
 * where it cannot be created a line is logged, and the end of a socket reports the death later.
 */
#ifndef RD_PEER_WATCH_H
#define RD_PEER_WATCH_H

#include "bootstrap/member.h"

struct rd_watch;

struct rd_watch_config {
	int rank, size;
	const struct rd_member *members; /* [size]; outlive rd_watch_create() */
	uint64_t comm_id;
	int event_fd; /* written when rd_watch_next() has a death */
};

/* Calls of further comms are not counted. */
#define RD_WATCH_COMMS 256

/* How many calls a rank has finished in each of its comms. */
struct rd_watch_counts {
	struct rd_watch_count {
		_Atomic uint64_t comm_id; /* 0: none yet */
		_Atomic uint32_t done;
		_Atomic int32_t rank; /* -1: it has left */
	} at[RD_WATCH_COMMS];
};

/* A process of this host that has died, and a rank of it. */
struct rd_death {
	int32_t pid;
	uint32_t pid_space;
	struct rd_watch_counts counts;
};

/* NULL: no rank of another process is on this host, or the watch cannot be created. */
struct rd_watch *rd_watch_create(const struct rd_watch_config *config);
/* Afterwards no rank reports this one's death. */
void rd_watch_end(struct rd_watch *watch);
/* After rd_watch_end(), or without it. */
void rd_watch_destroy(struct rd_watch *watch);

/* This rank, in the comm of the watch. */
int rd_watch_rank(const struct rd_watch *watch);
/* Readable when rd_watch_next() has something to do; -1: the watch has ended. */
int rd_watch_fd(const struct rd_watch *watch);
/* The next death that has not been taken; false: none. */
bool rd_watch_next(struct rd_watch *watch, struct rd_death *death);

/* Sends this rank's futex to the rank that waits for it. All ranks must have created watches. */
void rd_watch_start(struct rd_watch *watch);

/* Where this rank counts the calls that it has finished in a comm, until rd_watch_uncount(); the
   count is known for longer, until the place is needed. NULL: there is no room. */
struct rd_watch_count *rd_watch_count(struct rd_watch *watch, uint64_t comm_id, int rank);
/* This rank has left the comm: there its death is none. */
void rd_watch_left(struct rd_watch_count *count);
void rd_watch_uncount(struct rd_watch *watch, struct rd_watch_count *count);
/* The count of the dead rank in a comm; NULL: it is not known. */
const struct rd_watch_count *rd_death_count(const struct rd_death *death, uint64_t comm_id);

#endif
