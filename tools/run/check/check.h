/*
 * rondo-run --check: one rank on each node, this program itself, finds what would hinder a job.
 */
#ifndef RUN_CHECK_CHECK_H
#define RUN_CHECK_CHECK_H

#include "rondo.h"

/* The option with which the agents start it as a rank. */
#define CHECK_OPTION "--check-rank"

/* Rank 0 prints the table. Returns the exit status: 1 where a finding is FAIL. */
int check_run(void);

#endif
