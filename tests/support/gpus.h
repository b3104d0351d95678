/*
 * Helpers of tests that run on real and emulated GPUs: worlds in processes of their own, numbers of
 * every type, and CUDA graphs.
 */
#ifndef GPUS_H
#define GPUS_H

#include "world.h"

/* A world on this RONDO_DEVICE, with this RONDO_KERNEL. */
struct gpu_trial {
	const char *device, *kernel;
	struct world world;
	int (*body)(struct rank_env *env);
};

/* A suite's init: its tests end with their parent. They are in sessions of their own, so that no
   signal to the program's process group reaches them, and would go on using the GPU. */
void gpu_die_with_parent(void);

/* Runs in a process of its own, because a process finds devices once. Returns the number of failed
   ranks. */
int gpu_trial_run(const struct gpu_trial *trial);

/* On the CUDA driver, real or emulated. */
bool has_gpus(int count);
#define NO_GPU "there is no GPU here, or no CUDA driver, or this build has no CUDA"

/* Whether the driver is the tests' own (tests/support/driver): the host accesses its device memory,
   too. */
bool has_tests_driver(void);
#define NO_TESTS_DRIVER "the tests' driver is not here, or this build has no CUDA"

/* Whether processes that share a GPU run at the same time; EMULATED_MPS decides for the emulated
   driver. */
bool has_mps(void);

/* Element i of a rank's input: any integer, or a small float whose sums and products of four are
   exact in every type. */
void gpu_put_element(void *at, rondo_type type, size_t i, int rank);

/* Functions of the driver, by their long-lived names. They return 0, or an error. */
struct gpu_graphs {
	int (*begin)(void *stream, int mode);
	int (*end)(void *stream, void **graph);
	int (*instantiate)(void **exec, void *graph, unsigned long long flags);
	int (*launch)(void *exec, void *stream);
	int (*create)(void **stream, unsigned flags);
	int (*synchronize)(void *stream);
	int (*retain)(void **context, int device);
	int (*set)(void *context);
	int (*destroy_exec)(void *exec);
	int (*destroy_graph)(void *graph);
	int (*destroy)(void *stream);
};

bool gpu_find_graphs(struct gpu_graphs *graphs);

/* A stream of the program's own on this device, as Rondo's too; non-zero: it could not be had. */
int gpu_open_stream(const struct gpu_graphs *cu, int device, void **stream, rondo_stream **wrapped);
/* Records what this thread queues there, until cu->end(). */
int gpu_begin(const struct gpu_graphs *cu, void *stream);

#endif
