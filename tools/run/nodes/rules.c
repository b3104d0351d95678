#include "run/nodes/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool rules_are_elastic(const struct rules *rules)
{
	return rules->nodes_min < rules->nodes;
}

static bool refuse(char reason[REASON_SIZE], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool refuse(char reason[REASON_SIZE], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason, REASON_SIZE, format, args);
	va_end(args);
	return false;
}

static bool options_agree(
	const struct rules *rules, const struct hello *hello, char reason[REASON_SIZE])
{
	if (hello->version != MESSAGE_VERSION)
		return refuse(reason,
			"host %s speaks version %d of rondo-run's messages, and this one version "
			"%u: install the same Rondo on all nodes",
			rules->host, MESSAGE_VERSION, hello->version);
	if (strcmp(hello->run_id, rules->run_id) != 0)
		return refuse(reason,
			"the job of host %s has the id %s, and this one %s: give the nodes of a "
			"job one --rdzv-id, and each job its own endpoint",
			rules->host, rules->run_id, hello->run_id);
	if (hello->nodes_min != rules->nodes_min || hello->nodes != rules->nodes)
		return refuse(reason,
			"--nnodes is %d:%d on host %s and %d:%d here: give all nodes the same",
			rules->nodes_min, rules->nodes, rules->host, hello->nodes_min,
			hello->nodes);
	if (hello->max_restarts != rules->max_restarts)
		return refuse(reason,
			"--max-restarts is %d on host %s and %d here: give all nodes the same",
			rules->max_restarts, rules->host, hello->max_restarts);
	if (hello->node >= rules->nodes)
		return refuse(reason, "--node-rank %d: the %d nodes count from 0", hello->node,
			rules->nodes);
	return true;
}

bool rules_accept(const struct rules *rules, const struct members *members,
	const struct hello *hello, char reason[REASON_SIZE])
{
	long ranks = hello->local_size;

	if (!options_agree(rules, hello, reason))
		return false;
	for (int i = 0; i < members->count; i++) {
		const struct hello *other = &members->list[i].hello;

		ranks += other->local_size;
		if (hello->node >= 0 && other->node == hello->node)
			return refuse(reason,
				"--node-rank %d is that of host %s already: give each node its own",
				hello->node, other->host);
	}
	if (ranks > RANKS_MAX)
		return refuse(reason, "the job would have %ld ranks, and %d are the most", ranks,
			RANKS_MAX);
	return true;
}
