#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "base/futex.h"

/* No test runs as long. */
#define SPIN_MS 120000

struct launch {
	float *at, by;
	unsigned count;
	uint32_t *started, *stop;
};

static void add(void *argument)
{
	struct launch *launch = argument;

	for (unsigned i = 0; i < launch->count; i++)
		launch->at[i] += launch->by;
	free(launch);
}

static void spin(void *argument)
{
	struct launch *launch = argument;

	rd_flag_write(launch->started, 1);
	for (int ms = 0; ms < SPIN_MS && !rd_flag_reached(launch->stop, 1); ms++)
		rd_flag_sleep(launch->stop, 0, 1000000);
	free(launch);
}

const struct program_kernel program_kernels[PROGRAM_KERNELS] = {
	{ "program_add", EMULATED_PRODUCT_REGISTERS, add },
	{ "program_spin", 2 * EMULATED_LIBRARY_REGISTERS, spin },
};

int program_find(const char *name)
{
	for (int i = 0; i < PROGRAM_KERNELS; i++)
		if (strcmp(name, program_kernels[i].name) == 0)
			return i;
	return -1;
}

void *program_bind(
	const struct program_kernel *kernel, void **parameters, struct emulated_grid *grid)
{
	struct launch *launch = calloc(1, sizeof(*launch));

	if (!launch)
		return NULL;
	if (kernel->run == add) {
		launch->at = *(float **)parameters[0];
		launch->count = *(unsigned *)parameters[1];
		launch->by = *(float *)parameters[2];
		return launch;
	}
	launch->started = *(uint32_t **)parameters[0];
	launch->stop = *(uint32_t **)parameters[1];
	grid->stop = launch->stop;
	grid->timeout_ns = SPIN_MS * UINT64_C(1000000);
	return launch;
}
