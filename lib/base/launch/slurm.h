/* A step of a Slurm job, from its variables: where its ranks meet, and the ranks of a node. */
#ifndef RD_SLURM_H
#define RD_SLURM_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

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

/* The lists that Slurm writes: of hosts, and of numbers of tasks. */

/*
 * Copies the first host of a list of hosts, "node[01-03,07],gpu1": node01. False: this is no such
 * list, or the name does not fit into `size` bytes.
 */
bool rd_slurm_first_host(char *host, size_t size, const char *list);

/* Whether such a list has the host. False also where it is no list. */
bool rd_slurm_has_host(const char *list, const char *host);

/*
 * Finds the number of tasks on a node, from 0, in a list as "2(x3),1": nodes 0 to 2 have two tasks
 * each, and node 3 has one. False: this is no such list, a number is not from 1 to 65536, or the
 * list ends before the node.
 */
bool rd_slurm_tasks_on_node(int *tasks, const char *list, int64_t node);

#endif
