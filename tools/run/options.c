#include "run/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "base/port.h"
#include "run/check/check.h"
#include "run/hosts/list.h"
#include "run/values.h"

#define ENDPOINT_PORT 29400

static const char help[] =
	"usage: rondo-run [OPTION]... PROGRAM [ARGUMENT]...\n"
	"       rondo-run --check [OPTION]...\n"
	"       rondo-run --status|--prometheus [--rdzv-id ID]\n"
	"\n"
	"Starts PROGRAM as several ranks of one job, with RANK, WORLD_SIZE, MASTER_ADDR,\n"
	"MASTER_PORT and their kin set as torchrun sets them. Takes torchrun's options. When\n"
	"a rank fails, the others are ended, and its exit status becomes this command's.\n"
	"\n"
	"Ranks and nodes:\n"
	"  --nproc-per-node N      ranks on this node: a number; cpu for one a processor; gpu\n"
	"                          for one a GPU; auto for gpu where there are any, else cpu\n"
	"                          (default 1)\n"
	"  --nnodes M | MIN:MAX    nodes in the job; start rondo-run once on each (default 1)\n"
	"  --standalone            this node is the whole job; the port is any that is free\n"
	"                          (default where no other node and no port is named)\n"
	"  --node-rank K           which of the nodes this is, from 0\n"
	"  --master-addr ADDRESS   node 0, where rank 0 listens\n"
	"  --master-port PORT      a port left free for the program (default 29500); rank 0\n"
	"                          listens 2000 below it, or at RONDO_PORT\n"
	"  --local-addr ADDRESS    where the other nodes reach this one\n"
	"\n"
	"Hosts:\n"
	"  --hosts A,B[:N],...     starts rondo-run on each of these through ssh, with N ranks\n"
	"                          there, else --nproc-per-node\n"
	"  -x, --export NAME[=VALUE]\n"
	"                          a variable for the hosts, besides PATH, RONDO_* and others;\n"
	"                          may be repeated\n"
	"\n"
	"Rendezvous:\n"
	"  --rdzv-backend NAME     static: nodes have numbers (default); c10d: the order of\n"
	"                          their coming counts (default with --rdzv-endpoint and\n"
	"                          without --node-rank)\n"
	"  --rdzv-endpoint HOST:PORT\n"
	"                          where nodes meet (default port 29400, static: 29500)\n"
	"  --rdzv-id ID            name of the job, the same on each node\n"
	"  --rdzv-conf KEY=VALUE,...\n"
	"                          join_timeout or timeout: seconds to wait for enough nodes\n"
	"                          (600); last_call_timeout: then for more of them (30)\n"
	"\n"
	"Failures:\n"
	"  --max-restarts N        restarts after a failure (default 0)\n"
	"  --keep-going            ranks go on when others fail; the exit status is 0 if one of\n"
	"                          each node succeeds\n"
	"  --monitor-interval SECONDS\n"
	"                          nodes that come late are gathered so long (default 0.1)\n"
	"  --grace SECONDS         from SIGTERM to SIGKILL, when ranks must end (default 5)\n"
	"  --signals-to-handle LIST\n"
	"                          signals that end the job, and that the ranks receive\n"
	"                          (default SIGTERM,SIGINT,SIGHUP,SIGQUIT)\n"
	"\n"
	"Program:\n"
	"  -m, --module            PROGRAM is a module of python\n"
	"  --no-python             PROGRAM is executed, even if it is a script of python\n"
	"  --run-path              PROGRAM is a script for python's runpy.run_path()\n"
	"  --role NAME             ROLE_NAME of the ranks (default \"default\")\n"
	"  --bind cores|numa|none  gives each rank cores, or a NUMA node, of its own (default\n"
	"                          none)\n"
	"  --start-method NAME     spawn, fork or forkserver; has no effect on programs\n"
	"\n"
	"Output:\n"
	"  --log-dir FOLDER        folder of log files\n"
	"  -r, --redirects S       outputs that go to files alone: 0 none, 1 stdout, 2 stderr,\n"
	"                          3 both; 0:3,2:1 by local rank (default 0)\n"
	"  -t, --tee S             outputs that go to files and are shown (default 0)\n"
	"  --local-ranks-filter LIST\n"
	"                          local ranks whose output is shown: 0,2 (default all)\n"
	"  --tag                   begin each line that rank 3 prints with \"[3] \"\n"
	"\n"
	"Others:\n"
	"  --check                 runs no PROGRAM, and prints what would hinder a job on these\n"
	"                          nodes: a line a finding, with ok, warn or FAIL; the exit\n"
	"                          status is 1 where one is FAIL\n"
	"  --status                prints the state of this user's ranks on this host as JSON,\n"
	"                          with --rdzv-id of that job alone; runs no PROGRAM; the exit\n"
	"                          status is 1 where one has failed or does not answer\n"
	"  --prometheus            the same as Prometheus's text\n"
	"  -h, --help\n"
	"  --version\n"
	"\n"
	"Names may be written with _ for -, and cut short where that is clear. Values follow =\n"
	"or a space. Each option is also read from a variable, --max-restarts from\n"
	"PET_MAX_RESTARTS; flags are 0 or 1 there. The command line goes first.\n"
	"\n"
	"  rondo-run --nproc-per-node 2 ./hello\n"
	"  rondo-run --nproc-per-node gpu train.py --epochs 5\n"
	"  rondo-run --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --nproc-per-node 4 ./hello\n"
	"  rondo-run --hosts node1,node2 --nproc-per-node 4 train.py\n"
	"  rondo-run --nnodes 1:4 --rdzv-endpoint host0 --max-restarts 3 train.py\n";

