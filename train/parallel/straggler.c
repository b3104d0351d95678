#include "train/parallel/straggler.h"

#include <stdlib.h>

#include "train/base/fail.h"

void straggler_note(struct straggler *straggler, const struct bucket_times *times)
{
	straggler->busy_s += times->done_s - times->launched_s;
	straggler->buckets++;
}

int straggler_find(struct straggler *straggler, const struct train_world *world, int bucket_count,
	int *rank, double *late_s)
{
	/* A rank whose times arrive late counts fewer steps. */
	double steps = (double)straggler->buckets / bucket_count;
	double mine = steps > 0 ? straggler->busy_s / steps : 0, most = 0;
	double *all = calloc(world->size, sizeof(*all)); /* [size] */
	*rank = 0;
	*late_s = 0;
	if (!all)
		return fail("out of memory");
	int err = rondo_all_gather(world->comm, &mine, all, 1, RONDO_F64, NULL);
	if (err)
		fail_comm(err, "gather of the ranks' times");
	for (int r = 0; !err && r < world->size; r++) {
		if (all[r] < all[*rank])
			*rank = r;
		if (all[r] > most)
			most = all[r];
	}
	*late_s = err ? 0 : most - all[*rank];
	*straggler = (struct straggler){ 0 };
	free(all);
	return err;
}
