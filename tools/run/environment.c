#include "run/environment.h"

#include <stdio.h>
#include <stdlib.h>

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* Those that torch reads where the user has not chosen. */
static void set_defaults(const struct world *world, int threads)
{
	/* A rank that waits for a failed one must end. The first name is that of old versions. */
	setenv("NCCL_ASYNC_ERROR_HANDLING", "1", 0);
	setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 0);
	if (world->local_size > 1 && !getenv("OMP_NUM_THREADS"))
		set_number("OMP_NUM_THREADS", threads);
}

void environment_set(const struct options *options, const struct world *world, int local_rank,
	int threads, int rendezvous_fd, int secret_fd)
{
	int rank = world->first + local_rank;

	set_number("RANK", rank);
	set_number("LOCAL_RANK", local_rank);
	set_number("WORLD_SIZE", world->size);
	set_number("LOCAL_WORLD_SIZE", world->local_size);
	set_number("GROUP_RANK", world->node);
	set_number("GROUP_WORLD_SIZE", world->nodes);
	set_number("ROLE_RANK", rank);
	set_number("ROLE_WORLD_SIZE", world->size);
	setenv("ROLE_NAME", options->role, 1);
	unsetenv("RONDO_LAUNCHER"); /* these variables are torchrun's */
	setenv("MASTER_ADDR", world->address, 1);
	set_number("MASTER_PORT", world->port);
	set_number("RONDO_PORT", world->rondo_port);
	setenv("TORCHELASTIC_RUN_ID", world->run_id, 1);
	set_number("TORCHELASTIC_RESTART_COUNT", world->restarts);
	set_number("TORCHELASTIC_MAX_RESTARTS", options->max_restarts);
	/* No store of ours listens at MASTER_PORT: rank 0 opens its own. */
	setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1);
	setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", options->signal_names, 1);
	set_defaults(world, threads);
	if (rank == 0 && rendezvous_fd >= 0)
		set_number("RONDO_RENDEZVOUS_FD", rendezvous_fd);
	else
		unsetenv("RONDO_RENDEZVOUS_FD");
	if (secret_fd >= 0)
		set_number("RONDO_SECRET_FD", secret_fd);
	else
		unsetenv("RONDO_SECRET_FD");
}
