#include "allocations.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "gpus.h"

/* An allocation of ours, or another process's that is mapped here (then imported). */
struct mapping {
	struct mapping *next;
	struct allocation allocation;
	int fd;
	bool imported, has_handle;
};

/* The bytes of a handle. */
struct handle_data {
	int64_t pid, fd, device;
	uint64_t id, size;
};

_Static_assert(sizeof(struct handle_data) <= sizeof(CUipcMemHandle), "its bytes fit in a handle");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings;
static uint64_t last_id;
static bool handles = true;

void allocations_give_handles(bool given)
{
	pthread_mutex_lock(&lock);
	handles = given;
	pthread_mutex_unlock(&lock);
}

bool allocation_find(const void *at, struct allocation *allocation)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (const struct mapping *mapping = mappings; mapping && !found; mapping = mapping->next) {
		const struct allocation *candidate = &mapping->allocation;

		found = (const char *)at >= candidate->base &&
			(const char *)at < candidate->base + candidate->size;
		if (found)
			*allocation = *candidate;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static int map_memory(struct mapping *mapping)
{
	struct allocation *allocation = &mapping->allocation;

	allocation->base =
		mmap(NULL, allocation->size, PROT_READ | PROT_WRITE, MAP_SHARED, mapping->fd, 0);
	if (allocation->base == MAP_FAILED)
		return 1;
	pthread_mutex_lock(&lock);
	if (!mapping->imported)
		allocation->id = ++last_id;
	mapping->has_handle = handles;
	mapping->next = mappings;
	mappings = mapping;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int create_memory(struct mapping *mapping)
{
	mapping->fd = rd_above_stderr(memfd_create("rondo-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	return mapping->fd < 0 || ftruncate(mapping->fd, (off_t)mapping->allocation.size) < 0 ||
	       fcntl(mapping->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
	       map_memory(mapping);
}

static struct mapping *mapping_create(int device, size_t size)
{
	struct mapping *mapping = calloc(1, sizeof(*mapping));

	if (!mapping)
		return NULL;
	mapping->fd = -1;
	mapping->allocation.device = device;
	mapping->allocation.size = size;
	return mapping;
}

static void mapping_destroy(struct mapping *mapping)
{
	if (mapping->fd >= 0)
		close(mapping->fd);
	free(mapping);
}

void *allocation_create(int device, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct mapping *mapping;

	if (size > SIZE_MAX / 2)
		return NULL;
	mapping = mapping_create(device, (size + page - 1) / page * page);
	if (mapping && !create_memory(mapping))
		return mapping->allocation.base;
	if (mapping)
		mapping_destroy(mapping);
	return NULL;
}

static int unmap(const void *base, bool imported)
{
	struct mapping **at = &mappings, *gone;

	pthread_mutex_lock(&lock);
	while (*at && ((*at)->allocation.base != base || (*at)->imported != imported))
		at = &(*at)->next;
	gone = *at;
	if (gone)
		*at = gone->next;
	pthread_mutex_unlock(&lock);
	if (!gone)
		return 1;
	munmap(gone->allocation.base, gone->allocation.size);
	mapping_destroy(gone);
	return 0;
}

int allocation_destroy(void *base)
{
	return unmap(base, false);
}

void allocation_drop(void *base)
{
	unmap(base, true);
}

/* ---- Handles ------------------------------------------------------------------------------- */

static int read_handle(const void *base, struct handle_data *data)
{
	int err = 1;

	pthread_mutex_lock(&lock);
	for (const struct mapping *mapping = mappings; mapping; mapping = mapping->next) {
		const struct allocation *ours = &mapping->allocation;

		if (ours->base != base || mapping->imported || !mapping->has_handle)
			continue;
		*data = (struct handle_data){ getpid(), mapping->fd, ours->device, ours->id,
			ours->size };
		err = 0;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

int allocation_export(const void *base, CUipcMemHandle *handle)
{
	struct handle_data data;
	int err = read_handle(base, &data);

	memset(handle, 0, sizeof(*handle));
	if (!err)
		memcpy(handle, &data, sizeof(data));
	return err;
}

/* The file's size is sealed, and may not be what the handle says. */
static int open_memory(struct mapping *mapping, const struct handle_data *data)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)data->pid,
		(long long)data->fd);
	mapping->fd = rd_above_stderr(open(path, O_RDWR | O_CLOEXEC));
	return mapping->fd < 0 || fstat(mapping->fd, &status) < 0 ||
	       (uint64_t)status.st_size != data->size ||
	       !(fcntl(mapping->fd, F_GET_SEALS) & F_SEAL_SHRINK) || map_memory(mapping);
}

void *allocation_import(int device, const CUipcMemHandle *handle)
{
	struct handle_data data;
	struct mapping *mapping;

	memcpy(&data, handle, sizeof(data));
	if (!gpus_reach(device, (int)data.device))
		return NULL;
	mapping = mapping_create((int)data.device, data.size);
	if (!mapping)
		return NULL;
	mapping->imported = true;
	if (!open_memory(mapping, &data))
		return mapping->allocation.base;
	mapping_destroy(mapping);
	return NULL;
}

int allocation_file(const struct allocation *allocation)
{
	struct handle_data data;

	if (read_handle(allocation->base, &data))
		return -1;
	return fcntl((int)data.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}
