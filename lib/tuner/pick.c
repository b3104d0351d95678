#include "tuner/pick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/algorithms.h"
#include "plan/plan_file.h"
#include "tuner/eligible.h"
#include "tuner/thresholds.h"
#include "base/error.h"
#include "base/log.h"
#include "mesh/mesh.h"

#define ALGORITHMS_MAX RD_ALGORITHMS_KNOWN

/* An algorithm for a collective. */
struct candidate {
	const struct rd_algorithm *algorithm;
	enum rd_collective collective;
	struct rd_schedule *schedule; /* NULL: it writes no valid plan */
	struct rd_shape shape;
	struct candidate *next;
};

struct rd_picker {
	struct rd_tuner_config config;
	bool has_files; /* plan files were loaded before */
	struct candidate *candidates; /* each added on first use */
	struct rd_schedule *exchange; /* the buffer exchange that direct access begins with */
	struct rd_choices choices;
};

int rd_pick_check(const struct rd_settings *settings)
{
	if (!*settings->algo || rd_algorithm_named(settings->algo))
		return 0;
	return rd_fail(RONDO_SETTING, "%s is %s", rd_settings_source(settings, "RONDO_ALGO"),
		rondo_last_error());
}

enum rd_type_class rd_type_class_of(rondo_type type)
{
	switch (type) {
	case RONDO_F16:
	case RONDO_BF16:
	case RONDO_F8E4M3:
	case RONDO_F8E5M2:
		return RD_HALF;
	default:
		return RD_WHOLE;
	}
}

struct rd_picker *rd_picker_create(const struct rd_tuner_config *config)
{
	struct rd_picker *picker = calloc(1, sizeof(*picker));

	if (!picker) {
		rd_fail(RONDO_MEMORY, "no memory for a picker");
		return NULL;
	}
	picker->config = *config;
	for (int i = 0; rd_algorithms[i]; i++)
		picker->has_files |= rd_algorithm_is_file(rd_algorithms[i]);
	return picker;
}

/* ---- Predictions ---------------------------------------------------------------------------- */

/* Any root does: the roots differ in little more than the ranks that wait. */
static struct rd_problem problem_of(const struct rd_picker *picker, enum rd_collective collective)
{
	return (struct rd_problem){
		.collective = collective,
		.size = picker->config.size,
		.layout = picker->config.layout,
	};
}

/* Returns as rd_algorithm_can(). */
static int can(const struct rd_picker *picker, enum rd_collective collective, int index)
{
	struct rd_problem problem = problem_of(picker, collective);

	return rd_algorithm_can(rd_algorithms[index], &problem);
}

static const struct candidate *find_candidate(const struct rd_picker *picker,
	enum rd_collective collective, const struct rd_algorithm *algorithm)
{
	const struct candidate *candidate = picker->candidates;

	while (candidate &&
		(candidate->algorithm != algorithm || candidate->collective != collective))
		candidate = candidate->next;
	return candidate;
}

/*
 * Adds a candidate, with its schedule. An algorithm that writes no valid plan is logged once, and
 * writes none on every rank. A rank without memory returns an error instead: it would choose
 * without the algorithm, and the other ranks with it.
 */
static int add_candidate(struct rd_picker *picker, enum rd_collective collective,
	const struct rd_algorithm *algorithm, const struct candidate **added)
{
	struct rd_problem problem = problem_of(picker, collective);
	struct candidate *candidate = calloc(1, sizeof(*candidate));
	int err = candidate ? rd_schedule_create(&candidate->schedule, algorithm, &problem)
			    : rd_fail(RONDO_MEMORY, "no memory for a picker");

	if (err == RONDO_MEMORY) {
		free(candidate);
		return err;
	}
	if (err)
		rd_log(RD_WARN, RD_PICK, "algorithm %s is not used for %s: %s", algorithm->name,
			rd_collective_name(collective), rondo_last_error());
	else
		candidate->shape = rd_schedule_shape(candidate->schedule);
	candidate->algorithm = algorithm;
	candidate->collective = collective;
	candidate->next = picker->candidates;
	picker->candidates = candidate;
	*added = candidate;
	return 0;
}

