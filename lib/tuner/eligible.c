#include "tuner/eligible.h"

#include <string.h>

#include "check/proof.h"
#include "exec/algorithms.h"
#include "plan/plan_file.h"

int rd_algorithm_can(const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	if (!rd_algorithm_claims(algorithm, problem))
		return 0;
	return rd_proof_holds(algorithm, problem);
}

const struct rd_algorithm *rd_algorithm_with(
	const struct rd_problem *problem, bool (*has_trait)(const struct rd_algorithm *algorithm))
{
	for (int i = 0; rd_algorithms[i]; i++)
		if (has_trait(rd_algorithms[i]) && rd_algorithm_can(rd_algorithms[i], problem) > 0)
			return rd_algorithms[i];
	return NULL;
}

const struct rd_algorithm *rd_algorithm_find(const struct rd_problem *problem, const char *name)
{
	for (int i = 0; rd_algorithms[i]; i++) {
		if (name && *name && strcmp(name, rd_algorithms[i]->name) != 0)
			continue;
		if (!rd_algorithms[i]->direct_access &&
			rd_algorithm_can(rd_algorithms[i], problem) > 0)
			return rd_algorithms[i];
	}
	return NULL;
}
