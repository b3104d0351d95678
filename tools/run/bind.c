#include "run/bind.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 5.15 has it, and Debian's header may be older. */
#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY 5
#endif

/* Parts of the node that are divided among the ranks. */
enum unit { UNIT_ALL, UNIT_NODE, UNIT_CORE, UNIT_THREAD };

static enum unit choose_unit(const struct processors *processors, enum bind bind, int size)
{
	switch (bind) {
	case BIND_NONE:
		break;
	case BIND_NUMA:
		return UNIT_NODE;
	case BIND_CORES:
		return processors->cores >= size ? UNIT_CORE : UNIT_THREAD;
	}
	return UNIT_ALL;
}

static int count_units(const struct processors *processors, enum unit unit)
{
	switch (unit) {
	case UNIT_NODE:
		return processors->nodes;
	case UNIT_CORE:
		return processors->cores;
	case UNIT_THREAD:
		return processors->count;
	case UNIT_ALL:
		break;
	}
	return 1;
}

/* The unit of the processor at the index. */
static int unit_of(const struct processors *processors, enum unit unit, int index)
{
	switch (unit) {
	case UNIT_NODE:
		return processors->each[index].node_index;
	case UNIT_CORE:
		return processors->each[index].core_index;
	case UNIT_THREAD:
		return index;
	case UNIT_ALL:
		break;
	}
	return 0;
}

static int first_unit(int units, int size, int local_rank)
{
	return (int)((long)local_rank * units / size);
}

/* Ranks whose slice begins with the unit: several have the same one where ranks outnumber units. */
static int count_sharers(int units, int size, int first)
{
	int count = 0;

	for (int i = 0; i < size; i++)
		count += first_unit(units, size, i) == first;
	return count;
}

void slice_init(struct slice *slice, const struct processors *processors, enum bind bind, int size,
	int local_rank)
{
	enum unit unit = choose_unit(processors, bind, size);
	int units = count_units(processors, unit), cores = 0, core = -1;
	int first = first_unit(units, size, local_rank);
	int end = first_unit(units, size, local_rank + 1);

	*slice = (struct slice){ .bind = bind };
	for (int i = 0; i < processors->count; i++) {
		const struct processor *processor = &processors->each[i];
		int here = unit_of(processors, unit, i);

		if (here != first && (here < first || here >= end))
			continue;
		rd_cpus_add(&slice->cpus, processor->cpu);
		rd_cpus_add(&slice->nodes, processor->node);
		cores += processor->core_index != core;
		core = processor->core_index;
	}
	slice->threads = cores / count_sharers(units, size, first);
	if (slice->threads > processors->most / size)
		slice->threads = processors->most / size;
	if (slice->threads < 1)
		slice->threads = 1;
}

static bool prefer_memory(const struct slice *slice)
{
	int mode = rd_cpus_count(&slice->nodes) > 1 ? MPOL_PREFERRED_MANY : MPOL_PREFERRED;

	/* The kernel counts one bit less. */
	return syscall(SYS_set_mempolicy, mode, slice->nodes.bits, (unsigned long)RD_CPU_MAX + 1) ==
	       0;
}

void slice_apply(const struct slice *slice, int rank)
{
	char text[SLICE_TEXT_SIZE];

	if (slice->bind == BIND_NONE)
		return;
	slice_describe(slice, text);
	if (sched_setaffinity(0, sizeof(slice->cpus.bits), (const cpu_set_t *)slice->cpus.bits) < 0)
		fprintf(stderr, "rondo-run: cannot bind rank %d to %s: %m\n", rank, text);
	else if (slice->bind == BIND_NUMA && !prefer_memory(slice))
		fprintf(stderr, "rondo-run: cannot bind the memory of rank %d: %m\n", rank);
}

/* A container may forbid to choose memory. */
static bool can_prefer_memory(void)
{
	int mode;

	return syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) == 0;
}

void slice_describe(const struct slice *slice, char text[SLICE_TEXT_SIZE])
{
	bool one_cpu = rd_cpus_count(&slice->cpus) == 1;
	bool one_node = rd_cpus_count(&slice->nodes) == 1;
	char cpus[SLICE_TEXT_SIZE / 2], nodes[SLICE_TEXT_SIZE / 4], *memory = "";

	rd_cpus_text(&slice->cpus, cpus, sizeof(cpus));
	rd_cpus_text(&slice->nodes, nodes, sizeof(nodes));
	if (slice->bind == BIND_NUMA && can_prefer_memory())
		memory = one_node ? ", with its memory" : ", with their memory";
	else if (slice->bind == BIND_NUMA)
		memory = ", without memory: the kernel does not allow to choose it";
	snprintf(text, SLICE_TEXT_SIZE, "CPU%s %s of NUMA node%s %s%s", one_cpu ? "" : "s", cpus,
		one_node ? "" : "s", nodes, memory);
}
