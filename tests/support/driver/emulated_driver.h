/* The interface between the parts of the emulated driver in C and in C++. */
#ifndef EMULATED_H
#define EMULATED_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* The trainer's kernels, at most. */
#define EMULATED_KERNELS 64

/* Few, so that kernels that spin leave little room. */
#define EMULATED_PROCESSORS 4

/* The registers of a thread. Kernels of matrix products have many: a block of 256 threads has more
   than half of a multiprocessor's. */
#define EMULATED_LIBRARY_REGISTERS 56
#define EMULATED_TRAINER_REGISTERS 32
#define EMULATED_PRODUCT_REGISTERS 144

struct emulated_grid {
	int blocks, threads, registers; /* threads of a block, registers of a thread */
	/* Blocks that spin for peers: until *stop is set, or for this time. NULL: they do not. */
	const uint32_t *stop;
	uint64_t timeout_ns;
};

struct emulated_room {
	int device; /* -1: none is needed */
	struct emulated_grid grid;
	int placed[EMULATED_PROCESSORS]; /* blocks */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Loads code: waits until nothing runs; not 0 where something runs on for too long. */
int emulated_load(void);

/* Bytes of parameters that launches have copied to the library's kernels so far. */
size_t emulated_parameter_bytes(void);

/* Whether a thread holds the lock of the device's context now. */
int emulated_locked(int device);

/* Whether memory that is allocated from now on has handles for other processes. */
void emulated_give_handles(int given);

/* The library's kernels, in the calling thread, by their parameter: struct rd_work, rd_small_work,
   rd_steps, rd_transfer_work. */
void emulated_work(const void *work);
void emulated_small(const void *work);
void emulated_steps(const void *steps);
void emulated_transfers(const void *work);

/* Peers' allocations that this process has mapped so far. */
unsigned emulated_imports(void);

/* The number of the trainer's kernel with this name; -1: there is none. */
int emulated_find(const char *name);
/* A launch of it with these parameters, which are copied; to be run once. */
void *emulated_bind(int number, unsigned blocks, void **parameters);
void emulated_run(void *launch);

/* Around a kernel, in its stream's thread: waits for room (room.h), and gives it back. */
void emulated_start(struct emulated_room *room, const struct emulated_grid *grid);
void emulated_end(struct emulated_room *room);

/* Launches a kernel that is a call of the host. Not 0: nothing is queued, and argument is the
   caller's. */
int emulated_launch(void *stream, const struct emulated_grid *grid, void (*run)(void *argument),
	void *argument);

#ifdef __cplusplus
}
#endif

#endif