#define AT(member) offsetof(struct options, member)
#define WHOLE 0 /* the reader sets several members */

static const struct argument table[] = {
	{ "nproc-per-node", 0, AT(local_size), values_local_size, 1, RANKS_MAX },
	{ "nnodes", 0, WHOLE, values_nodes, 1, RANKS_MAX },
	{ "standalone", 0, AT(standalone), NULL, 0, 0 },
	{ "node-rank", 0, AT(node), arguments_number, 0, RANKS_MAX - 1 },
	{ "master-addr", 0, AT(address), values_address, 0, 0 },
	{ "master-port", 0, AT(port), arguments_number, 0, 65535 },
	{ "local-addr", 0, AT(local_address), values_address, 0, 0 },
	{ "hosts", 0, AT(hosts), values_hosts, 0, 0 },
	{ "export", 'x', WHOLE, values_export, 0, 0 },
	{ "rdzv-backend", 0, AT(backend), values_backend, 0, 0 },
	{ "rdzv-endpoint", 0, WHOLE, values_endpoint, 0, 0 },
	{ "rdzv-id", 0, AT(run_id), values_run_id, 0, 0 },
	{ "rdzv-conf", 0, WHOLE, values_rendezvous, 0, 0 },
	{ "max-restarts", 0, AT(max_restarts), arguments_number, 0, 1000000 },
	{ "keep-going", 0, AT(keep_going), NULL, 0, 0 },
	{ "monitor-interval", 0, AT(monitor_ms), values_seconds, 0, 86400 },
	{ "grace", 0, AT(grace_s), arguments_number, 0, GRACE_MAX_S },
	{ "signals-to-handle", 0, WHOLE, values_signals, 0, 0 },
	{ "module", 'm', AT(module), NULL, 0, 0 },
	{ "no-python", 0, AT(no_python), NULL, 0, 0 },
	{ "run-path", 0, AT(run_path), NULL, 0, 0 },
	{ "role", 0, AT(role), arguments_text, 0, 0 },
	{ "bind", 0, AT(bind), values_bind, 0, 0 },
	{ "start-method", 0, WHOLE, values_start_method, 0, 0 },
	{ "log-dir", 0, AT(log_dir), arguments_text, 0, 0 },
	{ "redirects", 'r', AT(redirects), values_streams, 0, 0 },
	{ "tee", 't', AT(tee), values_streams, 0, 0 },
	{ "local-ranks-filter", 0, AT(shown), values_list, 0, 0 },
	{ "tag", 0, AT(tag), NULL, 0, 0 },
	{ "check", 0, AT(check), NULL, 0, 0 },
	{ "status", 0, AT(status), NULL, 0, 0 },
	{ "prometheus", 0, AT(prometheus), NULL, 0, 0 },
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

static bool program_complete(const struct options *options)
{
	if (options->module && (options->no_python || options->run_path))
		return arguments_refuse("--module goes without --no-python and --run-path");
	return true;
}

/* As in torchrun, nothing about the rendezvous counts then. */
static bool standalone_complete(struct options *options)
{
	if (options->nodes > 1 || options->address || options->port >= 0)
		return arguments_refuse("--standalone goes with no other node, no --master-addr "
					"and no --master-port");
	options->backend = RENDEZVOUS_STATIC;
	options->endpoint = NULL;
	options->run_id = NULL;
	return true;
}

/* Nodes have numbers, and know node 0. */
static bool static_complete(struct options *options)
{
	if (options->nodes > 1 && options->node < 0)
		return arguments_refuse(
			"--nnodes %d needs --node-rank, or --rdzv-endpoint", options->nodes);
	/* The endpoint is node 0 then. */
	if (options->endpoint && !options->address) {
		options->address = options->endpoint;
		if (options->port < 0)
			options->port = options->endpoint_port;
	}
	if (options->nodes > 1 && !options->address)
		return arguments_refuse("--nnodes %d needs --master-addr", options->nodes);
	if (options->port < 0)
		options->port = options->nodes > 1 ? RD_MASTER_PORT : 0;
	if (options->nodes > 1 && options->port == 0)
		return arguments_refuse(
			"--nnodes %d needs a --master-port that all nodes know", options->nodes);
	return true;
}

/* Nodes meet at the endpoint, where they learn the rest. */
static bool c10d_complete(struct options *options)
{
	if (options->nodes > 1 && !options->endpoint)
		return arguments_refuse("--nnodes %d needs --rdzv-endpoint", options->nodes);
	if (options->endpoint_port < 0)
		options->endpoint_port = ENDPOINT_PORT;
	if (options->nodes > 1 && options->endpoint_port == 0)
		return arguments_refuse("--nnodes %d needs a --rdzv-endpoint with a port that all "
					"nodes know",
			options->nodes);
	if (options->port < 0)
		options->port = 0;
	return true;
}

/* The rondo-run on each host checks the rest, once it knows its part. */
static bool hosts_complete(const struct options *options)
{
	if (options->nodes > 1 || options->node >= 0 || options->standalone || options->endpoint ||
		options->backend == RENDEZVOUS_C10D)
		return arguments_refuse("--hosts goes without --nnodes, --node-rank, --standalone "
					"and --rdzv-endpoint");
	return program_complete(options);
}

/* Checks the options against each other, and fills in defaults. */
static bool options_complete(struct options *options)
{
	bool alone = options->nodes == 1;

	if (options->hosts)
		return hosts_complete(options);
	if (!program_complete(options) || (options->standalone && !standalone_complete(options)))
		return false;
	if ((int)options->backend < 0)
		options->backend = options->endpoint && options->node < 0 ? RENDEZVOUS_C10D
									  : RENDEZVOUS_STATIC;
	if (options->backend == RENDEZVOUS_C10D ? !c10d_complete(options)
						: !static_complete(options))
		return false;
	if (options->node >= options->nodes)
		return arguments_refuse("--node-rank %d: the %d node%s from 0", options->node,
			options->nodes, alone ? " counts" : "s count");
	if ((long)options->nodes * options->local_size > RANKS_MAX)
		return arguments_refuse("%d nodes of %d ranks are more than %d ranks",
			options->nodes, options->local_size, RANKS_MAX);
	if (alone) {
		options->node = 0;
		if (!options->address)
			options->address = rd_loopback();
	}
	return choose_rondo_port(options);
}

/* The agents start this program as the ranks; with --hosts, those on the hosts do. */
static void check_complete(struct options *options)
{
	static char *command[] = { "/proc/self/exe", CHECK_OPTION, NULL };

	if (!options->check || options->hosts)
		return;
	options->command = command;
	options->local_size = 1;
}

static bool status_complete(const struct options *options, bool has_program)
{
	if (has_program || options->hosts)
		return arguments_refuse("--%s goes without %s",
			options->status ? "status" : "prometheus",
			has_program ? "a program" : "--hosts: run it on each of them");
	return true;
}

/* Under nohup a job continues without its terminal. */
static bool ends_with_terminal(void)
{
	struct sigaction action;

	return sigaction(SIGHUP, NULL, &action) || action.sa_handler != SIG_IGN;
}

bool options_read(struct options *options, int argc, char **argv)
{
	static const struct arguments known = { help, table, true, "PET_", NULL };
	bool hangs_up = ends_with_terminal();

	*options = (struct options){
		.nodes_min = 1,
		.nodes = 1,
		.node = -1,
		.local_size = 1,
		.backend = (enum rendezvous_backend) - 1,
		.endpoint_port = -1,
		.join_timeout_ms = 600000,
		.last_call_ms = 30000,
		.port = -1,
		.monitor_ms = 100,
		.grace_s = 5,
		.signal_names =
			hangs_up ? "SIGTERM,SIGINT,SIGHUP,SIGQUIT" : "SIGTERM,SIGINT,SIGQUIT",
		.role = "default",
	};
	sigemptyset(&options->signals);
	sigaddset(&options->signals, SIGTERM);
	sigaddset(&options->signals, SIGINT);
	if (hangs_up)
		sigaddset(&options->signals, SIGHUP);
	sigaddset(&options->signals, SIGQUIT);

	int left = arguments_read(&known, options, argc, argv);

	if (left < 0)
		return false;
	if (options->status || options->prometheus)
		return status_complete(options, left < argc);
	if (options->check && left < argc)
		return arguments_refuse("--check goes without a program");
	if (left == argc && !options->check)
		return arguments_refuse("which program is to be run?");
	options->command = argv + left;
	check_complete(options);
	return options_complete(options);
}
