#include "run/options.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "base/port.h"

#define RANKS_MAX 65536

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
	"  --master-port PORT      a port left free for the program (default 29500); rank 0\n"
	"                          listens 2000 below it, or at RONDO_PORT\n"
	"  --tag                   begin each line that rank 3 prints with \"[3] \"\n"
	"  --grace SECONDS         from SIGTERM to SIGKILL, when ranks must end (default 5)\n"
	"  -h, --help, --version\n"
	"\n"
	"Names may be written with _ for -, and values after = or a space.\n"
	"\n"
	"  rondo-run --nproc-per-node 2 ./hello\n"
	"  rondo-run --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --nproc-per-node 4 ./hello\n";

static bool read_local_size(const struct argument *argument, void *target, const char *text)
{
	cpu_set_t mine;

	if (strcmp(text, "auto") != 0 && strcmp(text, "cpu") != 0)
		return arguments_number(argument, target, text);
	/* More processors than the set can hold: EINVAL. */
	if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
		return arguments_refuse(
			"--%s %s: cannot count the processors: %m", argument->name, text);
	*(int *)target = CPU_COUNT(&mine);
	return true;
}

/* An IPv6 address may be written as in a URL, [fd00::1]; programs want it without. */
static bool read_address(const struct argument *argument, void *target, const char *text)
{
	size_t length = strlen(text);

	if (length >= 3 && text[0] == '[' && text[length - 1] == ']') {
		((char *)text)[length - 1] = '\0';
		text++;
	}
	return arguments_text(argument, target, text);
}

#define AT(member) offsetof(struct options, member)

/* torchrun takes both spellings. */
static const struct argument table[] = {
	{ "nproc-per-node", 0, AT(local_size), read_local_size, 1, RANKS_MAX },
	{ "nproc_per_node", 0, AT(local_size), read_local_size, 1, RANKS_MAX },
	{ "standalone", 0, AT(standalone), NULL, 0, 0 },
	{ "nnodes", 0, AT(nodes), arguments_number, 1, RANKS_MAX },
	{ "node-rank", 0, AT(node), arguments_number, 0, RANKS_MAX - 1 },
	{ "node_rank", 0, AT(node), arguments_number, 0, RANKS_MAX - 1 },
	{ "master-addr", 0, AT(address), read_address, 0, 0 },
	{ "master_addr", 0, AT(address), read_address, 0, 0 },
	{ "master-port", 0, AT(port), arguments_number, 1, 65535 },
	{ "master_port", 0, AT(port), arguments_number, 1, 65535 },
	{ "tag", 0, AT(tag), NULL, 0, 0 },
	{ "grace", 0, AT(grace_s), arguments_number, 0, GRACE_MAX_S },
	{ 0 },
};

/* The port where ranks meet: the user's RONDO_PORT, or that of the library's rule. The kernel
   chooses where it also chooses MASTER_PORT: RONDO_PORT may then be that of an outer job. */
static bool choose_rondo_port(struct options *options)
{
	const char *text = getenv("RONDO_PORT");
	char *end = "";
	long port = text ? strtol(text, &end, 10) : 0;

	if (options->port == 0)
		return true;
	if (*end || port < 0 || port > 65535)
		return arguments_refuse(
			"RONDO_PORT is \"%s\": give a whole number from 0 to 65535", text);
	options->rondo_port = port ? (int)port : rd_port_from_master(options->port);
	return true;
}

/* Checks the options against each other, and fills in defaults. */
static bool options_complete(struct options *options)
{
	bool alone = options->nodes == 1;

	if (options->standalone && (!alone || options->address || options->port >= 0))
		return arguments_refuse("--standalone goes with no other node, no --master-addr "
					"and no --master-port");
	if (!alone && options->node < 0)
		return arguments_refuse("--nnodes %d needs --node-rank", options->nodes);
	if (!alone && !options->address)
		return arguments_refuse("--nnodes %d needs --master-addr", options->nodes);
	if (options->node >= options->nodes)
		return arguments_refuse("--node-rank %d: the %d node%s from 0", options->node,
			options->nodes, alone ? " counts" : "s count");
	if ((long)options->nodes * options->local_size > RANKS_MAX)
		return arguments_refuse("%d nodes of %d ranks are more than %d ranks",
			options->nodes, options->local_size, RANKS_MAX);
	options->nodes_min = options->nodes;
	if (options->node < 0)
		options->node = 0;
	if (!options->address)
		options->address = "127.0.0.1";
	if (options->port < 0)
		options->port = alone ? 0 : RD_MASTER_PORT;
	return choose_rondo_port(options);
}

bool options_read(struct options *options, int argc, char **argv)
{
	static const struct arguments known = { help, table, true };

	*options = (struct options){
		.nodes_min = 1,
		.nodes = 1,
		.node = -1,
		.local_size = 1,
		.endpoint_port = 29400,
		.join_timeout_ms = 600000,
		.last_call_ms = 30000,
		.port = -1,
		.monitor_ms = 100,
		.grace_s = 5,
		.role = "default",
	};

	int left = arguments_read(&known, options, argc, argv);

	if (left < 0)
		return false;
	if (left == argc)
		return arguments_refuse("which program is to be run?");
	options->command = argv + left;
	return options_complete(options);
}