static bool clearly_less(int64_t predicted, int64_t than)
{
	return predicted < than - than / RD_CUT_GAIN;
}

/* The best cut for one algorithm; over so many channels, as far as there are, or over any (-1). */
static void predict_algorithm(const struct rd_picker *picker, const struct rd_schedule *schedule,
	uint64_t block_size, enum rd_type_class type, int wanted, struct rd_choice *choice)
{
	const struct rd_tuner_config *config = &picker->config;
	int most = wanted > 0 && wanted < config->channels ? wanted : config->channels;
	int halvings = choice->algorithm->direct_access ? 0 : RD_HALVINGS;

	choice->predicted_ns = -1;
	for (int halved = 0; halved <= halvings; halved++) {
		size_t piece_size = config->piece_size >> halved;

		if (halved > 0 && (piece_size < RD_PIECE_LEAST || piece_size > block_size))
			continue;

		struct rd_cut cut = { block_size, type,
			choice->algorithm->direct_access ? SIZE_MAX : piece_size,
			config->channels };
		struct rd_timing timing = rd_timing_of(schedule, &config->costs, &cut);

		for (int channels = wanted > 0 ? most : 1; channels <= most; channels++) {
			int64_t predicted = rd_timing_predict(&timing, channels);

			if (choice->predicted_ns >= 0 &&
				!clearly_less(predicted, choice->predicted_ns))
				continue;
			choice->predicted_ns = predicted;
			choice->channels = channels;
			choice->piece_size = piece_size;
		}
	}
}

/* Predicts the cost of a buffer exchange. Returns 0 or an error. */
static int predict_exchange(struct rd_picker *picker, int64_t *predicted_ns)
{
	struct rd_problem problem = problem_of(picker, RD_ALL_GATHER);
	struct rd_cut cut = { picker->config.exchange_size, RD_WHOLE, picker->config.piece_size,
		1 };

	int err = picker->exchange ? 0
				   : rd_schedule_create(
					     &picker->exchange, &rd_buffer_exchange_plan, &problem);

	if (!err)
		*predicted_ns = rd_predict(picker->exchange, &picker->config.costs, &cut);
	return err;
}

/* ---- Choosing ------------------------------------------------------------------------------- */

/* Whether RONDO_ALGO names an algorithm that can do this. */
static bool is_named(const struct rd_picker *picker, enum rd_collective collective,
	bool peers_mapped, int *index)
{
	const char *algo = picker->config.algo;

	for (int i = 0; *algo && rd_algorithms[i]; i++) {
		*index = i;
		if (strcmp(rd_algorithms[i]->name, algo) == 0 && can(picker, collective, i) > 0)
			return peers_mapped || !rd_algorithms[i]->direct_access;
	}
	return false;
}

static bool is_in_range(const struct rd_algorithm *algorithm, enum rd_collective collective,
	uint64_t block_size, bool peers_mapped)
{
	const struct rd_plan_file *file = rd_plan_file_of(algorithm, collective);

	return file && block_size >= (uint64_t)file->least_bytes &&
	       block_size <= (uint64_t)file->most_bytes &&
	       (peers_mapped || !algorithm->direct_access);
}

/* The algorithm that a plan file or a row of RONDO_TUNE_FILE fixes for a call. */
struct fixed {
	int index; /* of the algorithm; -1: none is fixed */
	int channels; /* -1: the picker's choice */
	int number; /* of the file or the row, for the choice's key; 0: none */
};

