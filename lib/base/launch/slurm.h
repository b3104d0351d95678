/* A step of a Slurm job, from its variables: where its ranks meet, and the ranks of a node. */
#ifndef RD_SLURM_H
#define RD_SLURM_H

#include <stddef.h>

#define RD_SLURM_LOCAL_SIZE "SLURM_STEP_TASKS_PER_NODE"

/*
 * Derives a port from the numbers of the job and of the step, the same on every rank, from 10240 to
 * 26623. Steps of one job, and jobs of near numbers, get different ports. 0: a number is not set.
 */
int rd_slurm_port(void);

/* Writes the host of a step's rank 0: the loopback address for a step on one node; "" where the
   variables name none. RONDO_SETTING for a list, or a file of `srun -m arbitrary`, that cannot be
   read. */
int rd_slurm_step_host(char *host, size_t size);
/* The same for the first host of the job: mpirun runs steps of its own on the other hosts. */
int rd_slurm_job_host(char *host, size_t size);

/* SLURM_CPUS_PER_TASK of a step; 0: this is no task of one, or the variable no number. */
int rd_slurm_cpus_per_task(void);

/* The number of the step's ranks on this node; leaves *local_size alone where a variable is not
   set, and in a heterogeneous job. RONDO_SETTING where they give no such number. */
int rd_slurm_local_size(int *local_size);

#endif
