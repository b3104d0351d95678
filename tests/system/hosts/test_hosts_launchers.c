/* Other launchers on several hosts: their variables, set as they set them, lead every rank to the
   host of rank 0. The hosts are network namespaces (hosts.h). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "world.h"

#define HOSTS 2
#define LOCAL_SIZE 2
#define SIZE (HOSTS * LOCAL_SIZE)
#define LIMIT_MS 60000

/* Runs the example as a task on each host, with the variables that `print` writes for it. */
static void assert_one_world(void (*print)(char *variables, size_t size, int host, int local_rank))
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = HOSTS });
	struct hosts_program tasks[SIZE];

	for (int rank = 0; rank < SIZE; rank++) {
		char variables[512], command[1024];
		char *arguments[] = { "/bin/sh", "-c", command, NULL };

		print(variables, sizeof(variables), rank / LOCAL_SIZE, rank % LOCAL_SIZE);
		snprintf(command, sizeof(command),
			"unset RANK WORLD_SIZE MASTER_ADDR; exec env %s %s", variables,
			RONDO_EXAMPLE);
		hosts_start(hosts, rank / LOCAL_SIZE, arguments, &tasks[rank]);
	}
	for (int rank = 0; rank < SIZE; rank++) {
		char line[64], *out, *err;

		hosts_finish(&tasks[rank], LIMIT_MS);
		out = file_text(tasks[rank].out);
		err = file_text(tasks[rank].err);
		snprintf(line, sizeof(line), "rank %d of %d: the sum is 10\n", rank, SIZE);
		cr_expect_str_eq(out, line, "%s%s", out, err);
		cr_expect_eq(tasks[rank].status, 0);
	}
}

static void print_slurm(char *variables, size_t size, int host, int local_rank)
{
	snprintf(variables, size,
		"SLURM_PROCID=%d SLURM_NTASKS=%d SLURM_STEP_NUM_TASKS=%d SLURM_LOCALID=%d "
		"SLURM_NODEID=%d SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_NNODES=3 "
		"SLURM_STEP_NUM_NODES=2 SLURM_JOB_NODELIST=login,host[0-1] "
		"SLURM_STEP_NODELIST=host[0-1]",
		host * LOCAL_SIZE + local_rank, SIZE, SIZE, local_rank, host);
}

Test(hosts_launchers, tasks_of_srun_meet_at_the_first_host_of_the_step, .timeout = 120)
{
	assert_one_world(print_slurm);
}

static void print_open_mpi(char *variables, size_t size, int host, int local_rank)
{
	snprintf(variables, size,
		"OMPI_COMM_WORLD_RANK=%d OMPI_COMM_WORLD_SIZE=%d OMPI_COMM_WORLD_LOCAL_RANK=%d "
		"OMPI_COMM_WORLD_LOCAL_SIZE=%d PMIX_NAMESPACE=185139201 PMIX_RANK=%d "
		"'OMPI_MCA_orte_hnp_uri=185139200.0;tcp://10.7.0.1:50807'",
		host * LOCAL_SIZE + local_rank, SIZE, local_rank, LOCAL_SIZE,
		host * LOCAL_SIZE + local_rank);
}

Test(hosts_launchers, ranks_of_open_mpi_meet_at_the_host_of_mpirun, .timeout = 120)
{
	assert_one_world(print_open_mpi);
}
