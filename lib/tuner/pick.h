/*
 * The picker: chooses the algorithm of a call, its number of channels and its piece size. It
 * chooses the cheapest by the comm's costs (cost.h), as predicted from the plans (predict.h). It
 * predicts each size class once, four classes to an octave, and keeps the choice (choices.h).
 * Ranks that have the same costs choose alike.
 */
#ifndef RD_PICK_H
#define RD_PICK_H

#include "base/settings.h"
#include "plan/plan.h"
#include "tuner/choices.h"
#include "tuner/cost.h"
#include "tuner/tuner_rows.h"
#include "rondo.h"

/* The parameters of a picker. They are copied, but for the pointers, whose targets outlive it. */
struct rd_tuner_config {
	int size; /* ranks */
	const struct rd_layout *layout; /* NULL: ranks in order, on one host */
	struct rd_costs costs;
	int channels;
	size_t piece_size; /* the most bytes of a message on any link */
	size_t exchange_size; /* bytes of a message of a buffer exchange */
	const struct rd_tuner_rows *rows; /* NULL: none */
	const char *algo; /* RONDO_ALGO: the algorithm to use where it can run; "": the cheapest */
};

struct rd_picker;

/* RONDO_SETTING where the name of an algorithm is not empty and not known. */
int rd_pick_check(const struct rd_settings *settings);

/* NULL: no memory, with its reason recorded. */
struct rd_picker *rd_picker_create(const struct rd_tuner_config *config);
/* Logs what was measured (INFO, PICK). */
void rd_picker_destroy(struct rd_picker *picker);

/*
 * Finds the choice for a collective of block_size bytes a block; the same pointer for each size of
 * a class. peers_mapped: all ranks' buffers can be addressed from all others.
 */
int rd_picker_choose(struct rd_picker *picker, enum rd_collective collective, uint64_t block_size,
	enum rd_type_class type, bool peers_mapped, struct rd_choice **choice);

/* The class that gives the cost of a reduction of this type. */
enum rd_type_class rd_type_class_of(rondo_type type);

/* Lists all ways to run it, the cheapest first, as rondo_explain() returns them. */
int rd_picker_list(struct rd_picker *picker, enum rd_collective collective, uint64_t block_size,
	enum rd_type_class type, bool peers_mapped, struct rondo_way *ways, int most);

/* ---- Parts of it ----------------------------------------------------------------------------- */

/* prefer.c: corrections for effects that the model leaves out, caches and slow wake-ups. The choice
   to take instead of the cheapest, or the cheapest, out of `count` that are predicted. */
const struct rd_choice *rd_prefer(const struct rd_tuner_config *config,
	enum rd_collective collective, uint64_t block_size, const struct rd_choice *cheapest,
	const struct rd_choice *predicted, int count);

/* pick_key.c: sizes of calls as classes, four to an octave. The least size of its class, for which
   all its sizes are predicted. */
uint64_t rd_size_class_least(uint64_t size);
/* The number of the calls that have one choice. fixed: 0, or a number for the plan file or the row
   that fixes it, whose range may end within a class. */
uint32_t rd_pick_key(enum rd_collective collective, uint64_t block_size, enum rd_type_class type,
	bool peers_mapped, int fixed);
enum rd_collective rd_pick_key_collective(uint32_t key);
uint64_t rd_pick_key_least(uint32_t key);

#endif
