#include "comm/registration.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "device/region.h"

struct entry {
	struct rd_registration registration;
	enum rd_registration_kind kind;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static size_t entry_count, entry_capacity;
static struct rd_endpoint **endpoints;
static size_t endpoint_count, endpoint_capacity;
static uint64_t ids; /* given so far: even ones, as those of region.h are odd */
static bool warned;

/* ---- Forks --------------------------------------------------------------------------------- */

static void lock_for_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void unlock_in_child(void)
{
	endpoint_count = 0;
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_for_fork, unlock_in_parent, unlock_in_child);
}

static void enter(void)
{
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&lock);
}

static void leave(void)
{
	if (entry_count == 0) {
		free(entries);
		entries = NULL;
		entry_capacity = 0;
	}
	if (endpoint_count == 0) {
		free(endpoints);
		endpoints = NULL;
		endpoint_capacity = 0;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- With the lock ------------------------------------------------------------------------- */

/* Returns the table with room for one more; NULL: no memory, and the table is as it was. */
static void *with_room(void *table, size_t count, size_t *capacity, size_t element)
{
	size_t more = *capacity ? 2 * *capacity : 16;
	void *grown;

	if (count < *capacity)
		return table;
	grown = realloc(table, more * element);
	if (grown)
		*capacity = more;
	return grown;
}

/* Warns once: a limit that refuses one region mostly refuses all. */
static void attach(struct rd_endpoint *endpoint, const struct entry *entry)
{
	const struct rd_registration *registration = &entry->registration;

	if (entry->kind == RD_UNREACHABLE ||
		endpoint->transport->attach(endpoint, registration) == 0)
		return;
	rd_log(warned ? RD_INFO : RD_WARN, RD_NET,
		"%s cannot register %zu bytes at %p, and copies their messages: %s",
		endpoint->transport->name, registration->size, registration->base,
		rondo_last_error());
	warned = true;
}

static void detach(const struct entry *entry)
{
	for (size_t i = 0; i < endpoint_count && entry->kind != RD_UNREACHABLE; i++)
		endpoints[i]->transport->detach(endpoints[i], entry->registration.id);
}

static struct entry *overlapping(const void *at, size_t size)
{
	uintptr_t first = (uintptr_t)at;

	for (size_t i = 0; i < entry_count; i++) {
		uintptr_t base = (uintptr_t)entries[i].registration.base;

		if (first < base + entries[i].registration.size && base < first + size)
			return &entries[i];
	}
	return NULL;
}

static int refuse_overlap(
	const struct rd_registration *registration, const struct entry *entry, const char *function)
{
	return rd_fail(RONDO_INVALID, "%s: %zu bytes at %p overlap %zu bytes at %p, which %s",
		function, registration->size, registration->base, entry->registration.size,
		entry->registration.base,
		entry->kind == RD_ALLOCATED ? "Rondo allocated" : "are registered");
}

static int add(const struct rd_registration *registration, enum rd_registration_kind kind,
	const char *function)
{
	const struct entry *other = overlapping(registration->base, registration->size);
	struct entry *grown, *entry;

	if (other)
		return refuse_overlap(registration, other, function);
	grown = with_room(entries, entry_count, &entry_capacity, sizeof(*entries));
	if (!grown)
		return rd_fail(RONDO_MEMORY, "%s: no memory to note a region", function);
	entries = grown;
	entry = &entries[entry_count++];
	*entry = (struct entry){ *registration, kind };
	if (entry->registration.id == 0)
		entry->registration.id = ids += 2;
	for (size_t i = 0; i < endpoint_count; i++)
		attach(endpoints[i], entry);
	return 0;
}

static void join(struct rd_endpoint *endpoint)
{
	struct rd_endpoint **grown =
		with_room(endpoints, endpoint_count, &endpoint_capacity, sizeof(*endpoints));

	if (!grown) {
		rd_log(RD_WARN, RD_NET, "no memory to register memory with %s: it copies messages",
			endpoint->transport->name);
		return;
	}
	endpoints = grown;
	endpoints[endpoint_count++] = endpoint;
	for (size_t i = 0; i < entry_count; i++)
		attach(endpoint, &entries[i]);
}

/* ---- Functions ----------------------------------------------------------------------------- */

int rd_registration_add(const struct rd_registration *registration, enum rd_registration_kind kind,
	const char *function)
{
	enter();

	int err = add(registration, kind, function);

	leave();
	return err;
}

bool rd_registration_remove(const void *base)
{
	struct entry *entry;
	bool found;

	enter();
	entry = overlapping(base, 1);
	found = entry && entry->registration.base == base;
	if (found) {
		detach(entry);
		if (entry->registration.dmabuf_fd >= 0)
			close(entry->registration.dmabuf_fd);
		*entry = entries[--entry_count];
	}
	leave();
	return found;
}

bool rd_registration_find(
	const void *at, size_t size, struct rd_registration *found, enum rd_registration_kind *kind)
{
	const struct entry *entry;

	enter();
	entry = overlapping(at, size);
	if (entry) {
		*found = entry->registration;
		*kind = entry->kind;
	}
	leave();
	return entry;
}

int rd_registered_alloc(void **memory, size_t size)
{
	struct rd_region region;
	int err = rd_region_alloc(memory, size);

	if (err || !*memory)
		return err;
	rd_region_find(*memory, 1, &region);

	struct rd_registration added = { region.id, region.base, region.size, -1, 0 };

	err = rd_registration_add(&added, RD_ALLOCATED, "rondo_mem_alloc");
	if (err) {
		rd_region_free(*memory);
		*memory = NULL;
	}
	return err;
}

bool rd_registered_free(void *memory)
{
	struct rd_region region;

	if (!rd_region_find(memory, 1, &region) || region.base != memory)
		return false;
	rd_registration_remove(memory);
	return rd_region_free(memory);
}

static bool has_links(const struct rondo_comm *comm, const struct rd_endpoint *endpoint)
{
	for (int i = 0; i < comm->size * comm->channels; i++)
		if (comm->links[i] && comm->links[i]->transport == endpoint->transport)
			return true;
	return false;
}

void rd_registration_join(struct rondo_comm *comm)
{
	enter();
	for (int i = 0; i < comm->endpoint_count; i++)
		if (comm->endpoints[i]->transport->attach && has_links(comm, comm->endpoints[i]))
			join(comm->endpoints[i]);
	leave();
}

void rd_registration_leave(struct rondo_comm *comm)
{
	enter();
	for (size_t i = 0; i < endpoint_count;) {
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
