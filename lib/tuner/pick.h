/*
 * The picker: by which algorithm a call is run, on how many channels, and in how long pieces: the
 * cheapest by the comm's costs (cost.h), priced from the plans (predict.h). A call is priced once a
 * size class, of which there are four to an octave; after that its choice is found in a table.
 * Ranks that have the same costs choose alike.
 */
#ifndef RD_PICK_H
#define RD_PICK_H

#include "tuner/cost.h"
#include "tuner/single_copy.h"
#include "plan/plan.h"
#include "tuner/predict.h"
#include "rondo.h"

/* What a picker is made for; copied, but for the pointers, which outlive it. */
struct rd_tuner_config {
	int size; /* ranks */
	const struct rd_layout *layout; /* NULL: ranks in order, on one host */
	struct rd_costs costs;
	int channels;
	size_t piece_size; /* the longest that links carry */
	size_t exchange_size; /* of a message by which ranks exchange where their buffers lie */
	const char *algo; /* RONDO_ALGO: what to choose wherever that can; "": the cheapest */
};

struct rd_choice {
	const struct rd_algorithm *algorithm;
	int channels;
	size_t piece_size;
	int64_t predicted_ns;
	struct rd_shape shape; /* of the algorithm's plans */
	/* In a choice with buffers within reach: whether it is so much better that it pays to ask
	   all ranks where their buffers are. */
	bool worth_asking;
	struct rd_single_copy learned; /* how its messages best go */
	/* Kept where the log wants to know: what calls really took. */
	uint64_t calls;
	int64_t measured_ns; /* all of them together */
};

struct rd_picker;

/* RONDO_SETTING where the name of an algorithm is not empty and not known. */
int rd_pick_check(const char *name);

/* NULL: no memory, with its reason. */
struct rd_picker *rd_picker_create(const struct rd_tuner_config *config);
/* Logs what was measured (INFO, PICK). */
void rd_picker_destroy(struct rd_picker *picker);

/*
 * The choice for a collective of so many bytes a block; the same pointer for each size of a class.
 * peers_mapped: all ranks' buffers can be addressed from all others.
 */
int rd_picker_choose(struct rd_picker *picker, enum rd_collective collective, uint64_t block_size,
	enum rd_type_class type, bool peers_mapped, struct rd_choice **choice);

/* What a reduction of this type costs is that of its class. */
enum rd_type_class rd_type_class_of(rondo_type type);

/* All ways to run it, the cheapest first, as rondo_explain() says. */
int rd_picker_list(struct rd_picker *picker, enum rd_collective collective, uint64_t block_size,
	enum rd_type_class type, bool peers_mapped, struct rondo_way *ways, int most);

#endif
