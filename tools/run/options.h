/*
 * The command line of rondo-run.
 */
#ifndef RUN_OPTIONS_H
#define RUN_OPTIONS_H

#include <signal.h>
#include <stdbool.h>

#define GRACE_MAX_S 86400
#define EXPORTS_MAX 64
#define RANKS_MAX 65536

/* The rendezvous backends of torchrun: nodes by their numbers, or by the order of their coming. */
enum rendezvous_backend { RENDEZVOUS_STATIC, RENDEZVOUS_C10D };

/* Processors of each rank: all that rondo-run may use, or a part of them. */
enum bind { BIND_NONE, BIND_CORES, BIND_NUMA };

/* Outputs of a rank, as bits. */
enum { STREAM_OUT = 1, STREAM_ERR = 2 };

/* Streams of each local rank: `all`, but for the ranks that are listed. */
struct streams {
	int all;
	const char *listed; /* "0:1,1:2": local rank and streams, checked; NULL: none */
};

/* Texts last as long as the process. */
struct options {
	/* Nodes and ranks. */
	int nodes_min, nodes; /* the job continues with as few, and has at most these */
	int node; /* the number of this node; -1: the order of coming decides */
	int local_size; /* ranks on this node */
	bool standalone; /* this node is the whole job */

	/* Hosts where ssh starts the job (run/hosts/). */
	const char *hosts; /* host_list_read() accepts it; NULL: none */
	const char *exports[EXPORTS_MAX]; /* variables for them: NAME, or NAME=VALUE */
	int export_count;
	bool remote; /* ssh started us, for the --hosts of another rondo-run */

	/* Where nodes and ranks meet. */
	enum rendezvous_backend backend;
	const char *endpoint; /* host of --rdzv-endpoint; NULL: none */
	int endpoint_port;
	const char *run_id; /* NULL: none was given */
	int join_timeout_ms, last_call_ms; /* until enough nodes are there; then for more of them */
	const char *address; /* of node 0; NULL: its agent's */
	int port; /* the program's; 0: any free one */
	int rondo_port; /* where rank 0 listens; 0: any free one */
	const char *local_address; /* where other nodes reach this one; NULL: as they see it */

	/* Failures. */
	int max_restarts;
	int monitor_ms; /* nodes that come are gathered for this long */
	bool keep_going; /* ranks go on when another fails */
	int grace_s; /* from SIGTERM to SIGKILL */

	/* Output. */
	const char *log_dir; /* NULL: none */
	struct streams redirects, tee;
	const char *shown; /* local ranks whose lines are shown, "0,2"; NULL: all */
	bool tag; /* each line begins with its rank */

	/* The state of ranks that run, and no program (run/status/). */
	bool status, prometheus;

	bool check; /* run/check/ is the program, with one rank on this node */

	/* The program (run/command.h). */
	char **command; /* it and its arguments, NULL at the end */
	bool module, no_python, run_path; /* -m, --no-python, --run-path */
	enum bind bind;
	sigset_t signals; /* they end the job, and the ranks receive them */
	const char *signal_names; /* their names, with commas between them */
	const char *role; /* ROLE_NAME */
};

/* False, with one line on stderr, where the arguments are wrong. --help and --version print and
   exit. */
bool options_read(struct options *options, int argc, char **argv);

#endif
