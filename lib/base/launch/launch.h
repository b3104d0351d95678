/*
 * This process's place in its job, from the variables of the launcher that started it. The first
 * launcher of this order whose variables are set counts: an inner launcher, as torchrun, runs below
 * an outer one, as srun. RONDO_LAUNCHER names another, or `none`.
 *
 * A launcher that starts each rank on its own must not make N jobs of one rank: variables that
 * leave the rank or the size open are an error.
 */
#ifndef RD_LAUNCH_H
#define RD_LAUNCH_H

#include <stdbool.h>

#include "base/launch/slurm.h"
#include "base/settings.h"

/* X(NAME, name, text, rank, size, local rank, local size): the last four are variables; NULL: it
   sets none. */
#define RD_LAUNCHERS(X) \
	X(TORCHRUN, "torchrun", "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", \
		"LOCAL_WORLD_SIZE") \
	X(OPENMPI, "openmpi", "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", \
		"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE") \
	X(PMI, "pmi", "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS") \
	X(MVAPICH, "mvapich", "MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", \
		"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE") \
	X(JSRUN, "jsrun", "jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", \
		"JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE") \
	X(FLUX, "flux", "Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", NULL) \
	X(SLURM, "slurm", "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", \
		RD_SLURM_LOCAL_SIZE) \
	X(PMIX, "pmix", "PMIx", "PMIX_RANK", "WORLD_SIZE", "PMIX_LOCAL_RANK", NULL) \
	X(KUBERNETES, "kubernetes", "Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", NULL, NULL)

enum rd_launcher {
#define RD_LAUNCHER_ENUM(name, ...) RD_LAUNCHER_##name,
	RD_LAUNCHERS(RD_LAUNCHER_ENUM)
#undef RD_LAUNCHER_ENUM
		RD_LAUNCHER_NONE
};

struct rd_launch {
	enum rd_launcher launcher;
	int rank, size; /* -1, -1: no launcher */
	int local_rank, local_size; /* -1: not known */
};

/*
 * Finds the launcher. `wanted` is the value of RONDO_LAUNCHER. RONDO_SETTING, with a reason that
 * names the variables and a remedy: where variables are no numbers, are missing, or contradict each
 * other. *launch is RD_LAUNCHER_NONE then.
 */
int rd_launch_read(struct rd_launch *launch, const char *wanted);

/* "slurm"; "none". */
const char *rd_launch_name(enum rd_launcher launcher);
/* "Slurm", for a reason. */
const char *rd_launch_text(enum rd_launcher launcher);

#endif
