#include "base/launch/launch.h"

#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/launch/slurm.h"

struct launcher {
	const char *name, *text, *rank, *size, *local_rank, *local_size;
};

/* mpiexec -pmi-port sets it in place of a rank. A process has to ask for its rank there, over a
   connection of its own, which it must not close before it ends. */
#define PMI_PORT "PMI_PORT"

static const struct launcher launchers[] = {
#define ROW(NAME, ...) { __VA_ARGS__ },
	RD_LAUNCHERS(ROW)
#undef ROW
};

const char *rd_launch_name(enum rd_launcher launcher)
{
	return launcher == RD_LAUNCHER_NONE ? "none" : launchers[launcher].name;
}

const char *rd_launch_text(enum rd_launcher launcher)
{
	return launcher == RD_LAUNCHER_NONE ? "no launcher" : launchers[launcher].text;
}

/* ---- Variables ----------------------------------------------------------------------------- */

/* Leaves *number alone where the variable is not set, or NULL. */
static int read_variable(int *number, const char *variable, int least, int most)
{
	const char *text = variable ? rd_environment(variable) : NULL, *end;
	char quote[41];
	int64_t value;

	if (!text)
		return 0;
	end = rd_read_number(&value, text);
	if (!end || *end || value < least || value > most)
		return rd_fail(RONDO_SETTING, "%s is \"%s\": give a whole number from %d to %d",
			variable, rd_quotable(quote, text), least, most);
	*number = (int)value;
	return 0;
}

static bool is_set(const char *variable)
{
	return variable && rd_environment(variable);
}

/* srun sets SLURM_STEP_NUM_TASKS. The shell of salloc and the script of sbatch have SLURM_NTASKS,
   the size of the allocation, where nothing is launched. */
static const char *slurm_size(void)
{
	const char *kind = rd_environment("ENVIRONMENT");

	if (is_set("SLURM_STEP_NUM_TASKS") || (kind && strcmp(kind, "BATCH") == 0))
		return "SLURM_STEP_NUM_TASKS";
	return "SLURM_NTASKS";
}

static const char *size_variable(enum rd_launcher launcher)
{
	return launcher == RD_LAUNCHER_SLURM ? slurm_size() : launchers[launcher].size;
}

/* Whether this launcher has started the process. */
static bool has_launched(enum rd_launcher launcher)
{
	const char *rank = launchers[launcher].rank, *size = size_variable(launcher);

	switch (launcher) {
	case RD_LAUNCHER_TORCHRUN:
		return is_set(rank);
	case RD_LAUNCHER_SLURM:
		return is_set(rank) && (is_set(size) || strcmp(size, "SLURM_NTASKS") == 0);
	case RD_LAUNCHER_PMIX:
	case RD_LAUNCHER_KUBERNETES:
		return is_set(rank);
	case RD_LAUNCHER_PMI:
		return is_set(rank) || is_set(size) || is_set(PMI_PORT);
	default:
		return is_set(rank) || is_set(size);
	}
}

static enum rd_launcher find_launcher(void)
{
	int launcher = 0;

	while (launcher < RD_LAUNCHER_NONE && !has_launched(launcher))
		launcher++;
	return launcher;
}

/* ---- A launch ------------------------------------------------------------------------------ */

static int refuse_partial(enum rd_launcher launcher, const char *there, const char *missing)
{
	if (launcher == RD_LAUNCHER_TORCHRUN)
		return rd_fail(RONDO_SETTING,
			"%s is set, but not %s: start the program with rondo-run or torchrun, or set "
			"both",
			there, missing);
	return rd_fail(RONDO_SETTING,
		"%s is set, but not %s: %s started this process, and each would run alone; set %s "
		"(RANK=0 WORLD_SIZE=1 where each is to run alone)",
		there, missing, rd_launch_text(launcher), missing);
}

/* A WORLD_SIZE without RANK is for launchers that set no size. */
static int check_world_size(enum rd_launcher launcher, int size)
{
	int world_size = size, err;

	if (is_set("RANK"))
		return 0;
	err = read_variable(&world_size, "WORLD_SIZE", 1, RD_SIZE_MAX);
	if (err || world_size == size)
		return err;
	return rd_fail(RONDO_SETTING,
		"WORLD_SIZE is %d, but %s is %d: unset one, or set RANK as well", world_size,
		size_variable(launcher), size);
}

static int check_range(const char *rank_name, int rank, const char *size_name, int size)
{
	if (rank < 0 || size < 0 || rank < size)
		return 0;
	return rd_fail(RONDO_SETTING, "%s is %d but %s is %d: give a rank from 0 to %d", rank_name,
		rank, size_name, size, size - 1);
}

static int read_local_size(struct rd_launch *launch)
{
	if (launch->launcher == RD_LAUNCHER_SLURM)
		return rd_slurm_local_size(&launch->local_size);
	return read_variable(
		&launch->local_size, launchers[launch->launcher].local_size, 1, RD_SIZE_MAX);
}

static int read_launch(struct rd_launch *launch)
{
	const struct launcher *variables = &launchers[launch->launcher];
	const char *size = size_variable(launch->launcher);
	int err = read_variable(&launch->rank, variables->rank, 0, RD_SIZE_MAX - 1);

	if (!err)
		err = read_variable(&launch->size, size, 1, RD_SIZE_MAX);
	if (!err)
		err = read_variable(&launch->local_rank, variables->local_rank, 0, RD_SIZE_MAX - 1);
	if (!err)
		err = read_local_size(launch);
	if (err)
		return err;
	if (launch->rank < 0 && launch->size < 0)
		return rd_fail(RONDO_SETTING,
			PMI_PORT " is set, but not %s: start the program with mpiexec without "
				 "-pmi-port",
			variables->rank);
	if (launch->rank < 0)
		return refuse_partial(launch->launcher, size, variables->rank);
	if (launch->size < 0)
		return refuse_partial(launch->launcher, variables->rank, size);
	err = check_range(variables->rank, launch->rank, size, launch->size);
	if (!err)
		err = check_range(variables->local_rank, launch->local_rank, variables->local_size,
			launch->local_size);
	return err ? err : check_world_size(launch->launcher, launch->size);
}

static int choose_launcher(enum rd_launcher *launcher, const char *wanted)
{
	char names[256] = "auto", quote[41];
	size_t used = strlen(names);

	*launcher = RD_LAUNCHER_NONE;
	if (strcmp(wanted, "none") == 0)
		return 0;
	if (strcmp(wanted, "auto") == 0) {
		*launcher = find_launcher();
		return 0;
	}
	for (int i = 0; i < RD_LAUNCHER_NONE; i++) {
		if (strcmp(wanted, launchers[i].name) == 0) {
			*launcher = i;
			return 0;
		}
		used += (size_t)snprintf(
			names + used, sizeof(names) - used, ", %s", launchers[i].name);
	}
	return rd_fail(RONDO_SETTING, "RONDO_LAUNCHER is \"%s\": give one of %s and none",
		rd_quotable(quote, wanted), names);
}

int rd_launch_read(struct rd_launch *launch, const char *wanted)
{
	static const struct rd_launch none = { RD_LAUNCHER_NONE, -1, -1, -1, -1 };
	int err;

	*launch = none;
	err = choose_launcher(&launch->launcher, wanted);
	if (!err && launch->launcher != RD_LAUNCHER_NONE)
		err = read_launch(launch);
	else if (!err && strcmp(wanted, "auto") == 0 && is_set("WORLD_SIZE"))
		err = refuse_partial(RD_LAUNCHER_TORCHRUN, "WORLD_SIZE", "RANK");
	if (err)
		*launch = none;
	return err;
}
