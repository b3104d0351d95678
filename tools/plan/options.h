/* The command line of rondo-plan. */
#ifndef PLAN_OPTIONS_H
#define PLAN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "plan/collective.h"

#define PLAN_PLUGINS_MAX 8
#define PLAN_RANKS_MAX 1024

enum plan_action { PLAN_PRINT, PLAN_DRAW, PLAN_COMPARE, PLAN_EXPORT, PLAN_IMPORT };

struct plan_options {
	enum plan_action action;
	const char *algorithm; /* NULL: compare */
	const char *file; /* that has the algorithm's plans; NULL: none */
	enum rd_collective collective;
	int ranks, hosts, root;
	int rank; /* the one to print; -1: all */
	int cores; /* of a host; 0: as the costs say, or one for each rank */
	int pieces; /* that are shown */
	size_t size; /* bytes of a block */
	size_t piece_size;
	const char *costs; /* file; NULL: defaults */
	const char *svg, *html; /* files to draw to */
	const char *source; /* file to import */
	const char *output; /* file to export or import to */
	bool as_msccl; /* export: a program of MSCCL */
	bool json, tsv;
	const char *plugins[PLAN_PLUGINS_MAX + 1]; /* NULL at the end */
};

/*
 * Reads the command line, and the plan file that it names, whose collective and ranks count then.
 * Returns 0; else an exit status, after one line on stderr. --help and --version print and exit.
 */
int plan_options_read(struct plan_options *options, int argc, char **argv);

#endif
