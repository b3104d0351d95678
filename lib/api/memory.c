/* Memory, of the host and of devices: the functions of the public header that need no comm. */
#include <string.h>

#include "api/stream.h"
#include "base/error.h"
#include "comm/registration.h"
#include "device/device.h"
#include "device/device_stream.h"

int rondo_device_count(void)
{
	const struct rd_device_ops *ops = rd_device(true);

	return ops ? ops->count() : 0;
}

int rondo_mem_alloc(void **memory, size_t size)
{
	if (!memory)
		return rd_fail(RONDO_INVALID, "rondo_mem_alloc: memory is NULL");
	return rd_registered_alloc(memory, size);
}

int rondo_mem_alloc_on(void **memory, size_t size, int device)
{
	if (!memory)
		return rd_fail(RONDO_INVALID, "rondo_mem_alloc_on: memory is NULL");
	*memory = NULL;

	const struct rd_device_ops *ops = rd_device(true);

	if (!ops)
		return RONDO_UNSUPPORTED;
	return size > 0 ? ops->alloc(device, size, memory) : 0;
}

static int free_on_device(void *memory, const struct rd_allocation *allocation)
{
	enum rd_registration_kind kind;
	void *base;

	if (rd_registration_find(allocation->base, allocation->size, &base, &kind))
		return rd_fail(RONDO_INVALID,
			"rondo_mem_free: %p is registered: call rondo_mem_deregister() first",
			base);
	return rd_device(false)->free(memory);
}

int rondo_mem_free(void *memory)
{
	struct rd_allocation allocation;

	if (!memory || rd_registered_free(memory))
		return 0;
	if (rd_device(false) && rd_device(false)->find(memory, &allocation))
		return free_on_device(memory, &allocation);
	return rd_fail(RONDO_INVALID,
		"rondo_mem_free: %p is not the start of memory from rondo_mem_alloc", memory);
}

static bool copy_waits(const struct rd_device_ops *ops, const void *to, const void *from)
{
	struct rd_allocation allocation;

	return ops->pageable(to) || ops->pageable(from) ||
	       !(ops->find(to, &allocation) || ops->find(from, &allocation));
}

/*
 * A driver may hold its context's lock while a copy waits for the stream. A call in the stream may
 * wait for another thread of this process, which needs that lock to make its part of the call. So
 * this waits for the stream first, without the lock.
 */
static int copy_on(struct rd_device_stream *device_stream, void *to, const void *from, size_t size)
{
	const struct rd_device_ops *ops = device_stream->ops;
	int err = rd_device_check_capture(ops, device_stream->stream, "rondo_copy");

	if (!err && copy_waits(ops, to, from) && !ops->stream_captures(device_stream->stream))
		err = ops->stream_synchronize(device_stream->device, device_stream->stream);
	return err ? err : ops->copy(device_stream->device, device_stream->stream, to, from, size);
}

int rondo_copy(void *to, const void *from, size_t size, rondo_stream *stream)
{
	struct rd_device_stream *device_stream = rd_stream_device_stream(stream);
	struct rd_allocation allocation;

	if (size == 0)
		return 0;
	if (!to || !from)
		return rd_fail(RONDO_INVALID, "rondo_copy: %s is NULL", to ? "from" : "to");
	if (stream && !device_stream)
		return rd_fail(RONDO_INVALID, "rondo_copy: the stream is not a device's");
	if (device_stream)
		return copy_on(device_stream, to, from, size);
	if (!rd_is_device_memory(to, &allocation) && !rd_is_device_memory(from, &allocation)) {
		memmove(to, from, size);
		return 0;
	}
	if (!rd_device(false))
		return RONDO_UNSUPPORTED;
	return rd_device(false)->copy_now(allocation.device, to, from, size);
}
