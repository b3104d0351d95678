/*
 * The command lines of the tools. A tool lists its options in a table, with the offset of each in a
 * struct of its own. Wrong arguments are refused in one line on stderr, with the values that are
 * accepted.
 *
 * A name may be written with "_" for "-" and "-" for "_", and cut short where one option alone
 * begins so.
 */
#ifndef TOOLS_ARGUMENTS_H
#define TOOLS_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARGUMENTS_MAX 48
/* No buffer has more bytes: the user's half of 48-bit addresses. */
#define ARGUMENTS_BYTES_MAX (1L << 47)

struct argument {
	/* Without the "--". A reader may also get "PET_MAX_RESTARTS", whose value it reads. */
	const char *name;
	int letter; /* its short form; 0: none */
	size_t offset; /* of the member that it sets, in the tool's struct */
	/* Stores the value of `text` in `target`; false: refused. NULL: a flag, whose bool is
	   set. */
	bool (*read)(const struct argument *argument, void *target, const char *text);
	long least, most; /* range of a number; of a size, `least` counts alone */
};

struct arguments {
	const char *help; /* for --help and -h */
	const struct argument *table; /* ends with a NULL name; ARGUMENTS_MAX at most */
	bool stops; /* words from the first that is no option belong to another program */
	/*
	 * "PET_": --max-restarts is also read from PET_MAX_RESTARTS, a flag as 0 or 1. The command
	 * line goes before it, and an empty variable counts as none. NULL: no variables.
	 */
	const char *variables;
	/* A bit for each option that the command line has, the table's first in the lowest: is
	   set. NULL: nobody asks. */
	uint64_t *given;
};

/*
 * Fills in `options`, which holds the defaults; texts point into argv, or the environment. Moves
 * the words that are no options to the end of argv, and returns the index of the first; -1: an
 * argument was refused.
 * --help, -h and --version print and exit.
 */
int arguments_read(const struct arguments *known, void *options, int argc, char **argv);

/* Prints the reason and a hint at --help on stderr, one line. Always false. */
bool arguments_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define ARGUMENT_NAME_SIZE 64

/* Writes the name for a message: "--max-restarts", or "PET_MAX_RESTARTS". Returns text. */
const char *arguments_name(const struct argument *argument, char text[ARGUMENT_NAME_SIZE]);

/* The same for an option's value: "--ranks wants WANTED, not 'TEXT'". */
bool arguments_refuse_value(const struct argument *argument, const char *wanted, const char *text);

/* The same for a name, with the nearest name as a suggestion. */
struct rd_nearest;
bool arguments_refuse_name(
	const struct argument *argument, const char *wanted, const struct rd_nearest *nearest);

/* Readers of an int from `least` to `most`, of a size_t from `least` to ARGUMENTS_BYTES_MAX bytes,
   and of a const char * that is not empty. */
bool arguments_number(const struct argument *argument, void *target, const char *text);
bool arguments_size(const struct argument *argument, void *target, const char *text);
bool arguments_text(const struct argument *argument, void *target, const char *text);

/* "128M" -> bytes; K, M and G are powers of 1024. False if it is no size. */
bool arguments_parse_size(const char *text, size_t *size);
/* "1ms" -> picoseconds, of ns, us, ms or s. False if it is no time below 11 days. */
bool arguments_parse_time(const char *text, int64_t *time_ps);

#endif
