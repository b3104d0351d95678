/*
 * Registered memory of an endpoint: regions from which its links send with no copy. Endpoints of
 * one process share the registrations with a device.
 *
 * attach() and detach() may run in any thread, one at a time, while another thread uses the
 * endpoint. That thread has a copy of the table, which it renews when the version has changed.
 */
#ifndef RD_VERBS_REGION_H
#define RD_VERBS_REGION_H

#include <pthread.h>
#include <stdatomic.h>

#include "rondo/transport.h"
#include "transports/verbs/port.h"
#include "transports/verbs/rail.h"

struct rd_verbs_region {
	uint64_t id;
	uintptr_t base;
	size_t size;
	bool writable; /* by peers; else links only send from it */
	struct ibv_mr *at[RD_VERBS_RAILS_MAX]; /* by rail */
};

struct rd_verbs_regions {
	pthread_mutex_t lock;
	struct rd_verbs_region *all; /* under the lock */
	size_t count;
	_Atomic unsigned version; /* of `all` */
	/* The copy, for the thread that uses the endpoint. */
	struct rd_verbs_region *copy;
	size_t copied;
	unsigned copied_version;
};

void rd_verbs_regions_init(struct rd_verbs_regions *regions);
/* Removes all regions. */
void rd_verbs_regions_finish(
	struct rd_verbs_regions *regions, struct rd_verbs_rail *rails, int count);
/* In a forked child: frees the tables alone. */
void rd_verbs_regions_abandon(struct rd_verbs_regions *regions);

/* As attach() and detach() of struct rd_transport, for an endpoint of these rails. */
int rd_verbs_regions_add(struct rd_verbs_regions *regions, struct rd_verbs_rail *rails, int count,
	const struct rd_registration *registration);
void rd_verbs_regions_remove(
	struct rd_verbs_regions *regions, struct rd_verbs_rail *rails, int count, uint64_t id);

/* Renews the copy. True: it has changed. */
bool rd_verbs_regions_renew(struct rd_verbs_regions *regions);

/* The region that holds all of [at, at + size), or NULL. Valid until the next of these calls. */
const struct rd_verbs_region *rd_verbs_regions_find(
	struct rd_verbs_regions *regions, const void *at, size_t size);

#endif
