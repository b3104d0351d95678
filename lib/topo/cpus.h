/* A set of logical CPUs, and how the kernel writes one: "0-3,8". */
#ifndef RD_CPUS_H
#define RD_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RD_CPU_MAX 4096

struct rd_cpus {
	uint64_t bits[RD_CPU_MAX / 64];
};

bool rd_cpus_has(const struct rd_cpus *cpus, int cpu);
/* What is outside 0..RD_CPU_MAX-1 is left out. */
void rd_cpus_add(struct rd_cpus *cpus, int cpu);
void rd_cpus_remove(struct rd_cpus *cpus, int cpu);
int rd_cpus_count(const struct rd_cpus *cpus);
/* The CPU at `index` in the set; -1 past its end. */
int rd_cpus_at(const struct rd_cpus *cpus, int index);
/* How many of the set come before this CPU. */
int rd_cpus_before(const struct rd_cpus *cpus, int cpu);
/* Whether both have some CPU. */
bool rd_cpus_meet(const struct rd_cpus *a, const struct rd_cpus *b);
bool rd_cpus_within(const struct rd_cpus *inner, const struct rd_cpus *outer);

/* False for what is no list, or goes beyond RD_CPU_MAX; then the set is empty. "" is the empty set.
 */
bool rd_cpus_read(struct rd_cpus *cpus, const char *text);
/* Cut, where it does not fit. */
void rd_cpus_text(const struct rd_cpus *cpus, char *text, size_t size);

#endif
