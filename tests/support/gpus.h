/*
 * Helpers of tests that run on GPUs, real ones or the tests' driver's: worlds in processes of their
 * own, numbers of every type, and CUDA graphs.
 */
#ifndef GPUS_H
#define GPUS_H

#include <stdint.h>

#include "plan/collective.h"
#include "world.h"

/* A world with this RONDO_KERNEL. */
struct gpu_trial {
	const char *kernel;
	struct world world;
	int (*body)(struct rank_env *env);
};

/* A suite's init: its tests end with their parent. They are in sessions of their own, so that no
   signal to the program's process group reaches them, and would go on using the GPU. */
void gpu_die_with_parent(void);

/* Runs in a process of its own, because a process finds devices once. Returns the number of failed
   ranks. */
int gpu_trial_run(const struct gpu_trial *trial);

bool has_gpus(int count);
#define NO_GPU "there is no GPU here, or no CUDA driver, or this build has no CUDA"

/* Whether the driver is the tests' own (tests/support/driver): the host accesses its device memory,
   too. */
bool has_tests_driver(void);
#define NO_TESTS_DRIVER "the tests' driver is not here (LD_LIBRARY_PATH=build/driver)"

/* In a test that another build runs, too: skips it where that driver is not here. */
void need_tests_gpus(const char *gpus);
/* This process and its children use GPUs of the tests' driver: EMULATED_GPUS (driver/cuda.c). */
void use_tests_gpus(const char *gpus);
/* Whether memory that this process allocates from now on has handles for other processes. */
void give_handles(bool given);

/* Kernels of the tests' driver, in the calling thread. */
struct rd_small_work;
void run_small_kernel(const struct rd_small_work *work);
struct rd_steps;
void run_steps_kernel(const struct rd_steps *steps);

/* In a body, on all ranks: a word in a page of its own, which devices address. It is 0. Call the
   first before there is work on devices: to pin memory may take until they are idle. Returns as a
   body does. */
int open_flag(struct rank_env *env, uint32_t **flag);
void close_flag(uint32_t *flag);

/* Whether processes that share a GPU run at the same time; EMULATED_MPS decides for the tests'
   driver. */
bool has_mps(void);

/* Element i of a rank's input: any integer, or a small float whose sums and products of four are
   exact in every type. */
void gpu_put_element(void *at, rondo_type type, size_t i, int rank);

/* A call on a rank's two buffers. */
struct gpu_request {
	enum rd_collective collective;
	rondo_type type;
	rondo_op op;
	size_t count;
	int root;
	bool in_place;
	size_t in_at, out_at; /* of its input and output in the buffers, in bytes */
};

struct gpu_buffers {
	char *in, *out; /* on the device; size bytes each, as the others */
	char *host_in, *host_out, *got;
	size_t size;
	rondo_stream *stream;
};

/* On this rank's device, in a body; returns as a body does. Closed even if that failed. */
int gpu_buffers_open(struct rank_env *env, struct gpu_buffers **buffers, size_t size);
void gpu_buffers_close(struct gpu_buffers *buffers);
int gpu_request_call(rondo_comm *comm, const struct gpu_request *request, char *in, char *out,
	rondo_stream *stream);
/* Makes the call on the device and in host memory. The whole buffers are compared, with what no
   call is to touch. All ranks have the same floats where a call adds them: sums are then exact. */
int gpu_beside_the_host(
	struct rank_env *env, struct gpu_buffers *buffers, const struct gpu_request *request);

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
