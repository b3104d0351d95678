/* The ranks that train together. A single rank has no comm: these functions then do nothing. */
#ifndef TRAIN_WORLD_H
#define TRAIN_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo.h>

struct train_world {
	rondo_comm *comm; /* NULL: alone */
	int rank, size;
};

/* Finds this process among those of its launcher: rondo_get_launch(), with failure(). */
int world_find_launch(struct rondo_launch *launch);
/*
 * Creates a comm if a launcher started several ranks; else the rank is alone. gpu: the device whose
 * memory calls may use; -1: host memory only.
 */
int world_open(struct train_world *world, int gpu);
/* Creates a comm with this config, in which `gpu` is filled in. world_set_environment() was called
   before the process had threads. */
int world_open_as(struct train_world *world, int gpu, const struct rondo_config *config);
/* Sets the library's variables that training needs, unless the user has set them. */
void world_set_environment(void);
/*
 * Leaves. err is the result of training: if this rank alone failed, it aborts the comm with the
 * reason, and the others stop, too. Returns err, or if that is 0, the result of leaving.
 */
int world_close(struct train_world *world, int err);

/* Ends all calls of the other ranks with this rank's failure(). Before it lets go of what they may
   wait for. */
void world_abort(const struct train_world *world);

/*
 * Returns 0 if err is 0 on all ranks. Else the first rank with an err returns it, and must close
 * the world with it; all others return RONDO_REVOKED. So one rank reports an error of all.
 */
int world_agree(const struct train_world *world, int err);
/* Copies rank 0's bytes to every rank, in host or GPU memory. */
int world_broadcast(const struct train_world *world, void *bytes, size_t size);
/* Sums over all ranks, in a fixed order: a binary tree of ranks. */
int world_sum(const struct train_world *world, double *values /* [count] */, size_t count);
/* The greatest of all ranks. */
int world_max(const struct train_world *world, double *values /* [count] */, size_t count);
/* A barrier. */
int world_barrier(const struct train_world *world);
/* Finds out whether all ranks have the same number. */
int world_same(const struct train_world *world, uint64_t number, bool *same);

#endif
