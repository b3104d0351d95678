/* The use that lib/device/cuda makes of the CUDA driver, as the tests' driver
   (tests/support/driver) sees it. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "api/stream.h"
#include "base/futex.h"
#include "device/device.h"
#include "device/device_stream.h"
#include "rondo.h"

static void *driver;

static void *find(const char *name)
{
	void *function = dlsym(driver, name);

	cr_assert(function, "%s", name);
	return function;
}

static void use_the_tests_driver(void)
{
	driver = dlopen("libcuda.so.1", RTLD_LAZY);
	if (!driver || !dlsym(driver, "emulated_load"))
		cr_skip_test("the tests' driver is not here");
	setenv("RONDO_DEVICE", "cuda", 1);
}

TestSuite(device_cuda, .init = use_the_tests_driver);

static void *stream_on(int device)
{
	void *stream;

	cr_assert_eq(rd_device(true)->stream_create(device, &stream), 0, "%s", rondo_last_error());
	return stream;
}

static int priority_of(void *stream)
{
	int (*get)(void *, int *), priority = 1;

	*(void **)&get = find("cuStreamGetPriority");
	cr_assert_eq(get(stream, &priority), 0);
	return priority;
}

Test(device_cuda, our_streams_have_the_greatest_priority)
{
	void *stream = stream_on(1);
	rondo_stream *users;

	cr_expect_eq(priority_of(stream), -5);
	rd_device(true)->stream_destroy(1, stream);
	cr_assert_eq(rondo_stream_create_on(&users, 0), 0, "%s", rondo_last_error());
	cr_expect_eq(priority_of(rd_stream_device_stream(users)->stream), -5);
	rondo_stream_destroy(users);
}

Test(device_cuda, a_capture_that_the_program_has_invalidated_is_known)
{
	const struct rd_device_ops *ops = rd_device(true);
	int (*begin)(void *, int), (*end)(void *, void **);
	void *stream = stream_on(0), *graph;

	*(void **)&begin = find("cuStreamBeginCapture_v2");
	*(void **)&end = find("cuStreamEndCapture");
	cr_expect_eq(ops->stream_captures(stream), RD_CAPTURE_NONE);
	cr_assert_eq(begin(stream, 1), 0);
	cr_expect_eq(ops->stream_captures(stream), RD_CAPTURE_ACTIVE);
	cr_expect_eq(ops->stream_synchronize(0, stream), RONDO_SYSTEM);
	cr_expect_eq(ops->stream_captures(stream), RD_CAPTURE_INVALIDATED);
	cr_expect_neq(end(stream, &graph), 0);
	cr_expect_eq(ops->stream_captures(stream), RD_CAPTURE_NONE);
	ops->stream_destroy(0, stream);
}

/* The tests' driver has no null stream. */
Test(device_cuda, memory_is_zeroed_without_the_null_stream)
{
	char *memory;

	for (int round = 0; round < 2; round++) {
		cr_assert_eq(
			rondo_mem_alloc_on((void **)&memory, 3000, 1), 0, "%s", rondo_last_error());
		for (int i = 0; i < 3000; i++)
			cr_assert_eq(memory[i], 0);
		memset(memory, 1, 3000);
		cr_expect_eq(rondo_mem_free(memory), 0);
	}
}

/* Two queues: the device's own stream has the first, this stream the second. */
Test(device_cuda, a_copy_on_no_stream_waits_for_no_other_stream, .timeout = 60)
{
	const struct rd_device_ops *ops;
	uint32_t *go = aligned_alloc(4096, 4096);
	void *stream, *memory;

	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1);
	ops = rd_device(true);
	stream = stream_on(0);
	*go = 0;
	cr_assert_eq(ops->share(0, go, 4096), 0, "%s", rondo_last_error());
	cr_assert_eq(rondo_mem_alloc_on(&memory, sizeof(int), 0), 0, "%s", rondo_last_error());
	cr_assert_eq(rd_stream_wait(ops, 0, stream, go, 1), 0, "%s", rondo_last_error());
	for (int i = 1; i < 5; i++) {
		int back = 0;

		cr_expect_eq(rondo_copy(memory, &i, sizeof(i), NULL), 0, "%s", rondo_last_error());
		cr_expect_eq(
			rondo_copy(&back, memory, sizeof(i), NULL), 0, "%s", rondo_last_error());
		cr_expect_eq(back, i);
	}
	rd_flag_write(go, 1);
	ops->stream_destroy(0, stream);
	ops->unshare(0, go);
	rondo_mem_free(memory);
	free(go);
}

/* A process that uses several devices learns which one it was. */
Test(device_cuda, a_lost_device_is_named)
{
	const struct rd_device_ops *ops;
	struct rd_work work = { .type = RONDO_U8 };
	void *stream;

	setenv("EMULATED_LAUNCHES", "1", 1);
	ops = rd_device(true);
	stream = stream_on(1);
	cr_assert_eq(ops->run(1, stream, &work), RONDO_SYSTEM);
	cr_expect_str_eq(rondo_last_error(),
		"device 1: cannot run a kernel: the emulated device is lost (CUDA error 719)");
	cr_assert_eq(ops->stream_synchronize(1, stream), RONDO_SYSTEM);
	cr_expect_str_eq(rondo_last_error(),
		"device 1: cannot wait for a stream: the emulated device is lost (CUDA error 719)");
	ops->stream_destroy(1, stream);
}
