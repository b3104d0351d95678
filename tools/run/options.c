#include "run/options.h"

#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rondo.h"

#define RANKS_MAX 65536
#define DEFAULT_PORT 29500

static const char help[] =
	"usage: rondo-run [OPTION]... PROGRAM [ARGUMENT]...\n"
	"\n"
	"Starts PROGRAM as several ranks of one job, with RANK, WORLD_SIZE, MASTER_ADDR,\n"
	"MASTER_PORT and their kin set as torchrun sets them. When a rank fails, the others\n"
	"are ended and its exit status becomes this command's.\n"
	"\n"
	"  --nproc-per-node N      ranks on this node: a number, or auto or cpu for one a\n"
	"                          processor (default 1)\n"
	"  --standalone            this node is the whole job; the port is any that is free\n"
	"                          (default where no other node and no port is named)\n"
	"  --nnodes M              nodes in the job; start rondo-run once on each (default 1)\n"
	"  --node-rank K           which of them this is, from 0\n"
	"  --master-addr ADDRESS   node 0, where rank 0 listens\n"
	"  --master-port PORT      the port it listens on (default 29500)\n"
	"  --tag                   begin each line that rank 3 prints with \"[3] \"\n"
	"  --grace SECONDS         from SIGTERM to SIGKILL, when ranks must end (default 5)\n"
	"  --help, --version\n"
	"\n"
	"Names may be written with _ for -, and values after = or a space.\n"
	"\n"
	"  rondo-run --nproc-per-node 2 ./hello\n"
	"  rondo-run --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --nproc-per-node 4 ./hello\n";

static bool refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool refuse(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "rondo-run: %s (see rondo-run --help)\n", text);
	return false;
}

static bool read_number(const char *name, const char *text, long least, long most, int *number)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || value < least || value > most)
		return refuse(
			"--%s wants a number from %ld to %ld, not '%s'", name, least, most, text);
	*number = (int)value;
	return true;
}

static bool read_local_size(const char *text, int *local_size)
{
	cpu_set_t mine;

	if (strcmp(text, "auto") != 0 && strcmp(text, "cpu") != 0)
		return read_number("nproc-per-node", text, 1, RANKS_MAX, local_size);
	/* More processors than the set can hold: EINVAL. */
	if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
		return refuse("--nproc-per-node %s: cannot count the processors: %m", text);
	*local_size = CPU_COUNT(&mine);
	return true;
}

/* An IPv6 address may be written as in a URL, [fd00::1]; programs want it without. */
static const char *strip_brackets(char *address)
{
	size_t length = strlen(address);

	if (length < 3 || address[0] != '[' || address[length - 1] != ']')
		return address;
	address[length - 1] = '\0';
	return address + 1;
}

enum {
	OPT_NPROC = 1,
	OPT_STANDALONE,
	OPT_NNODES,
	OPT_NODE,
	OPT_ADDRESS,
	OPT_PORT,
	OPT_TAG,
	OPT_GRACE,
	OPT_HELP,
	OPT_VERSION
};

/* torchrun takes both spellings. */
static const struct option long_options[] = {
	{ "nproc-per-node", required_argument, NULL, OPT_NPROC },
	{ "nproc_per_node", required_argument, NULL, OPT_NPROC },
	{ "standalone", no_argument, NULL, OPT_STANDALONE },
	{ "nnodes", required_argument, NULL, OPT_NNODES },
	{ "node-rank", required_argument, NULL, OPT_NODE },
	{ "node_rank", required_argument, NULL, OPT_NODE },
	{ "master-addr", required_argument, NULL, OPT_ADDRESS },
	{ "master_addr", required_argument, NULL, OPT_ADDRESS },
	{ "master-port", required_argument, NULL, OPT_PORT },
	{ "master_port", required_argument, NULL, OPT_PORT },
	{ "tag", no_argument, NULL, OPT_TAG },
	{ "grace", required_argument, NULL, OPT_GRACE },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static void answer_and_exit(const char *format, const char *text)
{
	bool said = printf(format, text) >= 0 && fflush(stdout) == 0;

	exit(said ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* As given; -1 or NULL: not given. */
struct given {
	bool standalone;
	int node, port;
	const char *address;
};

static bool read_option(struct options *options, struct given *given, int option)
{
	switch (option) {
	case OPT_NPROC:
		return read_local_size(optarg, &options->local_size);
	case OPT_STANDALONE:
		given->standalone = true;
		return true;
	case OPT_NNODES:
		return read_number("nnodes", optarg, 1, RANKS_MAX, &options->nodes);
	case OPT_NODE:
		return read_number("node-rank", optarg, 0, RANKS_MAX - 1, &given->node);
	case OPT_ADDRESS:
		given->address = strip_brackets(optarg);
		return true;
	case OPT_PORT:
		return read_number("master-port", optarg, 1, 65535, &given->port);
	case OPT_TAG:
		options->tag = true;
		return true;
	case OPT_GRACE:
		return read_number("grace", optarg, 0, GRACE_MAX_S, &options->grace_s);
	case OPT_HELP:
		answer_and_exit("%s", help);
		return true;
	case OPT_VERSION:
		answer_and_exit("rondo-run %s\n", rondo_version());
		return true;
	default:
		return false; /* getopt has said why */
	}
}

/* What the options mean together. */
static bool settle(struct options *options, const struct given *given)
{
	bool alone = options->nodes == 1;

	if (given->standalone && (!alone || given->address || given->port >= 0))
		return refuse("--standalone goes with no other node, no --master-addr and no "
			      "--master-port");
	if (!alone && given->node < 0)
		return refuse("--nnodes %d needs --node-rank", options->nodes);
	if (!alone && !given->address)
		return refuse("--nnodes %d needs --master-addr", options->nodes);
	if (given->node >= options->nodes)
		return refuse("--node-rank %d: the %d node%s from 0", given->node, options->nodes,
			alone ? " counts" : "s count");
	if ((long)options->nodes * options->local_size > RANKS_MAX)
		return refuse("%d nodes of %d ranks are more than %d ranks", options->nodes,
			options->local_size, RANKS_MAX);
	if (given->address && !*given->address)
		return refuse("--master-addr is empty");
	options->node = given->node < 0 ? 0 : given->node;
	options->address = given->address ? given->address : "127.0.0.1";
	options->port = given->port >= 0 ? given->port : alone ? 0 : DEFAULT_PORT;
	return true;
}

bool options_read(struct options *options, int argc, char **argv)
{
	struct given given = { .node = -1, .port = -1 };
	int option;

	*options = (struct options){ .nodes = 1, .local_size = 1, .grace_s = 5 };
	/* "+": what follows the program is the program's. */
	while ((option = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
		if (!read_option(options, &given, option))
			return false;
	}
	if (optind == argc)
		return refuse("which program is to be run?");
	options->command = argv + optind;
	return settle(options, &given);
}
