/*
 * The cache for the start of calls: plans that are written once, with the memory and the executor
 * that run them. Its key is the collective, root and target of a call, and the choice for it
 * (pick.h): the sizes of many classes have the same plan. The plan of a collective's last call
 * comes first; an equal call starts again from it, with no choice and no search. Programs repeat
 * the same few calls, and for small ones that work would take most of the time.
 */
#ifndef RD_PLAN_CACHE_H
#define RD_PLAN_CACHE_H

#include "comm/comm.h"
#include "plan/peer_set.h"

/* How a call that equals a plan's last one may start. */
enum rd_repetition {
	RD_STARTS_ANEW, /* as the first one */
	RD_STARTS_AGAIN, /* by rd_exec_again(), with other buffers too */
	/* With the same buffers by rd_run_again(): there is nothing to log, to time or to try. */
	RD_STARTS_AT_ONCE,
	/* The same, but for a call that begins with a buffer exchange. */
	RD_STARTS_UNTIL_EXCHANGE,
	/* The same, by the buffer exchange of the last call again. */
	RD_STARTS_BY_EXCHANGE,
};

/* Serves one call at a time, until the comm ends. */
struct rd_prepared {
	struct rd_short_step steps[RD_SHORT_STEPS]; /* of the short call, if it has many */
	enum rd_repetition repeats;
	struct rd_exec exec; /* has the last call's arguments */
	struct rd_choice *choice; /* for the last call; NULL: there was nothing to choose */
	const struct rd_plan *plans[RD_CHANNELS_MAX]; /* one plan where layouts are the same */
	struct rd_peer_set peers; /* of the plans */
	int channels;
	size_t piece_size;
	void *scratch;
	uint64_t *send_marks;
	struct rd_prepared *next;
};

static inline struct rd_prepared *rd_prepared_of(struct rd_exec *exec)
{
	return (struct rd_prepared *)((char *)exec - offsetof(struct rd_prepared, exec));
}

/*
 * Returns the plan of a call, and its memory, from the cache or made now. It comes first in the
 * cache, with its choice set; the caller sets `exec` and `repeats`. peers_mapped: all ranks'
 * buffers can be addressed from all others. Returns 0 or an error.
 */
int rd_prepare(struct rondo_comm *comm, const struct rd_call *call, bool peers_mapped,
	struct rd_prepared **prepared);

/* Returns whether an equal call, but for its buffers, was the last to run on it, so that this one
   need not be prepared. */
static inline bool rd_prepared_repeats(
	const struct rd_prepared *prepared, const struct rd_call *call)
{
	if (!prepared || prepared->repeats == RD_STARTS_ANEW || !rd_call_is_ordinary(call))
		return false;

	const struct rd_call *last = &prepared->exec.call;

	return last->count == call->count && last->full_count == call->full_count &&
	       last->type == call->type && last->op == call->op &&
	       last->problem.root == call->problem.root;
}

/* The collective's last call is another one, or it may not be repeated: what its short call has
   looked up is forgotten. */
static inline void rd_short_forget(struct rondo_comm *comm, enum rd_collective collective)
{
	struct rd_short *brief = &comm->shorts[collective];

	brief->signature.collective = (uint8_t)collective;
	brief->count = -1;
	brief->repeats = false;
}

/* The comm gets another picker: no call may start again by a choice of the one before. */
void rd_plan_cache_drop_choices(struct rondo_comm *comm);
void rd_plan_cache_destroy(struct rondo_comm *comm);

/* Where RONDO_ALGO names another algorithm than `runs`, rank 0 warns, once a collective. */
void rd_warn_of_replacement(
	struct rondo_comm *comm, enum rd_collective collective, const char *runs, const char *why);

#endif
