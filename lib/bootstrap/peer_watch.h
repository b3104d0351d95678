/*
 * The watch over the processes of one host: the kernel itself reports a death, by a robust futex
 * (set_robust_list(2)). A rank's control connection thread owns a futex word in shared memory; a
 * thread of another rank waits on it. A dying thread gives up its robust futexes before the process
 * frees its memory and closes its sockets, which takes long where memory is large, and never ends
 * where a forked child holds the sockets too.
 *
 * Each rank waits for the next rank of its host, round the ring, unless that is in its own process.
 * Memory is exchanged over abstract datagram sockets, so there is nothing to leave behind. The next
 * rank's death goes to the coordinator as a report. The death of rank 0, which holds the
 * coordinator, goes to the other ranks of its host as a packet.
 *
 * All functions are for the control connection's thread alone, which owns the futex. A watch is an
 * addition to the sockets: where it cannot be had a line is logged, and the sockets' end has to do.
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

/* NULL: no rank of another process is on this host, or there is no watch to be had here. */
struct rd_watch *rd_watch_create(const struct rd_watch_config *config);
/* From then on this rank's death is nobody's news. */
void rd_watch_destroy(struct rd_watch *watch);
/* Frees it in a forked child, where neither thread runs: futexes and socket stay the parent's. */
void rd_watch_abandon(struct rd_watch *watch);

/* Readable when rd_watch_receive() has something to do. */
int rd_watch_fd(const struct rd_watch *watch);
void rd_watch_receive(struct rd_watch *watch);

/* Hands this rank's futex to the rank that waits for it. All ranks must have made their watch. */
void rd_watch_start(struct rd_watch *watch);

/* The rank that has died, if it was waited for; -1: none has. */
int rd_watch_dead(const struct rd_watch *watch);
/* Rank 0 has died: where this rank waited for it, reports it to the other ranks of this host. */
void rd_watch_forward(const struct rd_watch *watch);

#endif
