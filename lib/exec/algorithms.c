#include "exec/algorithms.h"

#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "mesh/mesh.h"
#include "ring/ring.h"
#include "tree/tree.h"

const struct rd_algorithm *_Atomic rd_algorithms[RD_ALGORITHMS_KNOWN + 1] = {
	&rd_ring,
	&rd_linear,
	&rd_doubling,
	&rd_mesh_spread,
	&rd_two_shot,
	&rd_one_shot,
	&rd_tree,
	&rd_binomial,
	&rd_halving,
	&rd_pat,
	&rd_one_round,
	&rd_hierarchical,
	&rd_pipelined,
	&rd_leaders,
	&rd_chain,
	NULL,
};

static int count_algorithms(void)
{
	int count = 0;

	while (rd_algorithms[count])
		count++;
	return count;
}

int rd_algorithms_check_room(void)
{
	return count_algorithms() < RD_ALGORITHMS_KNOWN
		       ? 0
		       : rd_fail(RONDO_UNSUPPORTED, "there is room for %d algorithms",
				 RD_ALGORITHMS_KNOWN);
}

int rd_algorithm_add(const struct rd_algorithm *algorithm)
{
	int err = rd_algorithms_check_room();

	if (!err)
		rd_algorithms[count_algorithms()] = algorithm;
	return err;
}

const struct rd_algorithm *rd_algorithm_called(const char *name)
{
	for (int i = 0; rd_algorithms[i]; i++)
		if (strcmp(rd_algorithms[i]->name, name) == 0)
			return rd_algorithms[i];
	return NULL;
}

const struct rd_algorithm *rd_algorithm_named(const char *name)
{
	const struct rd_algorithm *found = rd_algorithm_called(name);
	struct rd_nearest nearest = RD_NEAREST(name);
	char known[256] = "", meant[RD_NEAREST_TEXT];

	for (int i = 0; rd_algorithms[i] && !found; i++) {
		rd_nearest_try(&nearest, rd_algorithms[i]->name);
		strncat(known, i ? ", " : "", sizeof(known) - strlen(known) - 1);
		strncat(known, rd_algorithms[i]->name, sizeof(known) - strlen(known) - 1);
	}
	if (!found)
		rd_fail(RONDO_SETTING, "\"%s\", which is no algorithm: choose among %s%s", name,
			known, rd_nearest_text(&nearest, meant));
	return found;
}
