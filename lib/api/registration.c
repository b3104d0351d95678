/* Registration of memory that Rondo did not allocate. */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/registration.h"
#include "device/device.h"

/* MS_ASYNC starts no output on Linux; it fails where a page is not mapped. */
static int check_mapped(void *memory, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)memory / page * page;

	if (msync((void *)first, (uintptr_t)memory - first + size, MS_ASYNC) == 0)
		return 0;
	if (errno == ENOMEM)
		return rd_fail(RONDO_INVALID,
			"rondo_mem_register: not all of %zu bytes at %p are mapped", size, memory);
	return rd_fail_errno("rondo_mem_register: cannot look at %zu bytes at %p", size, memory);
}

static int check_allocation(void *memory, size_t size, const struct rd_allocation *allocation)
{
	if (allocation->device < 0)
		return rd_fail(RONDO_UNSUPPORTED,
			"rondo_mem_register: %p is device memory, and this build has no devices",
			memory);
	if (size > allocation->size - (size_t)((char *)memory - allocation->base))
		return rd_fail(RONDO_INVALID,
			"rondo_mem_register: %zu bytes at %p exceed their allocation, %zu bytes at "
			"%p of device %d",
			size, memory, allocation->size, (void *)allocation->base,
			allocation->device);
	return 0;
}

int rondo_mem_register(void *memory, size_t size)
{
	struct rd_allocation allocation;
	bool on_device;
	int err;

	if (!memory)
		return rd_fail(RONDO_INVALID, "rondo_mem_register: memory is NULL");
	if (size == 0 || size > UINTPTR_MAX - (uintptr_t)memory)
		return rd_fail(RONDO_INVALID, "rondo_mem_register: %zu bytes at %p are no memory",
			size, memory);
	on_device = rd_is_device_memory(memory, &allocation);
	err = on_device ? check_allocation(memory, size, &allocation) : check_mapped(memory, size);
	if (err)
		return err;
	return rd_registration_add(memory, size, on_device ? RD_REGISTERED_DEVICE : RD_REGISTERED,
		"rondo_mem_register");
}

int rondo_mem_deregister(void *memory)
{
	enum rd_registration_kind kind;
	void *base;

	if (!memory || !rd_registration_find(memory, 1, &base, &kind) || base != memory)
		return rd_fail(RONDO_INVALID, "rondo_mem_deregister: no registration begins at %p",
			memory);
	if (kind == RD_ALLOCATED)
		return rd_fail(RONDO_INVALID,
			"rondo_mem_deregister: %p is from rondo_mem_alloc(): use rondo_mem_free()",
			memory);
	if (!rd_registration_remove(memory))
		return rd_fail(RONDO_INVALID,
			"rondo_mem_deregister: another thread has ended the registration at %p",
			memory);
	return 0;
}
