#include "run/processors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/base/memory.h"
#include "topo/processors.h"
#include "topo/sysfs.h"

#define NODES "sys/devices/system/node"
#define CPUS "sys/devices/system/cpu"

/* Adds a processor's first sibling. */
static void add(struct processors *processors, const char *root, int cpu)
{
	struct processor *processor = &processors->each[processors->count++];
	struct rd_cpus siblings;
	char list[RD_CPU_MAX];

	*processor = (struct processor){ .cpu = cpu, .first = cpu };
	if (rd_sysfs_line(
		    list, sizeof(list), root, CPUS "/cpu%d/topology/thread_siblings_list", cpu) &&
		rd_cpus_read(&siblings, list) && rd_cpus_has(&siblings, cpu))
		processor->first = rd_cpus_at(&siblings, 0);
}

static void read_nodes(struct processors *processors, const char *root)
{
	char(*names)[RD_SYSFS_NAME_SIZE], list[RD_CPU_MAX];
	int count = rd_sysfs_list(&names, root, NODES);

	for (int i = 0; i < count; i++) {
		struct rd_cpus cpus;
		int node, length = 0;

		if (sscanf(names[i], "node%d%n", &node, &length) != 1 || names[i][length] ||
			node < 0 ||
			!rd_sysfs_line(list, sizeof(list), root, NODES "/%s/cpulist", names[i]) ||
			!rd_cpus_read(&cpus, list))
			continue;
		for (int p = 0; p < processors->count; p++)
			if (rd_cpus_has(&cpus, processors->each[p].cpu))
				processors->each[p].node = node;
	}
	free(names);
}

static int compare(const void *a, const void *b)
{
	const struct processor *one = a, *other = b;

	if (one->node != other->node)
		return one->node - other->node;
	if (one->first != other->first)
		return one->first - other->first;
	return one->cpu - other->cpu;
}

/* Numbers the cores and nodes of the sorted processors. */
static void number(struct processors *processors)
{
	for (int i = 0; i < processors->count; i++) {
		struct processor *here = &processors->each[i], *last = here - 1;

		if (i == 0 || here->node != last->node)
			processors->nodes++;
		if (i == 0 || here->node != last->node || here->first != last->first)
			processors->cores++;
		here->node_index = processors->nodes - 1;
		here->core_index = processors->cores - 1;
	}
}

bool processors_init(struct processors *processors, const char *root, const struct rd_cpus *allowed)
{
	*processors = (struct processors){
		.most = rd_processors(allowed, root),
		.each = calloc((size_t)rd_cpus_count(allowed), sizeof(*processors->each)),
	};
	if (!processors->each) {
		memory_report_lack();
		return false;
	}
	for (int cpu = 0; cpu < RD_CPU_MAX; cpu++)
		if (rd_cpus_has(allowed, cpu))
			add(processors, root, cpu);
	read_nodes(processors, root);
	qsort(processors->each, (size_t)processors->count, sizeof(*processors->each), compare);
	number(processors);
	return true;
}

void processors_finish(struct processors *processors)
{
	free(processors->each);
	*processors = (struct processors){ 0 };
}
