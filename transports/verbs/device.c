#include "transports/verbs/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/fork_lock.h"

static struct rd_fork_lock lock = RD_FORK_LOCK(RD_FORK_DEVICES);
static struct rd_verbs_device *devices;

static struct ibv_context *open_context(const char *name)
{
	int taken = rd_stderr_fill(), count = 0;
	struct ibv_device **list = rd_verbs.get_device_list(&count);
	struct ibv_context *context = NULL;

	errno = list ? ENODEV : errno;
	for (int i = 0; i < count && !context; i++)
		if (strcmp(rd_verbs.get_device_name(list[i]), name) == 0)
			context = rd_verbs.open_device(list[i]);
	rd_stderr_free(taken);
	if (list)
		rd_verbs.free_device_list(list);
	return context;
}

static int open_device(struct rd_verbs_device *device)
{
	int flags, err;

	device->context = open_context(device->name);
	if (!device->context)
		return rd_fail_errno("cannot open the RDMA device %s (is /dev/infiniband here, "
				     "and its provider installed?)",
			device->name);
	device->pd = rd_verbs.alloc_pd(device->context);
	if (!device->pd)
		return rd_fail_errno("%s has no protection domain", device->name);
	err = rd_verbs.query_device(device->context, &device->limits);
	if (err) {
		errno = err;
		return rd_fail_errno("%s does not report its limits", device->name);
	}
	flags = fcntl(device->context->async_fd, F_GETFL);
	if (flags < 0 || fcntl(device->context->async_fd, F_SETFL, flags | O_NONBLOCK))
		return rd_fail_errno("%s: its events would block", device->name);
	return 0;
}

static void close_device(struct rd_verbs_device *device)
{
	if (device->pd)
		rd_verbs.dealloc_pd(device->pd);
	if (device->context)
		rd_verbs.close_device(device->context);
	free(device);
}

static struct rd_verbs_device *find_device(const char *name)
{
	for (struct rd_verbs_device *one = devices; one; one = one->next)
		if (strcmp(one->name, name) == 0 && !rd_is_inherited(one->forks))
			return one;
	return NULL;
}

static int add_device(const char *name, struct rd_verbs_device **result)
{
	struct rd_verbs_device *device = calloc(1, sizeof(*device));
	int err;

	if (!device)
		return rd_fail(RONDO_MEMORY, "no memory for the RDMA device %s", name);
	strncpy(device->name, name, sizeof(device->name) - 1);
	err = open_device(device);
	if (err) {
		close_device(device);
		return err;
	}
	device->forks = rd_process.forks;
	device->next = devices;
	devices = device;
	*result = device;
	return 0;
}

int rd_verbs_device_get(const char *name, struct rd_verbs_device **device)
{
	int err = rd_verbs_library_load();

	if (!err)
		err = rd_forks_watch();
	if (err)
		return err;
	rd_fork_lock(&lock);
	*device = find_device(name);
	if (!*device)
		err = add_device(name, device);
	if (!err)
		(*device)->references++;
	rd_fork_unlock(&lock);
	return err;
}

static void remove_device(struct rd_verbs_device *device)
{
	struct rd_verbs_device **at = &devices;

	while (*at != device)
		at = &(*at)->next;
	*at = device->next;
}

void rd_verbs_device_put(struct rd_verbs_device *device)
{
	if (!device)
		return;
	rd_fork_lock(&lock);
	if (--device->references == 0) {
		remove_device(device);
		close_device(device);
	}
	rd_fork_unlock(&lock);
}

/* ibv_close_device() may ask the kernel to free what is the parent's, so only the process's own
   memory is left over. */
void rd_verbs_device_abandon(struct rd_verbs_device *device)
{
	rd_fork_lock(&lock);
	if (--device->references == 0) {
		remove_device(device);
		close(device->context->async_fd);
		close(device->context->cmd_fd);
		free(device);
	}
	rd_fork_unlock(&lock);
}

void rd_verbs_device_lock(void)
{
	rd_fork_lock(&lock);
}

void rd_verbs_device_unlock(void)
{
	rd_fork_unlock(&lock);
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* A registration that endpoints share. */
struct rd_verbs_shared {
	struct rd_registration of;
	struct ibv_mr *region;
	bool writable;
	unsigned references;
	struct rd_verbs_shared *next;
};

#define WRITABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static int fail_register(const struct rd_verbs_device *device, size_t size)
{
	return rd_fail(RONDO_MEMORY,
		"%s cannot register %zu bytes: %s (`ulimit -l` is the limit of locked memory)",
		device->name, size, strerror(errno));
}

int rd_verbs_register(
	struct rd_verbs_device *device, void *memory, size_t size, struct ibv_mr **region)
{
	*region = rd_verbs.reg_mr(device->pd, memory, size, WRITABLE);
	return *region ? 0 : fail_register(device, size);
}

static void register_shared(const struct rd_verbs_device *device,
	const struct rd_registration *registration, struct rd_verbs_shared *shared)
{
	void *base = registration->base;
	size_t size = registration->size;

	shared->writable = true;
	if (registration->dmabuf_fd >= 0)
		shared->region = rd_verbs.reg_dmabuf_mr(device->pd, registration->dmabuf_offset,
			size, (uintptr_t)base, registration->dmabuf_fd, WRITABLE);
	else
		shared->region = rd_verbs.reg_mr(device->pd, base, size, WRITABLE);
	if (shared->region || registration->dmabuf_fd >= 0 || (errno != EFAULT && errno != EACCES))
		return;
	shared->writable = false;
	shared->region = rd_verbs.reg_mr(device->pd, base, size, 0);
}

static struct rd_verbs_shared *find_shared(
	const struct rd_verbs_device *device, const struct rd_registration *registration)
{
	for (struct rd_verbs_shared *one = device->shared; one; one = one->next)
		if (one->of.id == registration->id && one->of.base == registration->base &&
			one->of.size == registration->size)
			return one;
	return NULL;
}

static struct rd_verbs_shared *add_shared(
	struct rd_verbs_device *device, const struct rd_registration *registration)
{
	struct rd_verbs_shared *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return NULL;
	shared->of = *registration;
	register_shared(device, registration, shared);
	if (!shared->region) {
		free(shared);
		return NULL;
	}
	shared->next = device->shared;
	device->shared = shared;
	return shared;
}

int rd_verbs_device_share(struct rd_verbs_device *device,
	const struct rd_registration *registration, struct ibv_mr **region, bool *writable)
{
	struct rd_verbs_shared *shared;
	int err = 0;

	rd_fork_lock(&lock);
	shared = find_shared(device, registration);
	if (!shared)
		shared = add_shared(device, registration);
	if (shared) {
		shared->references++;
		*region = shared->region;
		*writable = shared->writable;
	} else {
		err = fail_register(device, registration->size);
	}
	rd_fork_unlock(&lock);
	return err;
}

void rd_verbs_device_unshare(struct rd_verbs_device *device, struct ibv_mr *region)
{
	struct rd_verbs_shared **at = &device->shared, *shared;

	rd_fork_lock(&lock);
	while ((*at)->region != region)
		at = &(*at)->next;
	shared = *at;
	if (--shared->references == 0) {
		*at = shared->next;
		rd_verbs.dereg_mr(shared->region);
		free(shared);
	}
	rd_fork_unlock(&lock);
}
