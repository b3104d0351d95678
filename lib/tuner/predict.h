/*
 * What a call would cost by an algorithm, from the very plans that would run it: nobody writes a
 * cost function. All ranks' plans are played in virtual time: a step takes its rank as long as the
 * costs (cost.h) say, a message arrives later, and ranks that share cores take turns. The first
 * pieces are played one by one; from then on each takes as long as the last of these did.
 *
 * Whole numbers, and the same on every rank.
 */
#ifndef RD_PREDICT_H
#define RD_PREDICT_H

#include "tuner/schedule.h"

/* What of a schedule does not depend on costs. */
struct rd_shape {
	int rounds; /* messages that must follow each other: what it takes where they alone take
		       time */
	int peers; /* the most ranks that any sends to */
	int load; /* what a rank takes in, the mean of all, in thousandths of a block */
};

/* Plays the plans: to be kept. */
struct rd_shape rd_schedule_shape(const struct rd_schedule *schedule);

/* How a call is cut, and what of. */
struct rd_cut {
	uint64_t block_size; /* bytes */
	enum rd_type_class type;
	size_t piece_size; /* bytes a message carries at most; SIZE_MAX for direct access */
	int channels;
};

/* How long pieces take, whatever the number of channels. */
struct rd_tempo {
	uint64_t pieces;
	int64_t first_ns, each_ns; /* the first, and each after it on one channel */
	int64_t busy_ns; /* the least that each takes on however many channels */
};

/* Playing is what takes time: once for all numbers of channels. */
struct rd_tempo rd_tempo(
	const struct rd_schedule *schedule, const struct rd_costs *costs, const struct rd_cut *cut);
/* RD_CALL_NS_MAX at most; more where a plan never ends. */
int64_t rd_tempo_predict(const struct rd_tempo *tempo, int channels);

/* Nanoseconds until the last rank is done. */
int64_t rd_predict(
	const struct rd_schedule *schedule, const struct rd_costs *costs, const struct rd_cut *cut);

#endif
