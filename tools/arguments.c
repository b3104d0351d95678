#include "arguments.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "printed.h"
#include "rondo.h"

/* getopt_long() returns FIRST + i for the argument at index i: above every letter. */
enum { FIRST = 256, HELP = FIRST + ARGUMENTS_MAX, VERSION };

/* Each name in both spellings, --help, --version, and the end. */
#define SPELLINGS_MAX (2 * ARGUMENTS_MAX + 3)

bool arguments_refuse(const char *format, ...)
{
	const char *tool = program_invocation_short_name;
	va_list values;

	fprintf(stderr, "%s: ", tool);
	va_start(values, format);
	vfprintf(stderr, format, values);
	va_end(values);
	fprintf(stderr, " (see %s --help)\n", tool);
	return false;
}

const char *arguments_name(const struct argument *argument, char text[ARGUMENT_NAME_SIZE])
{
	snprintf(text, ARGUMENT_NAME_SIZE, "%s%s",
		islower((unsigned char)*argument->name) ? "--" : "", argument->name);
	return text;
}

bool arguments_refuse_value(const struct argument *argument, const char *wanted, const char *text)
{
	char name[ARGUMENT_NAME_SIZE];

	return arguments_refuse(
		"%s wants %s, not '%s'", arguments_name(argument, name), wanted, text);
}

bool arguments_refuse_name(
	const struct argument *argument, const char *wanted, const struct rd_nearest *nearest)
{
	char name[ARGUMENT_NAME_SIZE], meant[RD_NEAREST_TEXT];

	return arguments_refuse("%s wants %s, not '%s'%s", arguments_name(argument, name), wanted,
		nearest->wanted, rd_nearest_text(nearest, meant));
}

bool arguments_number(const struct argument *argument, void *target, const char *text)
{
	char *end, wanted[80];
	long value = strtol(text, &end, 10);

	/* strtol() also accepts signs and spaces, and returns LONG_MAX for larger numbers. */
	if (isdigit((unsigned char)*text) && !*end && value >= argument->least &&
		value <= argument->most) {
		*(int *)target = (int)value;
		return true;
	}
	snprintf(wanted, sizeof(wanted), "a number from %ld to %ld", argument->least,
		argument->most);
	return arguments_refuse_value(argument, wanted, text);
}

bool arguments_parse_size(const char *text, size_t *size)
{
	char *end;
	double value = strtod(text, &end), unit = 1;

	/* strtod() also accepts signs, "inf" and "nan". */
	if (!isdigit((unsigned char)*text) || end == text)
		return false;
	if (*end) {
		const char *suffix = "kmg", *found = strchr(suffix, tolower((unsigned char)*end));
		if (!found || (end[1] && strcmp(end + 1, "B") != 0 && strcmp(end + 1, "iB") != 0))
			return false;
		for (long i = found - suffix; i >= 0; i--)
			unit *= 1024;
	}
	if (!(value * unit < 0x1p62))
		return false;
	*size = (size_t)(value * unit);
	return true;
}

bool arguments_parse_time(const char *text, int64_t *time_ps)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	char *end;
	double value = strtod(text, &end), unit_ps = 1e3;

	if (!isdigit((unsigned char)*text))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++, unit_ps *= 1000) {
		if (strcmp(end, units[i]) != 0 || !(value * unit_ps < 1e18))
			continue;
		*time_ps = (int64_t)(value * unit_ps + 0.5);
		return true;
	}
	return false;
}

bool arguments_size(const struct argument *argument, void *target, const char *text)
{
	char wanted[80];
	size_t size;

	if (arguments_parse_size(text, &size) && size >= (size_t)argument->least &&
		size <= ARGUMENTS_BYTES_MAX) {
		*(size_t *)target = size;
		return true;
	}
	snprintf(wanted, sizeof(wanted), "a size such as 8, 64K or 128M, from %ld to %ldG",
		argument->least, ARGUMENTS_BYTES_MAX >> 30);
	return arguments_refuse_value(argument, wanted, text);
}

bool arguments_text(const struct argument *argument, void *target, const char *text)
{
	if (!*text)
		return arguments_refuse_value(argument, "a value", text);
	*(const char **)target = text;
	return true;
}

/* ---- Variables ------------------------------------------------------------------------------ */

static void name_variable(char name[ARGUMENT_NAME_SIZE], const char *prefix, const char *option)
{
	snprintf(name, ARGUMENT_NAME_SIZE, "%s%s", prefix, option);
	for (char *at = name; *at; at++)
		*at = (char)(*at == '-' ? '_' : toupper((unsigned char)*at));
}

static bool read_variable(const struct argument *variable, void *options, const char *text)
{
	void *target = (char *)options + variable->offset;

	if (variable->read)
		return variable->read(variable, target, text);
	if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return arguments_refuse_value(variable, "0 or 1", text);
	*(bool *)target = *text == '1';
	return true;
}

static bool read_variables(const struct arguments *known, void *options)
{
	for (const struct argument *at = known->table; at->name; at++) {
		char name[ARGUMENT_NAME_SIZE];
		struct argument variable = *at;
		const char *text;

		name_variable(name, known->variables, at->name);
		variable.name = name;
		text = getenv(name);
		if (text && *text && !read_variable(&variable, options, text))
			return false;
	}
	return true;
}

