/* Valid plans, and edits that spoil them, for tests of the checker. */
#ifndef MUTANTS_H
#define MUTANTS_H

#include "simulated.h"

enum change {
	NO_CHANGE,
	/* A field of a step: */
	PEER,
	TO,
	CHUNK,
	OTHER,
	KIND,
	LAST,
	FROM, /* its chunk */
	FROM_MEMORY,
	INTO,
	INTO_MEMORY,
	SENDER,
	/* A whole step, which is dropped, or swapped with the next. FLUSHes keep their senders. */
	DROP,
	SWAP,
	STEP_CHANGES,
	/* A field of the plan: */
	COLLECTIVE = STEP_CHANGES,
	RANK,
	ROOT,
	PARTS,
	DIRECT_ACCESS,
};

struct edit {
	int rank;
	int step; /* of a step's changes; else 0 */
	enum change change;
	int value; /* the new one; of DROP and SWAP 0 */
};

/* The present value of a field of a step. */
int step_get(const struct rd_step *step, enum change field);

void edit_plan(struct rd_plan *plan, const struct edit *edit);

/* The argument of expect_refused(): edits, applied one after the other. */
#define EDITS(...) \
	(const struct edit[]) \
	{ \
		__VA_ARGS__, \
		{ \
			0, 0, NO_CHANGE, 0 \
		} \
	}

/* Expects that the checker accepts the three ranks' plans of a collective, and after the edits
   refuses them with this reason, to the letter. */
void expect_refused(const char *algorithm, enum rd_collective collective, const struct edit *edits,
	const char *reason);

/* An algorithm "test" that writes every collective by this function, with messages alone or with
   direct access. */
struct rd_algorithm messages_by(void (*write)(struct rd_plan *plan));
struct rd_algorithm direct_by(void (*write)(struct rd_plan *plan));

/* Expects that the checker accepts its plans, for root and target 0; or refuses them with this
   reason, to the letter, behind the names of the algorithm and the call. */
void expect_accepted(struct rd_algorithm algorithm, enum rd_collective collective, int size);
void expect_plans_refused(
	struct rd_algorithm algorithm, enum rd_collective collective, int size, const char *reason);

#endif
