/*
 * A tariff: what each note of a score (score.h) takes, in nanoseconds, where the costs are these
 * and a slice is so long.
 */
#ifndef RD_TARIFF_H
#define RD_TARIFF_H

#include "score.h"

static inline int64_t rd_longer(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t rd_shorter(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Everything that steps cost at one size of slice. */
struct rd_tariff {
	const struct rd_costs *costs;
	struct rd_message_cost copied[RD_LINK_CLASS_COUNT]; /* a slice, by the link's room */
	struct rd_message_cost posted[RD_LINK_CLASS_COUNT]; /* from where it lies */
	struct rd_message_cost empty[RD_LINK_CLASS_COUNT];
	bool posts[RD_LINK_CLASS_COUNT]; /* a slice may be, and is long enough for that */
	int64_t copy_ns, reduce_ns; /* a slice */
	int64_t reach_ns; /* the bytes of a slice from another rank's memory */
};

struct rd_tariff rd_tariff_of(const struct rd_costs *costs, enum rd_dealing dealing, uint64_t slice,
	enum rd_type_class type);

/* For its rank. put: what the note takes; NULL: not known, or nothing. size: ranks. */
int64_t rd_tariff_note_ns(const struct rd_tariff *tariff, const struct rd_score_note *note,
	const struct rd_score_note *put, int size);

/* From when its message is put until it can be taken. */
int64_t rd_tariff_flight_ns(const struct rd_tariff *tariff, const struct rd_score_note *note);

/* What it takes to make a copy of what was lent and is wanted back; 0: it was not lent. */
int64_t rd_tariff_copy_ns(const struct rd_tariff *tariff, const struct rd_score_note *put);

#endif
