/*
 * The job's secret (lib/secure/secret.h), by which its ranks and agents know each other. A job of
 * one node gets a new one. Several nodes have the file RONDO_SECRET_FILE in common, or a descriptor
 * from the rondo-run of --hosts; else none.
 */
#ifndef RUN_SECRET_H
#define RUN_SECRET_H

#include <stdbool.h>

#include "secure/secret.h"

struct secret {
	int fd; /* for the ranks; -1: they have the file, or none */
	bool has_psk;
	unsigned char psk[RD_PSK_SIZE]; /* of the agents' connections */
};

/* alone: a job of one node. False, with one line on stderr: see rd_secret_find(). */
bool secret_init(struct secret *secret, bool alone);
void secret_finish(struct secret *secret);

#endif
