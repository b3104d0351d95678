/*
 * The table of options: one row makes an option known to the parser, to --help and to the check of
 * its value. A row without a name begins a section.
 */
#ifndef TRAIN_OPTION_TABLE_H
#define TRAIN_OPTION_TABLE_H

#include <stddef.h>

#include "train/options.h"

enum option_type {
	OPTION_FLAG, /* bool */
	OPTION_TEXT, /* const char * */
	OPTION_COUNT, /* int, from low to high */
	OPTION_NUMBER, /* int64_t, likewise */
	OPTION_REAL, /* double, above low, at most high */
	OPTION_NAME, /* int: which of names */
	OPTION_OWN, /* take() stores it */
};

struct option_row {
	const char *name; /* without dashes; NULL: a section */
	const char *value; /* in --help: "N"; "[=URL]": it may be left out; NULL: it takes none */
	const char *help; /* lines after the first are indented by --help; of a section: its name */
	enum option_type type;
	size_t offset; /* in struct options */
	double low, high;
	const char *const *names; /* ends with NULL */
	int (*take)(struct options *options, const char *value /* NULL: left out */);
};

extern const struct option_row option_table[];
extern const int option_count;

/* The row of this name, which exists. */
int option_number(const char *name);

/* Stores a value in its row's field; fails if it is wrong. NULL: left out. (options.c) */
int option_take(struct options *options, const struct option_row *row, const char *value);

#endif
