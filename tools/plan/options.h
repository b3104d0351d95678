/* The command line of rondo-plan. */
#ifndef PLAN_OPTIONS_H
#define PLAN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "network.h"
#include "plan/collective.h"

#define PLAN_PLUGINS_MAX 8
#define PLAN_RANKS_MAX 65536
#define PLAN_SHOWN_MAX 1024 /* ranks that are printed or drawn */
#define PLAN_FAULTS_MAX 64

enum plan_action {
	PLAN_PRINT,
	PLAN_DRAW,
	PLAN_COMPARE,
	PLAN_SIMULATE,
	PLAN_PROVE,
	PLAN_EXPORT,
	PLAN_IMPORT,
	PLAN_DIFF,
	PLAN_REPLAY
};

/* How export writes plans. */
enum plan_format { PLAN_FORMAT_RONDO, PLAN_FORMAT_MSCCL, PLAN_FORMAT_CHAKRA };

/* Ranks with a number each: --slow and --kill. */
struct plan_faults {
	int count;
	struct plan_fault {
		int rank;
		int64_t value;
	} list[PLAN_FAULTS_MAX];
};

/* Links that are to be quicker: --link. */
struct plan_links {
	int count;
	struct plan_link {
		char name[NETWORK_NAME_SIZE];
		int64_t thousandths; /* of its bandwidth */
	} list[PLAN_FAULTS_MAX];
};

struct plan_options {
	enum plan_action action;
	const char *algorithm; /* NULL: compare, all of them */
	const char *file; /* that has the algorithm's plans; NULL: none */
	enum rd_collective collective;
	bool all_collectives; /* prove: none was named */
	int ranks, hosts, root;
	bool hosts_given;
	int rank; /* the one to print; -1: all */
	int cores; /* of a host; 0: as the costs say, or one for each rank */
	int pieces; /* that are shown; 0: not given */
	size_t size; /* bytes of a block */
	size_t piece_size;
	const char *costs; /* file; NULL: defaults */
	const char *topology; /* a network's shape, or its file; NULL: the costs' links */
	struct plan_links links;
	struct plan_faults slow; /* thousandths of a step's cost */
	struct plan_faults kills; /* picoseconds */
	int jitter, seed; /* per cent of a step's cost, at most */
	const char *svg, *html; /* files to draw to */
	const char *source; /* file to import, or trace */
	int call; /* of the trace; -1: all */
	double within; /* a factor: times differ beyond it */
	const char
		*output; /* file to export or import to; of Chakra's, what their names begin with */
	enum plan_format format; /* export */
	bool json, tsv;
	const char *plugins[PLAN_PLUGINS_MAX + 1]; /* NULL at the end */
};

/* Returns whether the times of a picture are a simulation's. */
bool plan_options_simulate(const struct plan_options *options);

/*
 * Reads the command line, and the plan file that it names, whose collective and ranks count then.
 * Returns 0; else an exit status, after one line on stderr. --help and --version print and exit.
 */
int plan_options_read(struct plan_options *options, int argc, char **argv);

#endif
