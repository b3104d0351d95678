/*
 * Coordinator and participants alone, over a network in memory with virtual time: bytes travel in
 * fragments, each after a delay drawn from a seed. Within a connection they stay in order, between
 * connections they do not. One rank, the victim, may die, stop or send corrupted messages, at any
 * event.
 */
#ifndef RENDEZVOUS_NET_H
#define RENDEZVOUS_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/coordinator/coordinator.h"
#include "bootstrap/participant/participant.h"
#include "simulated_pipe.h"

#define RANKS_MAX 9
#define NET_TIMEOUT_MS 1000
#define NET_INIT_TIMEOUT_MS 3000
#define NET_WITHIN_MS 30000 /* of virtual time, everything has ended */

enum fault { NO_FAULT, DIES, STOPS, CORRUPTS };

struct net_node {
	struct rd_settings settings;
	struct rd_identity self;
	struct rd_activity activity;
	struct rd_participant *participant;
	bool dead, stopped, corrupts;
	bool linked;
	int connection; /* its number at the coordinator; -1: none */
	struct pipe up, down;
	int64_t start_ms;

	/* How the rank behaves: */
	bool lags; /* it never opens its links */
	bool early; /* it is ready as it comes */
	bool declines; /* it cannot take part */
	bool idle; /* it makes no call and does not leave, once all links are open */
	unsigned broken[RANKS_MAX]; /* by peer: transports (bits) whose link fails to open */
	unsigned reported[RANKS_MAX]; /* of those, which it has reported */
	int route[RANKS_MAX]; /* by peer: the transport it takes, so far */
	int64_t act_ms; /* the next act */
	uint32_t calls; /* that it makes before it leaves */
	uint64_t digest;
	bool left;
};

struct net {
	int size;
	uint32_t seed;
	int64_t now_ms;
	int64_t delay_ms; /* a fragment takes at most this */
	struct rd_coordinator *coordinator;
	struct net_node nodes[RANKS_MAX];
	uint64_t events;
	uint64_t fault_event; /* the event with which the victim gets its fault */
	int victim;
	enum fault fault;
	char coordinator_reason[RD_REASON_SIZE]; /* its verdict, kept after its death */
	int coordinator_error;
};

extern struct net net;

/* A number from the seed, below this; 0 where below is 0. */
uint32_t net_draw(uint32_t below);

/* A network of ranks that start at once, make three calls and leave. */
void net_init(int size, uint32_t seed);
/* Delays each rank's start by a random time. */
void net_stagger(uint32_t most_ms);
/* Links fail at random: either of a pair may see it, over any transport but the last. */
void net_break_links(void);
/* A network of ranks whose links are open, and which are idle. */
void net_meet(int size);
void net_stop_idling(void);
/* A coordinator of two ranks, of which none has started. */
struct rd_coordinator *net_coordinator(void);
/* The participant of rank 1 of two: it is connected, and there is no coordinator. */
struct rd_participant *net_participant(void);

/* The next moment at which something is due; RD_NEVER. */
int64_t net_next_ms(void);
/* Does everything that is due now, in a random order. */
void net_run_now(void);
void net_run_steps(int count);
/* False: time is up. */
bool net_run_until(bool (*done)(void));
bool net_all_ended(void);
bool net_all_open(void);

/* Whether the rank has started, and neither died nor stopped. */
bool net_acts(const struct net_node *node);
void net_kill(struct net_node *node);
/* The first transport between these two that no fallback excludes. */
int net_route_to(const struct net_node *node, int peer);

/* Expects the coordinator's verdict on all ranks that are left, or one of their own where the
   coordinator was the victim. */
void net_check_survivors(const char *what);
/* Runs to the end and finishes. All ranks have the same verdict, with this code and text. */
void net_expect_verdict(int error, const char *part);

#endif
