/*
 * The watch over the processes of one host: the kernel itself reports a death, by a robust futex
 * (set_robust_list(2)). A rank's control thread owns two futexes in shared memory. Two threads of
 * another rank wait on one each, on different CPUs: one of them is not behind the dying thread. A
 * dying thread releases its robust futexes before the process frees its memory and closes its
 * sockets. That takes long where memory is large, and never ends where a forked child holds the
 * sockets too.
 *
 * The ranks of a host form a ring: each waits for the next, unless both are in one process. They
 * exchange memory over abstract datagram sockets, which leave nothing behind. A rank reports the
 * next one's death to the coordinator. The death of rank 0, which holds the coordinator, goes to
 * the other ranks of its host as a packet.
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
	const struct rd_member *members; /* [size]; outlive the watch */
	uint64_t comm_id;
	int event_fd; /* written when rd_watch_dead() changes */
};

/* NULL: no rank of another process is on this host, or the watch cannot be created. */
struct rd_watch *rd_watch_create(const struct rd_watch_config *config);
/* Afterwards no rank reports this one's death. */
void rd_watch_end(struct rd_watch *watch);
/* After rd_watch_end(), or without it. */
void rd_watch_destroy(struct rd_watch *watch);
/* Frees it in a forked child, where neither thread runs: futexes and socket stay the parent's. */
void rd_watch_abandon(struct rd_watch *watch);

/* Readable when rd_watch_receive() has something to do. */
int rd_watch_fd(const struct rd_watch *watch);
void rd_watch_receive(struct rd_watch *watch);

/* Sends this rank's futex to the rank that waits for it. All ranks must have created watches. */
void rd_watch_start(struct rd_watch *watch);

/* How many calls this rank has finished: others read it once this process has died. */
_Atomic uint32_t *rd_watch_done(struct rd_watch *watch);

/* The rank that has died, if this rank waits for it; -1: none has. *done: how many calls it had
   finished. */
int rd_watch_dead(const struct rd_watch *watch, uint32_t *done);
/* Rank 0 has died: where this rank waited for it, reports it to the other ranks of this host. */
void rd_watch_forward(const struct rd_watch *watch);

#endif
