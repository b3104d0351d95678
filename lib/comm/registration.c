#include "comm/registration.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork_lock.h"
#include "base/grow.h"
#include "base/log.h"
#include "device/device.h"
#include "device/region.h"

struct region {
	struct rd_registration registration; /* its dma-buf is open during attach() alone */
	enum rd_registration_kind kind;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rd_fork_lock lock = RD_FORK_LOCK(RD_FORK_REGISTRATIONS);
static struct region *regions;
static int region_count, region_capacity;
static struct rd_endpoint **endpoints;
static int endpoint_count, endpoint_capacity;
static uint64_t last_id;
static bool warned;

/* ---- Forks --------------------------------------------------------------------------------- */

/* The endpoints are the parent's. */
static void forget_endpoints(void)
{
	endpoint_count = 0;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forget_endpoints);
}

static void enter(void)
{
	pthread_once(&once, watch_forks);
	rd_fork_lock(&lock);
}

static void leave(void)
{
	if (region_count == 0) {
		free(regions);
		regions = NULL;
		region_capacity = 0;
	}
	if (endpoint_count == 0) {
		free(endpoints);
		endpoints = NULL;
		endpoint_capacity = 0;
	}
	rd_fork_unlock(&lock);
}

/* ---- With the lock ------------------------------------------------------------------------- */

/* A driver makes a dma-buf for each call: a descriptor for each region would be too many. */
static int attach_device(struct rd_endpoint *endpoint, struct rd_registration registration)
{
	const struct rd_device_ops *ops = rd_device(false);
	int err;

	if (!ops)
		return RONDO_UNSUPPORTED;
	err = ops->dmabuf(registration.base, registration.size, &registration.dmabuf_fd,
		&registration.dmabuf_offset);
	if (err)
		return err;
	err = endpoint->transport->attach(endpoint, &registration);
	close(registration.dmabuf_fd);
	return err;
}

/* Warns once: a limit that refuses one region mostly refuses all. */
static void attach(struct rd_endpoint *endpoint, const struct region *region)
{
	const struct rd_registration *registration = &region->registration;
	int err = region->kind == RD_REGISTERED_DEVICE
			  ? attach_device(endpoint, *registration)
			  : endpoint->transport->attach(endpoint, registration);

	if (!err)
		return;
	rd_log(warned ? RD_INFO : RD_WARN, RD_NET,
		"%s does not register %zu bytes at %p, and copies their messages: %s",
		endpoint->transport->name, registration->size, registration->base,
		rondo_last_error());
	warned = true;
}

static void detach(const struct region *region)
{
	for (int i = 0; i < endpoint_count; i++)
		endpoints[i]->transport->detach(endpoints[i], region->registration.id);
}

static struct region *overlapping(const void *at, size_t size)
{
	uintptr_t first = (uintptr_t)at;

	for (int i = 0; i < region_count; i++) {
		uintptr_t base = (uintptr_t)regions[i].registration.base;

		if (first < base + regions[i].registration.size && base < first + size)
			return &regions[i];
	}
	return NULL;
}

static int add(void *base, size_t size, enum rd_registration_kind kind, const char *function)
{
	const struct region *other = overlapping(base, size);

	if (other)
		return rd_fail(RONDO_INVALID,
			"%s: %zu bytes at %p overlap %zu bytes at %p, which %s", function, size,
			base, other->registration.size, other->registration.base,
			other->kind == RD_ALLOCATED ? "Rondo allocated" : "are registered");
	if (!rd_grow(&regions, region_count, &region_capacity, sizeof(*regions)))
		return rd_fail(RONDO_MEMORY, "%s: no memory to note a region", function);
	regions[region_count] = (struct region){ { ++last_id, base, size, -1, 0 }, kind };
	for (int i = 0; i < endpoint_count; i++)
		attach(endpoints[i], &regions[region_count]);
	region_count++;
	return 0;
}

static void join(struct rd_endpoint *endpoint)
{
	if (!rd_grow(&endpoints, endpoint_count, &endpoint_capacity, sizeof(*endpoints))) {
		rd_log(RD_WARN, RD_NET, "no memory to register memory with %s: it copies messages",
			endpoint->transport->name);
		return;
	}
	endpoints[endpoint_count++] = endpoint;
	for (int i = 0; i < region_count; i++)
		attach(endpoint, &regions[i]);
}

/* ---- Functions ----------------------------------------------------------------------------- */

int rd_registration_add(
	void *base, size_t size, enum rd_registration_kind kind, const char *function)
{
	enter();

	int err = add(base, size, kind, function);

	leave();
	return err;
}

bool rd_registration_remove(const void *base)
{
	struct region *region;
	bool found;

	enter();
	region = overlapping(base, 1);
	found = region && region->registration.base == base;
	if (found) {
		detach(region);
		*region = regions[--region_count];
	}
	leave();
	return found;
}

bool rd_registration_find(const void *at, size_t size, void **base, enum rd_registration_kind *kind)
{
	const struct region *region;

	enter();
	region = overlapping(at, size);
	if (region) {
		*base = region->registration.base;
		*kind = region->kind;
	}
	leave();
	return region;
}

int rd_registered_alloc(void **memory, size_t size)
{
	int err = rd_region_alloc(memory, size);

	if (err || !*memory)
		return err;
	err = rd_registration_add(*memory, size, RD_ALLOCATED, "rondo_mem_alloc");
	if (err) {
		rd_region_free(*memory);
		*memory = NULL;
	}
	return err;
}

bool rd_registered_free(void *memory)
{
	enum rd_registration_kind kind;
	void *base;

	if (!rd_registration_find(memory, 1, &base, &kind) || base != memory ||
		kind != RD_ALLOCATED)
		return false;
	rd_registration_remove(memory);
	return rd_region_free(memory);
}

static bool has_joined(const struct rd_endpoint *endpoint)
{
	for (int i = 0; i < endpoint_count; i++)
		if (endpoints[i] == endpoint)
			return true;
	return false;
}

void rd_registration_join(struct rondo_comm *comm, int endpoint)
{
	if (!comm->endpoints[endpoint]->transport->attach)
		return;
	enter();
	if (!has_joined(comm->endpoints[endpoint]))
		join(comm->endpoints[endpoint]);
	leave();
}

void rd_registration_leave(struct rondo_comm *comm)
{
	enter();
	for (int i = 0; i < endpoint_count;) {
		bool mine = false;

		for (int k = 0; k < comm->endpoint_count; k++)
			mine |= endpoints[i] == comm->endpoints[k];
		if (mine)
			endpoints[i] = endpoints[--endpoint_count];
		else
			i++;
	}
	leave();
}