/* The first row that fits, where RONDO_ALGO names no algorithm and the row's can do it. */
static int find_row(const struct rd_picker *picker, enum rd_collective collective,
	uint64_t block_size, bool peers_mapped, struct fixed *found)
{
	const struct rd_tuner_config *config = &picker->config;
	int hosts = config->layout ? config->layout->group_count : 1, index = 0, able;
	int at = config->rows ? rd_tuner_rows_find(
					config->rows, collective, block_size, hosts, config->size)
			      : -1;

	if (at < 0)
		return 0;
	const struct rd_tuner_row *row = &config->rows->rows[at];
	while (rd_algorithms[index] && rd_algorithms[index] != row->algorithm)
		index++;
	if (!rd_algorithms[index] || (row->algorithm->direct_access && !peers_mapped))
		return 0;
	able = can(picker, collective, index);
	if (able > 0)
		*found = (struct fixed){ index, row->channels, 1 + ALGORITHMS_MAX + at };
	return able < 0 ? able : 0;
}

/* The first plan file in whose range the call is, if RONDO_ALGO leaves it the call; else the first
   row. RONDO_MEMORY: this rank cannot find out. */
static int find_fixed(const struct rd_picker *picker, enum rd_collective collective,
	uint64_t block_size, bool peers_mapped, struct fixed *found)
{
	int named = -1, able;

	*found = (struct fixed){ -1, -1, 0 };
	if (!picker->has_files && !(picker->config.rows && picker->config.rows->count))
		return 0;
	if (!is_named(picker, collective, peers_mapped, &named))
		named = -1;
	for (int i = 0; picker->has_files && rd_algorithms[i] && found->index < 0; i++) {
		if ((named >= 0 && named != i) ||
			!is_in_range(rd_algorithms[i], collective, block_size, peers_mapped))
			continue;
		able = can(picker, collective, i);
		if (able < 0)
			return able;
		if (able)
			*found = (struct fixed){ i, -1, 1 + i };
	}
	if (found->index >= 0 || named >= 0)
		return 0;
	return find_row(picker, collective, block_size, peers_mapped, found);
}

/* Predicts every algorithm that can run, in the table's order, but no plan file except the fixed
   one. Returns their number, or an error. */
static int predict_all(struct rd_picker *picker, enum rd_collective collective, uint64_t block_size,
	enum rd_type_class type, bool peers_mapped, const struct fixed *fixed,
	struct rd_choice predicted[ALGORITHMS_MAX])
{
	int count = 0;

	for (int i = 0; rd_algorithms[i]; i++) {
		const struct candidate *candidate;
		int able = can(picker, collective, i), err = 0;

		if (able < 0)
			return able;
		if (!able || (rd_algorithms[i]->direct_access && !peers_mapped) ||
			(i != fixed->index && rd_plan_file_of(rd_algorithms[i], collective)))
			continue;
		candidate = find_candidate(picker, collective, rd_algorithms[i]);
		if (!candidate)
			err = add_candidate(picker, collective, rd_algorithms[i], &candidate);
		if (err)
			return err;
		if (!candidate->schedule)
			continue;
		predicted[count] = (struct rd_choice){
			.algorithm = candidate->algorithm,
			.shape = candidate->shape,
		};
		predict_algorithm(picker, candidate->schedule, block_size, type,
			i == fixed->index ? fixed->channels : -1, &predicted[count++]);
	}
	return count;
}

/* ---- The best ------------------------------------------------------------------------------- */

/* The cheapest of those of direct access, or of the others. */
static const struct rd_choice *cheapest_of(
	const struct rd_choice *predicted, int count, bool direct_access)
{
	const struct rd_choice *best = NULL;

	for (int i = 0; i < count; i++)
		if (predicted[i].algorithm->direct_access == direct_access &&
			(!best || predicted[i].predicted_ns < best->predicted_ns))
			best = &predicted[i];
	return best;
}

