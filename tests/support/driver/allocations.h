/* Device memory: allocations in memfds, which other processes map by their handles. */
#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct allocation {
	int device;
	uint64_t id; /* of this process's allocations; 0: it is another process's */
	char *base;
	size_t size; /* whole pages */
};

/* NULL: no memory. */
void *allocation_create(int device, size_t size);
/* Not 0: there is none that begins here. */
int allocation_destroy(void *base);
/* The one in which `at` lies, also where it is mapped from another process. */
bool allocation_find(const void *at, struct allocation *allocation);

/* Whether memory that is allocated from now on has handles. */
void allocations_give_handles(bool given);
/* Not 0: none begins here, or it has no handle. */
int allocation_export(const void *base, CUipcMemHandle *handle);
/* NULL: the handle is none, or the device does not reach that memory. */
void *allocation_import(int device, const CUipcMemHandle *handle);
void allocation_drop(void *base);
/* A descriptor of the caller's, of the allocation's file; -1: it has no handle. */
int allocation_file(const struct allocation *allocation);

#endif
