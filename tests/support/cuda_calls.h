/*
 * The CUDA driver as a program calls it beside Rondo: the tests' driver
 * (tests/support/driver), with its kernels program_add and program_spin. Functions return 0, or the
 * driver's error.
 */
#ifndef CUDA_CALLS_H
#define CUDA_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUipcMemHandle */
struct cuda_handle {
	char bytes[64];
};

struct cuda_calls {
	int (*init)(unsigned flags);
	int (*retain)(void **context, int device);
	int (*set)(void *context);
	int (*attribute)(int *value, int attribute, int device);
	int (*alloc)(void **memory, size_t size);
	int (*free)(void *memory);
	int (*alloc_host)(void **memory, size_t size);
	int (*free_host)(void *memory);
	int (*pin)(void *memory, size_t size, unsigned flags);
	int (*unpin)(void *memory);
	int (*get_handle)(struct cuda_handle *handle, void *memory);
	int (*open_handle)(void **memory, struct cuda_handle handle, unsigned flags);
	int (*close_handle)(void *memory);
	int (*copy)(void *to, const void *from, size_t size, void *stream);
	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_destroy)(void *stream);
	int (*stream_synchronize)(void *stream);
	int (*stream_query)(void *stream);
	int (*wait_value)(void *stream, void *flag, uint32_t value, unsigned flags);
	int (*write_value)(void *stream, void *flag, uint32_t value, unsigned flags);
	int (*host_call)(void *stream, void (*function)(void *argument), void *argument);
	int (*event_create)(void **event, unsigned flags);
	int (*event_destroy)(void *event);
	int (*event_record)(void *event, void *stream);
	int (*wait_event)(void *stream, void *event, unsigned flags);
	int (*load)(void **module, const void *image);
	int (*find)(void **kernel, void *module, const char *name);
	int (*kernel_attribute)(int *value, int attribute, void *kernel);
	int (*occupancy)(int *blocks, void *kernel, int threads, size_t memory);
	int (*launch)(void *kernel, unsigned grid, unsigned grid_y, unsigned grid_z, unsigned block,
		unsigned block_y, unsigned block_z, unsigned memory, void *stream,
		void **parameters, void **extra);
	int (*locked)(int device); /* whether some thread holds the context's lock now */
	unsigned (*imports)(void); /* peers' allocations that this process has mapped so far */
	size_t (*parameter_bytes)(void); /* that launches have copied to Rondo's kernels so far */
	void *add, *spin; /* kernels, once cuda_calls_open() has been called */
};

/* False: the tests' driver is not here. It is loaded, but not started. */
bool cuda_calls_find(struct cuda_calls *cuda);
/* Starts it, makes the device current to the calling thread, and loads the kernels. */
int cuda_calls_open(struct cuda_calls *cuda, int device);

/* program_add, on blocks that have more than half of a multiprocessor's registers. */
int cuda_add(const struct cuda_calls *cuda, void *stream, int blocks, float *at, unsigned count,
	float by);
/* program_spin, on blocks of the library's size. */
int cuda_spin(
	const struct cuda_calls *cuda, void *stream, int blocks, uint32_t *started, uint32_t *stop);

#endif
