/*
 * The logical processors that rondo-run may use, with their cores and NUMA nodes.
 */
#ifndef RUN_PROCESSORS_H
#define RUN_PROCESSORS_H

#include <stdbool.h>

#include "topo/cpus.h"

struct processor {
	int cpu; /* as the kernel counts */
	int node; /* NUMA node, as the kernel counts; 0 where it is not known */
	int first; /* the first processor of its core, allowed or not */
	int core_index, node_index; /* among those of the allowed processors, from 0 */
};

struct processors {
	int count, cores, nodes; /* at least one each */
	int most; /* that may be busy at once (topo/processors.h) */
	struct processor *each; /* [count], by node, then core, then number */
};

/*
 * Reads the places of these processors from sysfs below `root` ("": this machine). Where sysfs does
 * not give it, a processor is a core of its own, in node 0. False, with one line on stderr, without
 * memory.
 */
bool processors_init(
	struct processors *processors, const char *root, const struct rd_cpus *allowed);
void processors_finish(struct processors *processors);

#endif
