/* The ranks that train together. Alone, there is no comm, and all of this does nothing. */
#ifndef TRAIN_WORLD_H
#define TRAIN_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo.h>

struct world {
	rondo_comm *comm; /* NULL: alone */
	int rank, size;
};

/* Whether a launcher (rondo-run, torchrun, rondo_spawn() or the user) has set WORLD_SIZE. */
bool world_launched(void);
/*
 * Meets the others when launched; alone otherwise. gpu: the device whose memory calls may use; -1:
 * none, the host's alone.
 */
int world_open(struct world *world, int gpu);
/*
 * Leaves. err is what training came to: when this rank alone failed, the others are told why, and
 * stop too. Returns err, or when that is 0, what leaving came to.
 */
int world_close(struct world *world, int err);

/*
 * Each rank brings its err; 0 when all did. Otherwise the first rank whose err it was returns it,
 * and is to close the world with it; all others return RONDO_ABORTED. So what all ranks find
 * wrong, one says.
 */
int world_agree(const struct world *world, int err);
/* Rank 0's bytes, on every rank; in the host's memory or the GPU's. */
int world_broadcast(const struct world *world, void *bytes, size_t size);
/* Adds up over all ranks. */
int world_sum(const struct world *world, double *values /* [count] */, size_t count);
/* No rank returns before every rank has called. */
int world_barrier(const struct world *world);
/* Fails, and says which rank differs, when the ranks' numbers are not all the same. */
int world_compare(const struct world *world, uint64_t number, const char *what);

#endif
