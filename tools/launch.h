/*
 * Launchers whose variables Rondo does not read. A tool that runs alone where nobody gave it a rank
 * would else run as many times, alone, as such a launcher starts it.
 */
#ifndef TOOLS_LAUNCH_H
#define TOOLS_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#define LAUNCH_LINE 512

/*
 * Whether this is one of several processes of a job that does not say which: neither RANK nor
 * WORLD_SIZE is set, but another launcher's variables (mpirun's, srun's, hydra's, ...) speak of
 * more than one process; or RANK alone is set. `line` then names the variables and says what to do.
 */
bool launch_unclear(char line[LAUNCH_LINE]);

#endif