/* ---- The command line ----------------------------------------------------------------------- */

/* Writes the name with "_" for "-", and "-" for "_"; false where it has none. */
static bool respell(char other[ARGUMENT_NAME_SIZE], const char *name)
{
	strcpy(other, name);
	for (char *at = other; *at; at++)
		*at = (char)(*at == '-' ? '_' : *at == '_' ? '-' : *at);
	return strcmp(other, name) != 0;
}

/* Translates the table for getopt_long(), which takes two spellings of one value for one option. */
static void translate(const struct arguments *known, struct option *longs, char *letters,
	char (*respelt)[ARGUMENT_NAME_SIZE])
{
	int count = 0, index = 0;

	if (known->stops)
		*letters++ = '+';
	*letters++ = ':';
	*letters++ = 'h';
	for (const struct argument *at = known->table; at->name; at++, index++) {
		int has_value = at->read ? required_argument : no_argument;

		assert(index < ARGUMENTS_MAX && strlen(at->name) < ARGUMENT_NAME_SIZE);
		longs[count++] = (struct option){ at->name, has_value, NULL, FIRST + index };
		if (respell(respelt[index], at->name))
			longs[count++] =
				(struct option){ respelt[index], has_value, NULL, FIRST + index };
		if (at->letter)
			*letters++ = (char)at->letter;
		if (at->letter && at->read)
			*letters++ = ':';
	}
	*letters = '\0';
	longs[count++] = (struct option){ "help", no_argument, NULL, HELP };
	longs[count++] = (struct option){ "version", no_argument, NULL, VERSION };
	longs[count] = (struct option){ 0 };
}

static const struct argument *find(const struct arguments *known, int found)
{
	const struct argument *at = known->table;

	if (found >= FIRST)
		return at + (found - FIRST);
	while (at->letter != found)
		at++;
	return at;
}

static void answer_and_exit(const char *format, const char *text)
{
	printf(format, text);
	exit(printed_all(program_invocation_short_name) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Whether one name is the other's beginning, "_" and "-" being the same. */
static bool begins(const char *name, const char *beginning)
{
	for (; *beginning; name++, beginning++) {
		bool join = *name == '-' || *name == '_';

		if (*name != *beginning && !(join && (*beginning == '-' || *beginning == '_')))
			return false;
	}
	return true;
}

/* False where at most one option begins so; else it is refused with them. */
static bool refused_as_ambiguous(const struct arguments *known, const char *name)
{
	char all[256] = "";
	int count = 0;

	for (const struct argument *at = known->table; at->name; at++) {
		size_t length = strlen(all);

		if (begins(at->name, name))
			snprintf(all + length, sizeof(all) - length, "%s--%s", count++ ? ", " : "",
				at->name);
	}
	if (count > 1)
		arguments_refuse("--%s may be %s", name, all);
	return count > 1;
}

/* The word is an unknown option, an ambiguous one, or a flag with a value. */
static bool refuse_option(const struct arguments *known, const char *word)
{
	char name[64], meant[RD_NEAREST_TEXT] = "";
	struct rd_nearest nearest = RD_NEAREST(name);

	if (strncmp(word, "--", 2) != 0)
		return arguments_refuse("%s is no option here", word);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (const struct argument *at = known->table; at->name; at++) {
		if (strlen(at->name) == strlen(name) && begins(at->name, name))
			return arguments_refuse("--%s takes no value", name);
	}
	if (refused_as_ambiguous(known, name))
		return false;
	for (const struct argument *at = known->table; at->name; at++)
		rd_nearest_try(&nearest, at->name);
	rd_nearest_try(&nearest, "help");
	rd_nearest_try(&nearest, "version");
	rd_nearest_text(&nearest, meant);
	return arguments_refuse("%s is no option here%s%s%s", word,
		*meant ? "; did you mean --" : "", *meant ? nearest.name : "", *meant ? "?" : "");
}

static bool take(const struct arguments *known, void *options, int found, const char *word)
{
	switch (found) {
	case 'h':
	case HELP:
		answer_and_exit("%s", known->help);
		return true;
	case VERSION:
		printf("%s ", program_invocation_short_name);
		answer_and_exit("%s\n", rondo_version());
		return true;
	case ':':
		return arguments_refuse("%s needs a value", word);
	case '?':
		return refuse_option(known, word);
	}
	const struct argument *argument = find(known, found);
	void *target = (char *)options + argument->offset;

	if (known->given)
		*known->given |= UINT64_C(1) << (argument - known->table);
	/* getopt_long() takes "-r=3" for "-r" and "=3". */
	if (argument->read)
		return argument->read(
			argument, target, found < FIRST && *optarg == '=' ? optarg + 1 : optarg);
	*(bool *)target = true;
	return true;
}

int arguments_read(const struct arguments *known, void *options, int argc, char **argv)
{
	struct option longs[SPELLINGS_MAX];
	char letters[2 * ARGUMENTS_MAX + 4], respelt[ARGUMENTS_MAX][ARGUMENT_NAME_SIZE];
	int found;

	if (known->variables && !read_variables(known, options))
		return -1;
	translate(known, longs, letters, respelt);
	optind = 0; /* GNU: starts again, for a second call in one process */
	opterr = 0;
	while ((found = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";

		if (!take(known, options, found, word))
			return -1;
	}
	return optind;
}
