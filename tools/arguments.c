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
#include "rondo.h"

/* getopt_long() returns FIRST + i for the option at index i: above every letter. */
enum { FIRST = 256, HELP = FIRST + ARGUMENTS_MAX, VERSION };

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

bool arguments_refuse_value(const struct argument *argument, const char *wanted, const char *text)
{
	return arguments_refuse("--%s wants %s, not '%s'", argument->name, wanted, text);
}

bool arguments_refuse_name(
	const struct argument *argument, const char *wanted, const struct rd_nearest *nearest)
{
	char meant[RD_NEAREST_TEXT];

	return arguments_refuse("--%s wants %s, not '%s'%s", argument->name, wanted,
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

bool arguments_text(const struct argument *argument, void *target, const char *text)
{
	if (!*text)
		return arguments_refuse_value(argument, "a value", text);
	*(const char **)target = text;
	return true;
}

/* Translates the table for getopt_long(). */
static void translate(const struct arguments *known, struct option *longs, char *letters)
{
	int count = 0;

	if (known->stops)
		*letters++ = '+';
	*letters++ = ':';
	*letters++ = 'h';
	for (const struct argument *at = known->table; at->name; at++, count++) {
		assert(count < ARGUMENTS_MAX);
		longs[count] = (struct option){ at->name,
			at->read ? required_argument : no_argument, NULL, FIRST + count };
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
	bool printed = printf(format, text) >= 0 && fflush(stdout) == 0;

	exit(printed ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* The word is an unknown option, or a flag with a value. */
static bool refuse_option(const struct arguments *known, const char *word)
{
	char name[64], meant[RD_NEAREST_TEXT] = "";
	struct rd_nearest nearest = RD_NEAREST(name);

	if (strncmp(word, "--", 2) != 0)
		return arguments_refuse("%s is no option here", word);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	for (const struct argument *at = known->table; at->name; at++) {
		char option[64];

		snprintf(option, sizeof(option), "--%s", at->name);
		if (strcmp(option, name) == 0)
			return arguments_refuse("%s takes no value", name);
	}
	memmove(name, name + 2, strlen(name + 2) + 1);
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

	if (argument->read)
		return argument->read(argument, target, optarg);
	*(bool *)target = true;
	return true;
}

int arguments_read(const struct arguments *known, void *options, int argc, char **argv)
{
	struct option longs[ARGUMENTS_MAX + 3];
	char letters[2 * ARGUMENTS_MAX + 4];
	int found;

	translate(known, longs, letters);
	optind = 0; /* GNU: starts again, for a second call in one process */
	opterr = 0;
	while ((found = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";

		if (!take(known, options, found, word))
			return -1;
	}
	return optind;
}
