/* The lists that Slurm writes: of hosts, and of numbers of tasks. */
#ifndef RD_SLURM_LIST_H
#define RD_SLURM_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
