/*
 * One simulated job: ranks that make groups of one another. The library's own threads run: control
 * threads, with their listeners, doors, trunks and channels, and the callers of control.h. They are
 * fibers, and their descriptors are simulated (the linker puts wraps.c before the C library). A
 * seed decides all. The same seed gives the same run.
 *
 *   world.c    the run: events, faults, time      fibers.c   threads, and their waits
 *   plan.c     groups of the seed                 kernel.c   descriptors of ranks
 *   program.c  the program of a rank              wraps.c    calls of the C library
 *   judge.c    properties of each run             memory.c   allocations of ranks
 */
#ifndef SIMULATION_JOBS_WORLD_H
#define SIMULATION_JOBS_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "bootstrap/control.h"
#include "fibers.h"
#include "kernel.h"
#include "kinds.h"
#include "memory.h"
#include "sockets.h"

#define JOB_RANKS 6
#define JOB_COMMS 7 /* the first, and its groups */

/* The bounds of each run, in ms. */
#define JOB_HEARTBEAT_MS 1000
#define JOB_UNREACHABLE_MS 1000
#define JOB_CALL_MS 30000
#define JOB_INIT_MS 3000
/* Pauses, partitions and rejections of less than this, together, do no harm. */
#define JOB_HARMLESS_MS 450
/* After its last delay, in virtual time, each living rank has ended. */
#define JOB_END_MS 120000

/* A rank's part in a comm. */
struct part {
	/* Drawn: */
	int delay_ms; /* before it calls */
	int use_ms; /* for which it has the comm */
	bool absent; /* never calls */
	bool odd; /* has another RONDO_PIECE */
	int cancel_ms; /* after the call; -1: never */
	int revoke_ms; /* after it has the comm; -1: never */
	bool finalizes; /* in place of a leave */
	/* As it goes: */
	enum part_stage {
		PART_WAITS,
		PART_CREATES,
		PART_HAS,
		PART_ENDS, /* leaves, or destroys it */
		PART_ENDED
	} stage;
	bool called, made;
	int children; /* that are made from it now */
	bool cancelled;
	int error; /* how it ended */
	char reason[RD_REASON_SIZE];
	uint64_t made_ns, end_ns; /* when it left, or had an error */
	unsigned opens; /* bits of members to which it opens links */
	struct rd_control *control;
	struct rd_activity activity;
	_Atomic int failed;
};

struct job_comm {
	int parent; /* an index; -1: the first comm */
	int size, members[JOB_RANKS]; /* in their order: ranks of the job */
	uint64_t purpose, id;
	bool limits; /* all know the limits of links */
	struct part parts[JOB_RANKS]; /* by rank of the comm */
};

struct job_rank {
	bool dead;
	uint64_t dead_ns;
	uint64_t paused_until; /* 0: it is not; NEVER: for good */
	bool cut_off; /* its connections were reset */
};

struct job_world {
	uint64_t seed;
	int size, hosts, comm_count;
	uint64_t network_ns, wake_ns; /* delays, at most */
	struct job_rank ranks[JOB_RANKS];
	struct job_comm comms[JOB_COMMS];
};

/* Behind those of sockets. */
enum job_event { EVENT_RESUME = SOCKET_EVENTS /* rank */ };

extern struct job_world job;

/* world.c */
/* Faults may strike now: the present fiber does not return if its rank dies. */
void job_tick(void);
static inline bool job_acts(int rank)
{
	return !job.ranks[rank].dead && !job.ranks[rank].paused_until;
}

/* plan.c */
void plan_draw(uint64_t seed, int comms);
/* The rank's number in the comm; -1. */
int plan_number(int comm, int rank);

/* program.c: the fibers of a rank */
void program_start(int rank);

/* judge.c */
void job_judge(void);

#endif
