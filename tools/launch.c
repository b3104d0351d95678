#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct launcher {
	const char *size, *rank; /* variables; size NULL: there is only one for the rank */
	/* An allocation sets the size, too; a launch sets both. */
	bool allocates;
};

static const struct launcher launchers[] = {
	{ "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", false }, /* Open MPI */
	{ "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", false }, /* MVAPICH2 */
	{ "PMI_SIZE", "PMI_RANK", false }, /* MPICH's hydra and its derivatives, PALS */
	{ "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", false }, /* jsrun */
	{ "FLUX_JOB_SIZE", "FLUX_TASK_RANK", false },
	{ "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", false }, /* srun */
	{ "SLURM_NTASKS", "SLURM_PROCID", true }, /* srun, salloc and sbatch */
	{ NULL, "PMIX_RANK", false }, /* prun, and beside the others */
};

#define LAUNCHERS (sizeof(launchers) / sizeof(*launchers))

/* NULL if it is unset or empty. */
static const char *value_of(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value ? value : NULL;
}

static long number_in(const char *variable)
{
	const char *value = value_of(variable);

	return value ? strtol(value, NULL, 10) : -1;
}

/*
 * In salloc's shell and sbatch's script, SLURM_NTASKS is the size of the allocation, and nothing is
 * launched: SLURM_PROCID is unset, or the script's own. A step sets its own size.
 */
static bool is_of_a_launch(const struct launcher *launcher)
{
	const char *kind = value_of("ENVIRONMENT");

	return !launcher->allocates ||
	       (value_of(launcher->rank) && !value_of("SLURM_STEP_NUM_TASKS") &&
		       !(kind && strcmp(kind, "BATCH") == 0));
}

/* The variable that shows that it started several processes, or NULL. */
static const char *several_variable(const struct launcher *launcher)
{
	if (!launcher->size)
		return number_in(launcher->rank) > 0 ? launcher->rank : NULL;
	return number_in(launcher->size) > 1 && is_of_a_launch(launcher) ? launcher->size : NULL;
}

/* Writes all variables that show several processes, "A=4, B=4". Returns the first launcher, or
   NULL.
 */
static const struct launcher *find_launchers(char seen[LAUNCH_LINE / 2])
{
	const struct launcher *first = NULL;
	size_t used = 0;

	for (size_t i = 0; i < LAUNCHERS && used < LAUNCH_LINE / 2; i++) {
		const char *variable = several_variable(&launchers[i]);

		if (!variable)
			continue;
		first = first ? first : &launchers[i];
		used += (size_t)snprintf(seen + used, LAUNCH_LINE / 2 - used, "%s%s=%ld",
			used ? ", " : "", variable, number_in(variable));
	}
	return first;
}

bool launch_unclear(char line[LAUNCH_LINE])
{
	char seen[LAUNCH_LINE / 2] = "";
	const struct launcher *launcher;

	if (value_of("WORLD_SIZE"))
		return false;
	if (value_of("RANK")) {
		snprintf(line, LAUNCH_LINE,
			"RANK is set, but not WORLD_SIZE: start it with rondo-run or torchrun, or "
			"set both");
		return true;
	}
	launcher = find_launchers(seen);
	if (launcher)
		snprintf(line, LAUNCH_LINE,
			"a launcher started several processes (%s), but RANK and WORLD_SIZE are "
			"not set, and each would run alone: start it with rondo-run, or set "
			"RANK=$%s, WORLD_SIZE%s%s and MASTER_ADDR in each (RANK=0 WORLD_SIZE=1 "
			"where each is to run alone)",
			seen, launcher->rank, launcher->size ? "=$" : "",
			launcher->size ? launcher->size : "");
	return launcher;
}