/* The fixed one, the one that RONDO_ALGO names, or the cheapest. */
static const struct rd_choice *best_of(const struct rd_picker *picker,
	enum rd_collective collective, uint64_t block_size, bool peers_mapped,
	const struct fixed *fixed, const struct rd_choice *predicted, int count)
{
	const struct rd_choice *direct = cheapest_of(predicted, count, true);
	const struct rd_choice *other = cheapest_of(predicted, count, false);
	int index = fixed->index;
	bool bound = index >= 0 || is_named(picker, collective, peers_mapped, &index);

	for (int i = 0; i < count && bound; i++)
		if (predicted[i].algorithm == rd_algorithms[index])
			return &predicted[i];
	if (direct &&
		(!other || (block_size >= RD_DIRECT_LEAST &&
				   direct->predicted_ns < other->predicted_ns * RD_DIRECT_TIME)))
		return direct;
	return other ? rd_prefer(&picker->config, collective, block_size, other, predicted, count)
		     : NULL;
}

static void log_choice(enum rd_collective collective, uint64_t block_size, int size,
	const struct rd_choice *choice, const struct rd_choice *predicted, int count)
{
	char others[256] = "";
	size_t used = 0;

	for (int i = 0; i < count && used < sizeof(others); i++)
		if (predicted[i].algorithm != choice->algorithm)
			used += (size_t)snprintf(others + used, sizeof(others) - used, "%s%s %.1f",
				used ? ", " : "; ", predicted[i].algorithm->name,
				(double)predicted[i].predicted_ns / 1e3);
	rd_log(RD_INFO, RD_PICK,
		"%s of %llu bytes on %d ranks: %s, channels %d, pieces of %zu bytes, predicted "
		"%.1f us%s",
		rd_collective_name(collective), (unsigned long long)block_size, size,
		choice->algorithm->name, choice->channels, choice->piece_size,
		(double)choice->predicted_ns / 1e3, others);
}

static int choose(struct rd_picker *picker, enum rd_collective collective, uint64_t block_size,
	enum rd_type_class type, bool peers_mapped, const struct fixed *fixed,
	struct rd_choice *choice)
{
	struct rd_choice predicted[ALGORITHMS_MAX];
	uint64_t least = rd_size_class_least(block_size);
	int count = predict_all(picker, collective, least, type, peers_mapped, fixed, predicted);

	if (count < 0)
		return count;

	const struct rd_choice *best =
		best_of(picker, collective, least, peers_mapped, fixed, predicted, count);

	if (!best)
		return rd_fail(RONDO_UNSUPPORTED, "no algorithm does %s on %d ranks",
			rd_collective_name(collective), picker->config.size);
	*choice = *best;
	/* In mapped memory, messages are chosen once more as in other memory, which logs them. */
	if (rd_log_on(RD_INFO, RD_PICK) && (!peers_mapped || choice->algorithm->direct_access))
		log_choice(collective, least, picker->config.size, choice, predicted, count);
	return 0;
}

int rd_picker_choose(struct rd_picker *picker, enum rd_collective collective, uint64_t block_size,
	enum rd_type_class type, bool peers_mapped, struct rd_choice **choice_out)
{
	struct rd_choice made;
	uint32_t key;
	struct fixed fixed;
	int err = find_fixed(picker, collective, block_size, peers_mapped, &fixed);

	if (err)
		return err;
	key = rd_pick_key(collective, block_size, type, peers_mapped, fixed.number);
	*choice_out = rd_choices_find(&picker->choices, key);
	if (*choice_out)
		return 0;
	err = choose(picker, collective, block_size, type, peers_mapped, &fixed, &made);
	if (err)
		return err;
	*choice_out = rd_choices_add(&picker->choices, key, &made);
	return *choice_out ? 0 : rd_fail(RONDO_MEMORY, "no memory for a picker");
}

/* ---- Explaining ----------------------------------------------------------------------------- */

static int by_prediction(const void *a, const void *b)
{
	const struct rondo_way *one = a, *other = b;

	return (one->predicted_us > other->predicted_us) -
	       (one->predicted_us < other->predicted_us);
}

