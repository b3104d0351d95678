/*
 * What started this process as one of several, if anything did: rondo-run, torchrun or a user by
 * RANK and WORLD_SIZE, mpirun by the variables of its MPI.
 */
#ifndef BENCH_LAUNCHER_H
#define BENCH_LAUNCHER_H

#include <stdbool.h>

/* The variable that says how many processes there are; NULL: nothing started this as one of
 * several. */
const char *bench_launcher_variable(void);

/*
 * Which of how many processes this one is; without a launcher 0 of 1. Returns false, having said so
 * in one line, where the launcher's variables are no numbers.
 */
bool bench_launcher_read(int *process, int *processes);

#endif
