/* Memory that the library has allocated in each rank's threads. */
#ifndef SIMULATION_JOBS_MEMORY_H
#define SIMULATION_JOBS_MEMORY_H

#include <stddef.h>

/* Allocations from now on are this rank's; -1: nobody's. Returns whose they were. */
int memory_enter(int rank);
void *memory_allocate(size_t size);
void *memory_reallocate(void *memory, size_t size);
void memory_free(void *memory);
/* Bytes of this rank's. */
size_t memory_used(int rank);
/* The rank has died. */
void memory_free_all(int rank);

#endif