/* The choice of a call in memory like this. */
static int choose_as_called(struct rd_picker *picker, enum rd_collective collective,
	uint64_t block_size, enum rd_type_class type, bool peers_mapped, struct rd_choice **choice)
{
	int err = rd_picker_choose(picker, collective, block_size, type, peers_mapped, choice);

	if (!err && peers_mapped && !(*choice)->algorithm->direct_access)
		err = rd_picker_choose(picker, collective, block_size, type, false, choice);
	return err;
}

int rd_picker_list(struct rd_picker *picker, enum rd_collective collective, uint64_t block_size,
	enum rd_type_class type, bool peers_mapped, struct rondo_way *ways, int most)
{
	struct rd_choice predicted[ALGORITHMS_MAX];
	struct rondo_way all[ALGORITHMS_MAX];
	struct rd_choice *best = NULL;
	int64_t exchange_ns = 0;
	struct fixed fixed;
	int count = 0, err = find_fixed(picker, collective, block_size, peers_mapped, &fixed);

	if (!err)
		count = predict_all(picker, collective, rd_size_class_least(block_size), type,
			peers_mapped, &fixed, predicted);
	if (count < 0)
		err = count;
	if (!err)
		err = choose_as_called(picker, collective, block_size, type, peers_mapped, &best);
	if (!err && peers_mapped)
		err = predict_exchange(picker, &exchange_ns);
	if (err)
		return err;
	/* Without an exchange no rank has the addresses, so direct access includes its cost. */
	for (int i = 0; i < count; i++)
		if (predicted[i].algorithm->direct_access)
			predicted[i].predicted_ns += exchange_ns;
		else if (predicted[i].algorithm == best->algorithm)
			predicted[i].predicted_ns =
				rd_single_copy_expect(&best->learned, predicted[i].predicted_ns);
	for (int i = 0; i < count; i++) {
		all[i] = (struct rondo_way){
			.channels = predicted[i].channels,
			.piece_size =
				predicted[i].algorithm->direct_access ? 0 : predicted[i].piece_size,
			.predicted_us = (double)predicted[i].predicted_ns / 1e3,
			.chosen = predicted[i].algorithm == best->algorithm,
		};
		snprintf(all[i].algorithm, sizeof(all[i].algorithm), "%s",
			predicted[i].algorithm->name);
	}
	qsort(all, count, sizeof(*all), by_prediction);
	for (int i = 0; i < count && i < most; i++)
		ways[i] = all[i];
	return count;
}

/* ---- Leaving -------------------------------------------------------------------------------- */

static void log_measured(const struct rd_made_choice *made)
{
	const struct rd_choice *choice = made->choice;

	if (choice->calls == 0)
		return;
	rd_log(RD_INFO, RD_PICK,
		"%s of %llu bytes and up: %s, %llu call%s, predicted %.1f us, measured "
		"%.1f us on average%s",
		rd_collective_name(rd_pick_key_collective(made->key)),
		(unsigned long long)rd_pick_key_least(made->key), choice->algorithm->name,
		(unsigned long long)choice->calls, RD_PLURAL(choice->calls),
		(double)rd_single_copy_expect(&choice->learned, choice->predicted_ns) / 1e3,
		(double)choice->measured_ns / 1e3 / (double)choice->calls,
		choice->learned.wins ? ", by single copy" : "");
}

void rd_picker_destroy(struct rd_picker *picker)
{
	if (!picker)
		return;
	for (int i = 0; i < picker->choices.count; i++)
		log_measured(&picker->choices.made[i]);
	while (picker->candidates) {
		struct candidate *next = picker->candidates->next;

		rd_schedule_destroy(picker->candidates->schedule);
		free(picker->candidates);
		picker->candidates = next;
	}
	rd_schedule_destroy(picker->exchange);
	rd_choices_finish(&picker->choices);
	free(picker);
}
