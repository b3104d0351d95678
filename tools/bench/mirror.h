/*
 * Device copies of a rank's host buffers, for measuring collectives on device memory. Buffers are
 * filled and checked in host memory.
 */
#ifndef BENCH_MIRROR_H
#define BENCH_MIRROR_H

#include "collective.h"

struct bench_mirror {
	void *host[2], *device[2]; /* send and recv */
	size_t size; /* of each */
	int gpu; /* the device's number */
};

/* send and recv hold `size` bytes in host memory. Returns a rondo_error; destroy it in any case. */
int bench_mirror_create(
	struct bench_mirror *mirror, void *send, void *recv, size_t size, int device);
void bench_mirror_destroy(struct bench_mirror *mirror);

/* Returns the call on the device's buffers. A NULL mirror leaves the call as it is; so below. */
struct bench_call bench_mirror_call(
	const struct bench_mirror *mirror, const struct bench_call *call);

int bench_mirror_upload(const struct bench_mirror *mirror);
int bench_mirror_download(const struct bench_mirror *mirror);

#endif
