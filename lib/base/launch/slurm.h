/* Where the ranks of a Slurm job step meet, from its variables. */
#ifndef RD_SLURM_H
#define RD_SLURM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Copies the first host of a list as Slurm writes it, "node[01-03,07],gpu1": node01. Rank 0 runs
 * there. False: this is no such list, or the name does not fit into `size` bytes.
 */
bool rd_slurm_first_host(char *host, size_t size, const char *list);

/*
 * Derives a port from the numbers of the job and of the step, the same on every rank, from 10240 to
 * 26623. Steps of one job, and jobs of near numbers, get different ports. 0: a number is not set.
 */
int rd_slurm_port(void);

/* Writes the host of a step's rank 0: 127.0.0.1 for a step on one node; "" where the variables name
   none. RONDO_SETTING for a list that cannot be read. */
int rd_slurm_step_host(char *host, size_t size);
/* The same for the first host of the job: mpirun runs steps of its own on the other hosts. */
int rd_slurm_job_host(char *host, size_t size);

#endif
