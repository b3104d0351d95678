/*
 * --hosts: starts rondo-run on each host through ssh, passes on output and signals, and ends all of
 * them together.
 */
#ifndef RUN_HOSTS_FRONT_H
#define RUN_HOSTS_FRONT_H

#include "run/options.h"

/* Runs the job of these options; argv is the command line that gave them. Returns the exit
   status. */
int front_run(const struct options *options, char **argv);

#endif
