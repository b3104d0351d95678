#include "launcher.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_PROCESSES (1 << 16)

struct launcher {
	const char *rank, *size;
};

/* The first whose size is set counts. Our own forked ranks get the first pair. */
static const struct launcher launchers[] = {
	{ "RANK", "WORLD_SIZE" }, /* rondo-run, torchrun */
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" }, /* Open MPI */
	{ "PMI_RANK", "PMI_SIZE" }, /* MPICH and its derivatives */
};

static const struct launcher *find(void)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers); i++)
		if (getenv(launchers[i].size))
			return &launchers[i];
	return NULL;
}

const char *bench_launcher_variable(void)
{
	const struct launcher *launcher = find();

	return launcher ? launcher->size : NULL;
}

static int number_in(const char *variable)
{
	const char *text = getenv(variable);
	char *end;
	long value = text ? strtol(text, &end, 10) : -1;

	return text && *text && !*end && value >= 0 && value <= MOST_PROCESSES ? (int)value : -1;
}

bool bench_launcher_read(int *process, int *processes)
{
	const struct launcher *launcher = find();

	*process = launcher ? number_in(launcher->rank) : 0;
	*processes = launcher ? number_in(launcher->size) : 1;
	if (*processes >= 1 && *process >= 0 && *process < *processes)
		return true;
	fprintf(stderr,
		"rondo-bench: %s is set, so it should be a number of processes, and %s one below "
		"it\n",
		launcher->size, launcher->rank);
	return false;
}
