#include "run/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void environment_init(struct environment *environment, const struct options *options)
{
	unsigned char bits[16];

	*environment = (struct environment){ .options = options, .rendezvous_fd = -1 };
	snprintf(environment->run_id, sizeof(environment->run_id), "none");
	/* Nodes of one job need one id, and cannot exchange it. */
	if (options->nodes > 1 || getrandom(bits, sizeof(bits), 0) != sizeof(bits))
		return;
	for (size_t i = 0; i < sizeof(bits); i++)
		snprintf(environment->run_id + 2 * i, 3, "%02x", bits[i]);
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

void environment_set(const struct environment *environment, int rank)
{
	const struct options *options = environment->options;
	int size = options->nodes * options->local_size;

	set_number("RANK", rank);
	set_number("LOCAL_RANK", rank - options->node * options->local_size);
	set_number("WORLD_SIZE", size);
	set_number("LOCAL_WORLD_SIZE", options->local_size);
	set_number("GROUP_RANK", options->node);
	set_number("GROUP_WORLD_SIZE", options->nodes);
	set_number("ROLE_RANK", rank);
	set_number("ROLE_WORLD_SIZE", size);
	setenv("ROLE_NAME", "default", 1);
	unsetenv("RONDO_LAUNCHER"); /* these variables are torchrun's */
	setenv("MASTER_ADDR", options->address, 1);
	set_number("MASTER_PORT", options->port);
	set_number("RONDO_PORT", options->rondo_port);
	setenv("TORCHELASTIC_RUN_ID", environment->run_id, 1);
	set_number("TORCHELASTIC_RESTART_COUNT", 0);
	set_number("TORCHELASTIC_MAX_RESTARTS", 0);
	if (options->local_size > 1)
		setenv("OMP_NUM_THREADS", "1", 0);
	if (rank == 0 && environment->rendezvous_fd >= 0)
		set_number("RONDO_RENDEZVOUS_FD", environment->rendezvous_fd);
	else
		unsetenv("RONDO_RENDEZVOUS_FD");
}
