#include "check/options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract.h"
#include "rondo.h"

#define RANKS_MAX 1024
#define TIMEOUT_MAX_S 86400

static const char help[] =
	"usage: rondo-check --transport PLUGIN [OPTION]... [CASE]...\n"
	"       rondo-check --algorithm PLUGIN [OPTION]...\n"
	"\n"
	"Tries a plug-in: whether its transports keep the transport contract, and whether its\n"
	"algorithms' plans are right. Prints a line for each thing tried, each of which runs in a\n"
	"process of its own, and exits with 0 where nothing was refused.\n"
	"\n"
	"  --transport PLUGIN   shared object with transports; may be given again\n"
	"  --algorithm PLUGIN   shared object with algorithms; may be given again\n"
	"  --ranks N            prove plans for 1 to N ranks, and for some larger numbers\n"
	"                       (default 64)\n"
	"  --timeout SECONDS    the longest that one line may take (default 60 for a transport's,\n"
	"                       600 for an algorithm's)\n"
	"  --list               the cases of the contract suite\n"
	"  --help, --version\n"
	"\n"
	"With CASEs, only those of the contract suite are run.\n"
	"\n"
	"  rondo-check --transport ./libnearby.so\n"
	"  rondo-check --algorithm ./libstar.so --ranks 16\n";

static bool refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool refuse(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "rondo-check: %s (see rondo-check --help)\n", text);
	return false;
}

static bool read_number(const char *name, const char *text, long most, int *number)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || value < 1 || value > most)
		return refuse("--%s wants a number from 1 to %ld, not '%s'", name, most, text);
	*number = (int)value;
	return true;
}

static bool add_path(const char **paths, const char *path)
{
	int count = 0;

	if (!*path)
		return refuse("the path of a plug-in is empty");
	while (paths[count])
		count++;
	if (count == PATHS_MAX - 1)
		return refuse("more than %d plug-ins of a kind", PATHS_MAX - 1);
	paths[count] = path;
	return true;
}

static void list_cases(void)
{
	for (int i = 0; contract_cases[i].name; i++)
		printf("%s\n", contract_cases[i].name);
}

static bool is_case(const char *name)
{
	for (int i = 0; contract_cases[i].name; i++)
		if (strcmp(contract_cases[i].name, name) == 0)
			return true;
	return refuse("the contract suite has no case '%s' (rondo-check --list)", name);
}

enum { TRANSPORT = 1, ALGORITHM, RANKS, TIMEOUT, LIST, HELP, VERSION };

static bool take(struct options *options, int option)
{
	switch (option) {
	case TRANSPORT:
		return add_path(options->transports, optarg);
	case ALGORITHM:
		return add_path(options->algorithms, optarg);
	case RANKS:
		return read_number("ranks", optarg, RANKS_MAX, &options->ranks);
	case TIMEOUT:
		return read_number("timeout", optarg, TIMEOUT_MAX_S, &options->timeout_s);
	case LIST:
		list_cases();
		exit(0);
	case HELP:
		fputs(help, stdout);
		exit(0);
	case VERSION:
		printf("rondo-check %s\n", rondo_version());
		exit(0);
	}
	fprintf(stderr, "rondo-check: see rondo-check --help\n");
	return false;
}

bool options_read(struct options *options, int argc, char **argv)
{
	static const struct option known[] = {
		{ "transport", required_argument, NULL, TRANSPORT },
		{ "algorithm", required_argument, NULL, ALGORITHM },
		{ "ranks", required_argument, NULL, RANKS },
		{ "timeout", required_argument, NULL, TIMEOUT },
		{ "list", no_argument, NULL, LIST },
		{ "help", no_argument, NULL, HELP },
		{ "version", no_argument, NULL, VERSION },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	*options = (struct options){ .ranks = 64 };
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
		if (!take(options, option))
			return false;
	options->cases = argv + optind;
	for (char **name = options->cases; *name; name++)
		if (!is_case(*name))
			return false;
	if (!options->transports[0] && !options->algorithms[0])
		return refuse("name a plug-in, with --transport or --algorithm");
	if (options->cases[0] && !options->transports[0])
		return refuse("the cases are those of transports: name one with --transport");
	return true;
}
