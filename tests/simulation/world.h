/*
 * One simulated world: ranks on hosts, in one thread, with virtual time. Each rank runs the real
 * participant, rank 0 the real coordinator, and all run the real executor over simulated links.
 * A seed decides all: ranks, calls, delays, faults. The same seed gives the same run.
 *
 *   world.c     the run: events, faults, time          wire.c   control connections (sockets.c)
 *   rank.c      the program of a rank                  links.c  links of the data
 *   connect.c   the opening of links                   calls.c  calls, and their results
 *   judge.c     the properties that each run must have
 */
#ifndef SIMULATION_WORLD_H
#define SIMULATION_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/coordinator/coordinator.h"
#include "bootstrap/participant/participant.h"
#include "calls.h"
#include "exec/exec.h"
#include "sim.h"
#include "simulated_links.h"
#include "wire.h"

/* The bounds of each run, in ms. */
#define HEARTBEAT_MS 1000
#define CALL_MS 4000
#define INIT_MS 6000
/* Pauses, partitions and lags of less than this, together, do no harm. */
#define HARMLESS_MS 450
/* After its last delay, in virtual time, each living rank has ended. */
#define END_MS 40000

#define LINK_CHANNELS_MAX 2
#define LINK_SLOTS_MAX 4
#define LINK_PIECE_MAX 512

enum stage {
	STAGE_ABSENT, /* it has not started */
	STAGE_JOINING,
	STAGE_CONNECTING, /* it opens its first links */
	STAGE_READY, /* they are open; those of other ranks may not be */
	STAGE_CALLING, /* calls, or computation between them */
	STAGE_REPORTING, /* a call failed here: it waits for the verdict */
	STAGE_LEAVING,
	STAGE_QUITTING, /* the comm has failed, and is destroyed */
	STAGE_GONE,
};

/* A rank's link to one peer. Bits are transports. */
struct opening {
	bool begun, open;
	int route; /* the transport that is tried, or used */
	unsigned barred; /* that have failed */
	unsigned heard,
		confirmations; /* over which the peer's greeting, its confirmation have come */
	unsigned broken; /* that broke under a greeting */
	bool failed; /* and that is reported */
	bool confirmed; /* the peer's greeting */
	uint64_t left_ns; /* when this rank learnt that the peer has left; 0: it has not */
};

struct sim_rank {
	int rank;
	bool dead;
	uint64_t paused_until; /* 0: it is not; NEVER: for good */
	uint64_t start_ns;
	enum stage stage;
	struct rd_settings settings;
	struct rd_identity self;
	struct rd_activity activity;
	struct rd_participant *participant;
	struct rd_coordinator *coordinator; /* rank 0's */
	bool joined_self; /* rank 0's participant talks with its own coordinator */
	uint64_t wake_ns;
	uint64_t linger_ns;

	/* The control connection */
	int socket; /* of this rank; -1: none */
	int attempts; /* to connect */
	uint64_t attempt_ns; /* until when the present one may take */
	unsigned char hello[RD_FRAME_MAX]; /* that it sent */
	size_t hello_size;
	int dead_peer; /* that this host's kernel has shown; -1: none */

	/* The verdict, as the program sees it. */
	int verdict;
	char reason[RD_REASON_SIZE];

	/* The program */
	struct opening opening[RANKS_MAX];
	int fallbacks, opened; /* of the participant's, taken so far */
	int ready_after; /* so many fallbacks */
	uint64_t connect_ns;
	int call; /* the present one */
	bool started, aborted;
	uint64_t lag_ns; /* until when it computes; 0: it has not begun to */
	struct rd_exec exec;
	struct rank_call made;
	uint64_t since_ns, searched_ns; /* of its wait; 0: it does not wait */
	int reported_ms;
	uint64_t end_ns;
	int result; /* of the program; 0: success */
	char result_reason[RD_REASON_SIZE];
	bool wrong; /* a call that succeeded gave a wrong number */
	char wrong_text[240];
};

struct world {
	uint64_t seed;
	int size, hosts, calls, channels, slots;
	size_t piece;
	bool checksums, zero_copy, lossy;
	uint64_t control_ns, latency_ns, jitter_ns; /* delays */
	int flips[RANKS_MAX][RANKS_MAX]; /* to come, by direction */
	struct sim_rank ranks[RANKS_MAX];
	struct socket_rules socket_rules;
	struct wire wires[WIRES_MAX];
	int wire_count;
	struct simulated_links links;
	struct call_plan plan[CALLS_MAX];
	int coordinator_error; /* kept after the coordinator's end */
	char coordinator_reason[RD_REASON_SIZE];
	bool struck_all_open; /* all ranks were in their calls at the latest fault */
};

/* Behind those of sockets. */
enum event_kind {
	EVENT_START = SOCKET_EVENTS, /* rank */
	EVENT_RESUME, /* rank: it is no longer paused */
	EVENT_GREETING, /* ((from * RANKS_MAX + to) * 2 + confirms) * 8 + transport */
	EVENT_DEATH, /* watcher * RANKS_MAX + the dead rank */
	EVENT_LINK, /* end of a link; and more: EVENT_LINK + enum link_event */
};

/* vanishes: nothing closes. */
void world_kill(struct world *world, struct sim_rank *rank, bool vanishes);
/* After this rank's events, it runs. */
void world_touch(struct world *world, int rank);
/* Whether the rank is on another host than rank 0. */
bool world_is_far(int rank);
/* A delay of up to most_ns, and rarely that of a lost packet. */
uint64_t world_delay(struct world *world, uint64_t most_ns);
/* The fault of this kind with this rank first, and this number second (-1: any); NULL. */
const struct fault *world_fault(enum fault_kind kind, int rank, int second);

static inline int64_t sim_ms(void)
{
	return (int64_t)(sim.now_ns / MS) + 1000;
}

/* Runs, and is neither dead nor paused. */
static inline bool sim_acts(const struct sim_rank *rank)
{
	return rank->stage != STAGE_ABSENT && rank->stage != STAGE_GONE && !rank->dead &&
	       !rank->paused_until;
}

/* rank.c: all that this rank can do now. */
void rank_start(struct world *world, struct sim_rank *rank);
void rank_run(struct world *world, struct sim_rank *rank);
void rank_report(struct sim_rank *rank, int error, int culprit);
void rank_finish(struct sim_rank *rank);

/* links.c: links between all ranks; and an event of one */
void links_open(struct world *world);
void links_take_event(struct world *world, enum link_event kind, int end);

/* connect.c: the first links, and whether all that were begun are open */
void connect_begin(struct world *world, struct sim_rank *rank);
bool connect_is_open(const struct world *world, const struct sim_rank *rank);
uint64_t connect_wake(const struct sim_rank *rank);
/* A rank's control thread, or its call: opens links further. */
void connect_step(struct world *world, struct sim_rank *rank);
/* Opens the links that the present call needs. The peer for which it waits; -1: none. */
int connect_reach(struct world *world, struct sim_rank *rank);
/* EVENT_GREETING */
void connect_take(struct world *world, int subject);

/* judge.c */
void judge(struct world *world);

#endif
