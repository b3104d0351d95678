/*
 * The launcher of this process, if any: rondo-run, torchrun or a user set RANK and WORLD_SIZE,
 * mpirun sets the variables of its MPI.
 */
#ifndef BENCH_LAUNCHER_H
#define BENCH_LAUNCHER_H

#include <stdbool.h>

/* The variable that holds the number of processes; NULL: no launcher. */
const char *bench_launcher_variable(void);

/*
 * Reads this process's number and the number of processes: 0 of 1 without a launcher. False, with
 * one line on stderr, where the launcher's variables are no numbers.
 */
bool bench_launcher_read(int *process, int *processes);

#endif
