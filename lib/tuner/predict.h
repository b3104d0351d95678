/*
 * Predicts the time of a call from the very plans that would run it, so that no algorithm needs a
 * cost function. A replay runs all ranks' plans in virtual time. Each step occupies its rank for
 * its cost (cost.h), a message arrives later, and ranks that share cores take turns. The first
 * pieces are replayed one by one. Each later piece takes as long as the last of these did.
 *
 * All numbers are whole, and the same on every rank.
 */
#ifndef RD_PREDICT_H
#define RD_PREDICT_H

#include "exec/exec.h"
#include "tuner/step_cost.h"

/* The properties of a schedule that do not depend on costs. */
struct rd_shape {
	/* messages that must follow each other: the duration if only messages took time */
	int rounds;
	int peers; /* the maximum, over the ranks, of the number of ranks that one sends to */
	int load; /* what a rank receives: the mean over the ranks, in thousandths of a block */
};

/* Replays the plans, which takes time; callers keep the result. */
struct rd_shape rd_schedule_shape(const struct rd_schedule *schedule);

/* The size of a call's blocks, and their division into pieces. */
struct rd_cut {
	uint64_t block_size; /* bytes */
	enum rd_type_class type;
	size_t piece_size; /* bytes a message carries at most; SIZE_MAX for direct access */
	int channels; /* for rd_timing_of(): the most */
};

/* The times of a call's pieces, for any number of channels up to the cut's. */
struct rd_timing {
	uint64_t pieces;
	int64_t first_ns, each_ns; /* the first, and each after it on one channel */
	/* The least time of each piece, over 1, 2, ... channels: less only where those spread over
	   rails. */
	int64_t busy_ns[RD_CHANNELS_MAX];
};

/* The costs of the steps of a call's piece; *pieces: how many there are. parts, blocks and
   near_blocks: as in struct rd_schedule. */
struct rd_step_cost rd_cut_costs(int parts, int blocks, uint64_t near_blocks,
	const struct rd_costs *costs, const struct rd_cut *cut, uint64_t *pieces);
/* Replays the schedule. This takes most of the time of a prediction; one replay serves all
   numbers of channels. */
struct rd_timing rd_timing_of(
	const struct rd_schedule *schedule, const struct rd_costs *costs, const struct rd_cut *cut);
/* The predicted time in ns, RD_CALL_NS_MAX at most; more where a plan never ends. */
int64_t rd_timing_predict(const struct rd_timing *timing, int channels);

/* Predicts the nanoseconds until the last rank is done. */
int64_t rd_predict(
	const struct rd_schedule *schedule, const struct rd_costs *costs, const struct rd_cut *cut);

#endif
