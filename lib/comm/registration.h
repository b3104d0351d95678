/*
 * The registrations of this process: regions of memory that NICs may access (struct
 * rd_registration), and the endpoints to which they are attached. Every region is attached to every
 * endpoint that has links and takes registrations. Any thread may call these functions while
 * another uses the endpoints. A lock makes them one at a time; calls on comms do not take it.
 *
 * A forked child keeps the regions, for comms of its own, and leaves its parent's endpoints alone.
 */
#ifndef RD_REGISTRATION_H
#define RD_REGISTRATION_H

#include "comm/comm.h"

enum rd_registration_kind {
	RD_ALLOCATED, /* by Rondo */
	RD_REGISTERED, /* by the program */
	RD_REGISTERED_DEVICE, /* the same, device memory */
};

/* Adds a region, which may begin and end anywhere, and attaches it. RONDO_INVALID: it overlaps
   another; RONDO_MEMORY. The reason names `function`. */
int rd_registration_add(
	void *base, size_t size, enum rd_registration_kind kind, const char *function);

/* Detaches and removes the region that begins at `base`. Returns false if there is none. */
bool rd_registration_remove(const void *base);

/* Finds a region that has a byte of [at, at + size); *base and *kind are its own. Returns false if
   there is none. */
bool rd_registration_find(
	const void *at, size_t size, void **base, enum rd_registration_kind *kind);

/* rd_region_alloc() and rd_region_free(), for memory that messages leave from or arrive in. */
int rd_registered_alloc(void **memory, size_t size);
bool rd_registered_free(void *memory);

/* A link over this endpoint, by its number, is open: attaches all regions to it, once. */
void rd_registration_join(struct rondo_comm *comm, int endpoint);
/* Call before the endpoints of a comm are closed. */
void rd_registration_leave(struct rondo_comm *comm);

#endif
