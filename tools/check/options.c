#include "check/options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "printed.h"
#include "transports/contract/suite.h"
#include "base/settings.h"

#define TIMEOUT_MAX_S 86400

static const char help[] =
	"usage: rondo-check --transport NAME|PLUGIN [OPTION]... [CASE]...\n"
	"       rondo-check --algorithm PLUGIN [OPTION]...\n"
	"\n"
	"Tries a plug-in: whether its transports keep the transport contract, and whether its\n"
	"algorithms' plans are right. Prints a line for each thing tried, each of which runs in a\n"
	"process of its own, and exits with 0 where nothing was refused.\n"
	"\n"
	"  --transport PLUGIN   shared object with transports, or the name of a transport of Rondo\n"
	"                       (shm, tcp, verbs); may be given again\n"
	"  --algorithm PLUGIN   shared object with algorithms; may be given again\n"
	"  --ranks N            prove plans for 1 to N ranks, and for some larger numbers\n"
	"                       (default 64)\n"
	"  --timeout SECONDS    the longest that one line may take (default 60 for a transport's,\n"
	"                       600 for an algorithm's)\n"
	"  --measure            measure latency and bandwidth of a link between two processes, in\n"
	"                       place of the cases\n"
	"  --no-fork            run one CASE, or the proofs, in rondo-check's own process, for a\n"
	"                       debugger; waits may then take 20 minutes, or a third of --timeout\n"
	"  --list               the cases of the contract suite\n"
	"  -h, --help, --version\n"
	"\n"
	"With CASEs, only those of the contract suite are run.\n"
	"\n"
	"  rondo-check --transport ./libnearby.so\n"
	"  rondo-check --algorithm ./libstar.so --ranks 16\n";

static bool read_path(const struct argument *argument, void *target, const char *text)
{
	const char **paths = target;
	size_t length = strlen(text);
	int count = 0;

	if (length > 5 && strcmp(text + length - 5, ".json") == 0)
		return arguments_refuse(
			"%s is no shared object: rondo-plan prove %s proves a plan file", text,
			text);
	while (paths[count])
		count++;
	if (count == PATHS_MAX - 1)
		return arguments_refuse("more than %d plug-ins of a kind", PATHS_MAX - 1);
	return arguments_text(argument, &paths[count], text);
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
	return arguments_refuse("the contract suite has no case '%s': --list lists them", name);
}

#define AT(member) offsetof(struct options, member)

static const struct argument table[] = {
	{ "transport", 0, AT(transports), read_path, 0, 0 },
	{ "algorithm", 0, AT(algorithms), read_path, 0, 0 },
	{ "ranks", 0, AT(ranks), arguments_number, 1, RD_SIZE_MAX },
	{ "timeout", 0, AT(timeout_s), arguments_number, 1, TIMEOUT_MAX_S },
	{ "measure", 0, AT(measures), NULL, 0, 0 },
	{ "no-fork", 0, AT(no_fork), NULL, 0, 0 },
	{ "list", 0, AT(lists), NULL, 0, 0 },
	{ 0 },
};

bool options_read(struct options *options, int argc, char **argv)
{
	static const struct arguments known = { help, table, false, NULL, NULL };

	*options = (struct options){ .ranks = 64 };

	int left = arguments_read(&known, options, argc, argv);

	if (left < 0)
		return false;
	if (options->lists) {
		list_cases();
		exit(!printed_all("rondo-check"));
	}
	options->cases = argv + left;
	for (char **name = options->cases; *name; name++)
		if (!is_case(*name))
			return false;
	if (!options->transports[0] && !options->algorithms[0])
		return arguments_refuse("name a plug-in, with --transport or --algorithm");
	if (options->cases[0] && !options->transports[0])
		return arguments_refuse(
			"the cases are those of transports: name one with --transport");
	if (options->no_fork && options->transports[0] && (!options->cases[0] || options->cases[1]))
		return arguments_refuse("--no-fork runs one case of the suite: name it");
	if (options->measures && (options->cases[0] || !options->transports[0]))
		return arguments_refuse("--measure takes a transport, and no case");
	return true;
}
