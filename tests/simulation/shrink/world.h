/*
 * One simulated world: the ranks of a comm that fails, and shrinks, again and again. Each has the
 * library's own machine (bootstrap/shrink/quorum.h), in virtual time. A seed decides all. The same
 * seed gives the same run.
 *
 *   world.c     the run: events, faults, time     places.c    where they meet (sockets.c)
 *   ranks.c     what a rank does                  comms.c     the making of comms, their failures
 *   judge.c     the properties that each run must have
 */
#ifndef SIMULATION_SHRINK_WORLD_H
#define SIMULATION_SHRINK_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/shrink/quorum.h"
#include "kinds.h"
#include "sockets.h"

#define SHRINK_RANKS 8
#define PENDING_MAX 64
#define COMMS_MAX 256

#define SHRINK_HEARTBEAT_MS 1000
#define SHRINK_CALL_MS 4000
#define SHRINK_INIT_MS 6000
/* Pauses, partitions and rejections of less than this, together, do no harm. */
#define SHRINK_HARMLESS_MS 450
/* Within this time the ranks have a comm again where some died. */
#define SHRINK_SWIFT_MS 700
/* After its last delay, in virtual time, each living rank has a comm or an error. */
#define SHRINK_END_MS 120000

enum stage {
	STAGE_CALLING, /* it has a comm */
	STAGE_SHRINKING,
	STAGE_ENDED, /* with an error */
};

/* The making of a new comm. */
struct shrink_making {
	bool runs;
	int comm; /* an index of world.comms; -1: it has not found it */
	bool come; /* all have, as this rank knows */
	uint64_t until_ns, next_ns; /* next_ns: when to look again */
};

struct shrink_rank {
	int origin;
	bool dead;
	uint64_t paused_ns, paused_until; /* since when; 0: it is not, NEVER: for good */
	enum stage stage;
	uint64_t wake_ns, since_ns; /* since_ns: of its present stage */
	int comm; /* its present one: an index of world.comms */
	/* Its shrink: */
	struct rd_settings settings;
	struct rd_member members[SHRINK_RANKS];
	struct rd_vote vote;
	struct rd_quorum quorum;
	int dialled[SHRINK_RANKS], arrived[SHRINK_RANKS]; /* sockets, by rank; -1: none */
	unsigned attempts[SHRINK_RANKS];
	bool connected[SHRINK_RANKS]; /* the quorum knows it */
	uint32_t port; /* where it meets others for a new comm; 0: nowhere */
	struct shrink_making making;
	/* Sockets that came and have not said who they are. */
	int pending[PENDING_MAX], pending_count;
	char error[RD_REASON_SIZE]; /* with which it ended */
};

/* A comm: while it is made, and after. */
struct shrink_comm {
	int size, origins[SHRINK_RANKS]; /* by its ranks; -1: has not come */
	uint32_t port; /* where it meets */
	unsigned gone; /* bits of origins that came, and died or gave up */
	bool go; /* all have come */
	unsigned told; /* bits of origins to which the comm's failure is known, or on its way: */
	int lost[SHRINK_RANKS], state_of_lost[SHRINK_RANKS];
	/* As each member knows, by origin: */
	bool broken[SHRINK_RANKS];
	unsigned char presence[SHRINK_RANKS][SHRINK_RANKS];
};

struct shrink_world {
	int size, hosts;
	uint64_t network_ns, wake_ns; /* delays, at most */
	struct shrink_rank ranks[SHRINK_RANKS];
	uint32_t ports;
	struct shrink_comm comms[COMMS_MAX];
	int comm_count;
};

/* Behind those of sockets. */
enum shrink_event {
	EVENT_RESUME = SOCKET_EVENTS, /* rank */
	EVENT_PAUSE, /* rank: paused for as long as heartbeats may take */
	EVENT_CUTS, /* some ranks are cut off for as long */
	EVENT_BREAK, /* comm * SHRINK_RANKS + a member: it learns that the comm is broken */
	EVENT_REVOKE, /* rank */
};

extern struct shrink_world world;

/* world.c */
/* The rank looks at what has changed. */
void shrink_touch(int rank);
static inline bool shrink_acts(const struct shrink_rank *rank)
{
	return !rank->dead && !rank->paused_until && rank->stage != STAGE_ENDED;
}

/* ranks.c */
void ranks_begin(int rank);
/* Does what is due, and sets when it does more. */
void ranks_run(int rank);
void ranks_finish(int rank);

/* places.c */
void places_begin(void);
void places_close(int socket);
/* All of a rank's close. */
void places_close_all(int rank);
/* A connection of no rank to this rank's place, of one of four kinds. */
void places_intrude(int rank, int kind);
/* All of the rank's connections break. */
void places_reset(int rank);
/* Connections between ranks that are cut off fail, after a time. */
void places_begin_silence(void);
/* Resets the connections between ranks of sim_rejects(). */
void places_reject(void);

/* comms.c */
/* The first comm, which all ranks have. */
void comms_begin(void);
void comms_take_event(enum shrink_event kind, int subject);
/* This rank is no longer there: the comms that it has break. presence: as the others see it. */
void comms_lose(int origin, int presence, uint64_t after_ns);
/* Between ranks of sim_rejects(), connections are reset. */
void comms_reject(void);
void comms_revoke(int origin);
/* A new comm, whose ranks come to this port; and one of this rank alone. */
int comms_add(int size, uint32_t port);
/* 1: the rank waits for others; 0: the comm of its plan is made; else why it is not, with the
   rank's error. */
int comms_make(int origin);
/* The rank leaves a comm, or what was to be one. */
void comms_give_up(int index, int origin);

/* judge.c */
void shrink_judge(void);

#endif
