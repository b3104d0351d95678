#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rondo.h"

static const char help[] =
	"usage: rondo-topo [OPTION]...\n"
	"\n"
	"Shows what this host holds, and how near its GPUs and NICs are to each other.\n"
	"\n"
	"  --load FILE    show the topology in FILE instead\n"
	"  --ranks N      also show the places that N ranks would have, and their ring and trees\n"
	"\n"
	"Instead of the matrix:\n"
	"  --json         print the topology, and all that is shown of it, as JSON\n"
	"  --dump FILE    write the topology to FILE, for --load and RONDO_TOPO_FILE\n"
	"  --svg FILE     draw it, and with --ranks the ring and trees over it, to FILE\n"
	"\n"
	"  --help, --version\n"
	"\n"
	"FILE may be - for standard output. RONDO_DEBUG=INFO tells what was not found.\n"
	"\n"
	"  rondo-topo --dump here.json\n"
	"  rondo-topo --load here.json --ranks 8 --svg here.svg\n";

static bool refuse(const char *what, const char *value)
{
	fprintf(stderr, "rondo-topo: %s%s%s (see rondo-topo --help)\n", what, value ? " " : "",
		value ? value : "");
	return false;
}

static bool read_ranks(int *ranks, const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value < 1 || value > TOPO_RANKS_MAX)
		return refuse("--ranks wants a number from 1 to 1024, not", text);
	*ranks = (int)value;
	return true;
}

enum { OPT_LOAD = 1, OPT_DUMP, OPT_SVG, OPT_JSON, OPT_RANKS, OPT_HELP, OPT_VERSION };

static const struct option long_options[] = {
	{ "load", required_argument, NULL, OPT_LOAD },
	{ "dump", required_argument, NULL, OPT_DUMP },
	{ "svg", required_argument, NULL, OPT_SVG },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "ranks", required_argument, NULL, OPT_RANKS },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static void answer_and_exit(const char *format, const char *text)
{
	bool said = printf(format, text) >= 0 && fflush(stdout) == 0;

	exit(said ? EXIT_SUCCESS : EXIT_FAILURE);
}

static bool read_file(const char **file, const char *name)
{
	*file = optarg;
	return *optarg || refuse(name, "wants the name of a file");
}

static bool read_option(struct topo_options *options, int option)
{
	switch (option) {
	case OPT_LOAD:
		return read_file(&options->load, "--load");
	case OPT_DUMP:
		return read_file(&options->dump, "--dump");
	case OPT_SVG:
		return read_file(&options->svg, "--svg");
	case OPT_JSON:
		options->json = true;
		return true;
	case OPT_RANKS:
		return read_ranks(&options->ranks, optarg);
	case OPT_HELP:
		answer_and_exit("%s", help);
		return true;
	case OPT_VERSION:
		answer_and_exit("rondo-topo %s\n", rondo_version());
		return true;
	default:
		return false; /* getopt has said why */
	}
}

static bool is_stdout(const char *file)
{
	return file && !strcmp(file, "-");
}

bool topo_options_read(struct topo_options *options, int argc, char **argv)
{
	int option;

	*options = (struct topo_options){ 0 };
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (!read_option(options, option))
			return false;
	}
	if (optind < argc)
		return refuse("what is meant by", argv[optind]);
	if (options->json + is_stdout(options->dump) + is_stdout(options->svg) > 1)
		return refuse("standard output can be given one of --json, --dump and --svg", NULL);
	return true;
}
