/*
 * Launchers whose variables Rondo does not read. Without this check each process of a launcher
 * would run a tool alone.
 */
#ifndef TOOLS_LAUNCH_H
#define TOOLS_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#define LAUNCH_LINE 512

/*
 * Whether this is one of several processes without a known rank. Either RANK alone is set; or
 * neither RANK nor WORLD_SIZE, while the variables of another launcher (mpirun, srun, hydra, ...)
 * show more than one process. `line` then names the variables and the remedy.
 */
bool launch_unclear(char line[LAUNCH_LINE]);

#endif
