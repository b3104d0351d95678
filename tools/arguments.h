/*
 * The command lines of the tools. A tool lists its options in a table, which says where each lies
 * in a struct of its own; what makes no sense is refused in one line on stderr that says what
 * would.
 */
#ifndef TOOLS_ARGUMENTS_H
#define TOOLS_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#define ARGUMENTS_MAX 48

struct argument {
	const char *name; /* without the "--" */
	int letter; /* its short form; 0: none */
	size_t offset; /* of what it sets, in the tool's struct */
	/* Puts what `text` says at `target`; false: refused. NULL: a flag, whose bool is set. */
	bool (*read)(const struct argument *argument, void *target, const char *text);
	long least, most; /* of a number */
};

struct arguments {
	const char *help; /* for --help and -h */
	const struct argument *table; /* ends with a NULL name; ARGUMENTS_MAX at most */
	bool stops; /* what follows the first word that is no option is for somebody else */
};

/*
 * Fills in `options`, which holds the defaults; texts point into argv. Returns the index in argv of
 * the first word that is no option (they stand together at the end), or -1 where something was
 * refused.
 * --help, -h and --version are answered here, and exit.
 */
int arguments_read(const struct arguments *known, void *options, int argc, char **argv);

/* Says what is wrong, and points to --help. Always false. */
bool arguments_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same of one option's value: "--ranks wants WANTED, not 'TEXT'". */
bool arguments_refuse_value(const struct argument *argument, const char *wanted, const char *text);

/* The same of a name, beside which the nearest of those that were tried is suggested. */
struct rd_nearest;
bool arguments_refuse_name(
	const struct argument *argument, const char *wanted, const struct rd_nearest *nearest);

/* Readers: for an int from `least` to `most`, and for a const char * that is not empty. */
bool arguments_number(const struct argument *argument, void *target, const char *text);
bool arguments_text(const struct argument *argument, void *target, const char *text);

#endif
