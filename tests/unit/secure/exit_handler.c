/*
 * Not in Criterion, whose libraries use OpenSSL first: ranks call exit(), and use their comm in a
 * handler. Handlers run in reverse order, so one of OpenSSL, which a rank loads, would run before.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rondo.h"

static rondo_comm *comm;

static bool failed(const char *what, int err)
{
	if (err)
		fprintf(stderr, "%s: %s\n", what, rondo_last_error());
	return err != 0;
}

/* New connections, with new keys. */
static void use_comm(void)
{
	rondo_comm *copy;

	if (!comm)
		return;
	_exit(failed("duplicate", rondo_comm_duplicate(comm, &copy)) ||
		failed("barrier", rondo_barrier(copy, NULL)) ||
		failed("destroy the copy", rondo_comm_destroy(copy)) ||
		failed("destroy", rondo_comm_destroy(comm)));
}

static int run_rank(void *argument)
{
	(void)argument;
	if (!failed("create", rondo_comm_create(&comm, NULL)))
		exit(1); /* use_comm() ends it */
	return 1;
}

int main(void)
{
	return atexit(use_comm) || rondo_spawn(2, run_rank, NULL);
}
