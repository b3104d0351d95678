/* A set of logical CPUs, and its text in the format of the kernel: "0-3,8". */
#ifndef RD_CPUS_H
#define RD_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RD_CPU_MAX 4096
/* Room for every list: the longest has 10 characters, as "1000-1001,", for each 3 CPUs. */
#define RD_CPUS_TEXT_SIZE (4 * RD_CPU_MAX)

struct rd_cpus {
	uint64_t bits[RD_CPU_MAX / 64];
};

/* Sets those that the calling thread may run on. False, an empty set, and errno. */
bool rd_cpus_allowed(struct rd_cpus *cpus);
/* Moves the calling thread from this CPU to another that it may run on, if there is one. It may
   run on the same CPUs afterwards. */
void rd_cpus_leave(int cpu);

bool rd_cpus_has(const struct rd_cpus *cpus, int cpu);
/* Adds a CPU; ignores a number outside 0..RD_CPU_MAX-1. */
void rd_cpus_add(struct rd_cpus *cpus, int cpu);
void rd_cpus_remove(struct rd_cpus *cpus, int cpu);
int rd_cpus_count(const struct rd_cpus *cpus);
/* Returns the CPU at `index` in the set, in ascending order; -1 past its end. */
int rd_cpus_at(const struct rd_cpus *cpus, int index);
/* Returns the number of CPUs in the set below this one. */
int rd_cpus_before(const struct rd_cpus *cpus, int cpu);
/* Returns whether the sets have a CPU in common. */
bool rd_cpus_meet(const struct rd_cpus *a, const struct rd_cpus *b);
bool rd_cpus_within(const struct rd_cpus *inner, const struct rd_cpus *outer);

/*
 * Reads a list of CPUs; "" is the empty set. False, and an empty set, where the text is no list or
 * has a CPU of RD_CPU_MAX or above.
 */
bool rd_cpus_read(struct rd_cpus *cpus, const char *text);
/* Writes the list to text[size]; one that is too long ends with "...". */
void rd_cpus_text(const struct rd_cpus *cpus, char *text, size_t size);

#endif
