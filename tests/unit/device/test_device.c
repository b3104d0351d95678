/* ctest label: threads */
/* The device layer, on the tests' driver: memory, handles between processes, streams and their
   order. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "transports/contract/leaks.h"
#include "transports/contract/suite.h"
#include "device/device.h"
#include "device/device_stream.h"
#include "gpus.h"
#include "rondo.h"
#include "api/stream.h"
#include "base/futex.h"

static const struct rd_device_ops *use_devices(const char *gpus)
{
	use_tests_gpus(gpus);

	const struct rd_device_ops *ops = rd_device(true);

	cr_assert(ops, "%s", rondo_last_error());
	return ops;
}

static void *alloc_on(int device, size_t size)
{
	void *memory = NULL;

	cr_assert_eq(rondo_mem_alloc_on(&memory, size, device), 0, "%s", rondo_last_error());
	cr_assert(memory);
	return memory;
}

static void *stream_on(const struct rd_device_ops *ops, int device)
{
	void *stream = NULL;

	cr_assert_eq(ops->stream_create(device, &stream), 0, "%s", rondo_last_error());
	return stream;
}

#define MACHINE(name) RONDO_TOPOLOGIES "/" name ".json"

/* Eight GPUs in a ring of NVLinks, each the third from its neighbours by number. */
Test(device, a_machine_from_a_file_says_how_many_there_are_and_who_reaches_whom)
{
	const struct rd_device_ops *ops = use_devices(MACHINE("neighbours"));
	struct rd_handle handle;
	void *memory = alloc_on(7, 100), *mapped;
	size_t size;

	cr_expect_eq(rondo_device_count(), 8);
	cr_expect_eq(ops->pci(0), 0x1b00);
	cr_expect_eq(ops->pci(7), 0xdb00);
	for (int a = 0; a < 8; a++)
		for (int b = 0; b < 8; b++)
			if (a != b)
				cr_expect_eq(ops->peer(a, b) == 0,
					(a - b + 8) % 8 == 3 || (a - b + 8) % 8 == 5, "%d %d", a,
					b);
	cr_assert_eq(ops->export(memory, &handle), 0);
	cr_expect_eq(ops->import(3, &handle, &mapped, &size), RONDO_SYSTEM);
	cr_expect(
		strstr(rondo_last_error(), "device 3: cannot map another process's device memory"),
		"%s", rondo_last_error());
	cr_assert_eq(ops->import(2, &handle, &mapped, &size), 0, "%s", rondo_last_error());
	ops->drop(2, mapped);
	rondo_mem_free(memory);
}

Test(device, memory_is_zeroed_and_found_from_its_first_byte_to_its_last)
{
	const struct rd_device_ops *ops = use_devices("2");
	size_t size = 3 * (size_t)sysconf(_SC_PAGESIZE);
	char *memory = alloc_on(1, size);
	struct rd_allocation allocation;

	for (size_t i = 0; i < size; i++)
		cr_assert_eq(memory[i], 0);
	cr_assert(ops->find(memory, &allocation));
	cr_expect_eq(allocation.device, 1);
	cr_expect_eq(allocation.base, memory);
	cr_expect_eq(allocation.size, size);
	cr_expect(ops->find(memory + size - 1, &allocation));
	cr_expect_not(ops->find(memory + size, &allocation));
	cr_expect_not(ops->find(memory - 1, &allocation));
	cr_expect_not(ops->find(&allocation, &allocation));
	cr_expect_eq(rondo_mem_free(memory), 0);
	cr_expect_not(ops->find(memory, &allocation));
	cr_expect_eq(rondo_mem_free(memory), RONDO_INVALID);
}

Test(device, memory_allocated_again_has_another_id)
{
	const struct rd_device_ops *ops = use_devices("1");
	struct rd_allocation first, second;
	void *memory = alloc_on(0, 100);

	cr_assert(ops->find(memory, &first));
	rondo_mem_free(memory);
	memory = alloc_on(0, 100);
	cr_assert(ops->find(memory, &second));
	cr_expect_neq(first.id, second.id);
	rondo_mem_free(memory);
}

Test(device, one_that_is_not_there_is_an_error)
{
	const struct rd_device_ops *ops = use_devices("2");
	void *memory;
	rondo_stream *stream;

	cr_expect_eq(rondo_mem_alloc_on(&memory, 8, 2), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "there is no device 2"), "%s", rondo_last_error());
	cr_expect_eq(rondo_mem_alloc_on(&memory, 8, -1), RONDO_INVALID);
	cr_expect_eq(rondo_stream_create_on(&stream, 2), RONDO_INVALID);
	cr_expect_eq(rondo_mem_alloc_on(&memory, SIZE_MAX, 0), RONDO_MEMORY);
	(void)ops;
}

/* ---- Handles ------------------------------------------------------------------------------- */

static int use_handle(const struct rd_device_ops *ops, const struct rd_handle *handle)
{
	void *base;
	size_t size;

	if (ops->import(0, handle, &base, &size))
		return 1;
	int wrong = strcmp((char *)base + 5, "hello") != 0;

	strcpy((char *)base + 5, "there");
	ops->drop(0, base);
	return wrong;
}

Test(device, a_handle_maps_the_same_bytes_in_another_process, .timeout = 60)
{
	const struct rd_device_ops *ops = use_devices("2");
	int gate[2], status;

	cr_assert_eq(pipe(gate), 0);

	pid_t pid = fork();

	if (pid == 0) {
		struct rd_handle handle;

		_exit(read(gate[0], &handle, sizeof(handle)) == sizeof(handle)
				? use_handle(ops, &handle)
				: 2);
	}
	/* Allocated after the fork: it can have it by the handle alone. */
	char *memory = alloc_on(1, 100);
	struct rd_handle handle;

	strcpy(memory + 5, "hello");
	cr_assert_eq(ops->export(memory, &handle), 0);
	cr_assert_eq(write(gate[1], &handle, sizeof(handle)), (ssize_t)sizeof(handle));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	cr_expect_str_eq(memory + 5, "there");
	rondo_mem_free(memory);
}

Test(device, a_handle_that_is_none_is_refused_and_leaves_nothing)
{
	const struct rd_device_ops *ops = use_devices("1");
	int files = contract_open_files(), maps = contract_shared_maps();
	char *memory = alloc_on(0, 100);
	struct rd_handle handle, broken;
	void *base;
	size_t size;

	cr_assert_eq(ops->export(memory, &handle), 0);
	cr_expect_neq(ops->export(memory + 1, &broken), 0);
	rondo_mem_free(memory);
	cr_expect_neq(ops->import(2, &handle, &base, &size), 0);
	memset(&broken, 0xff, sizeof(broken));
	cr_expect_neq(ops->import(0, &broken, &base, &size), 0);
	cr_expect_eq(contract_open_files(), files);
	cr_expect_eq(contract_shared_maps(), maps);
}

Test(device, without_handles_none_is_given)
{
	const struct rd_device_ops *ops = use_devices("1,no-handles");
	char *memory = alloc_on(0, 100);
	struct rd_handle handle;

	cr_expect_eq(ops->export(memory, &handle), RONDO_SYSTEM);
	rondo_mem_free(memory);
}

/* ---- Streams ------------------------------------------------------------------------------- */

/* A page of words that devices address. */
static uint32_t *flags_on(const struct rd_device_ops *ops)
{
	uint32_t *flags =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert(flags != MAP_FAILED);
	cr_assert_eq(ops->share(0, flags, 4096), 0, "%s", rondo_last_error());
	return flags;
}

/* Whether a flag stays 0 for longer than a stream takes that does not wait as it should. */
static bool stays_zero(const uint32_t *flag)
{
	for (int i = 0; i < 20 && !__atomic_load_n(flag, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	return !__atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

Test(device, a_stream_does_its_work_in_order_and_waits_for_flags)
{
	const struct rd_device_ops *ops = use_devices("1");
	void *stream = stream_on(ops, 0);
	uint32_t *go = flags_on(ops), *gone = go + 1;
	char *a = alloc_on(0, 8), *b = alloc_on(0, 8), *c = alloc_on(0, 8);

	strcpy(a, "first");
	/* b gets the value of a when the flag is written; c the value of b at that time. */
	cr_assert_eq(rd_stream_wait(ops, 0, stream, go, 1), 0);
	cr_assert_eq(ops->copy(0, stream, b, a, 8), 0);
	cr_assert_eq(ops->copy(0, stream, c, b, 8), 0);
	cr_assert_eq(rd_stream_write(ops, 0, stream, gone, 7), 0);
	cr_expect(stays_zero(gone));
	strcpy(a, "second");
	rd_flag_write(go, 1);
	cr_assert_eq(ops->stream_synchronize(0, stream), 0);
	cr_expect_str_eq(c, "second");
	cr_expect_eq(*gone, 7);
	ops->stream_destroy(0, stream);
	rondo_mem_free(a);
	rondo_mem_free(b);
	rondo_mem_free(c);
}

Test(device, words_count_in_circles)
{
	const struct rd_device_ops *ops = use_devices("1");
	void *stream = stream_on(ops, 0);
	uint32_t *go = flags_on(ops), *gone = go + 1;

	*go = UINT32_MAX - 1;
	cr_assert_eq(rd_stream_wait(ops, 0, stream, go, 1), 0);
	cr_assert_eq(rd_stream_write(ops, 0, stream, gone, 1), 0);
	rd_flag_write(go, UINT32_MAX);
	cr_expect(stays_zero(gone));
	rd_flag_write(go, 2);
	cr_assert_eq(ops->stream_synchronize(0, stream), 0);
	cr_expect_eq(*gone, 1);
	ops->stream_destroy(0, stream);
}

Test(device, a_stream_that_follows_another_comes_after_it)
{
	const struct rd_device_ops *ops = use_devices("1");
	void *first = stream_on(ops, 0), *second = stream_on(ops, 0);
	uint32_t *go = flags_on(ops), *gone = go + 1;

	cr_assert_eq(rd_stream_wait(ops, 0, first, go, 1), 0);
	cr_assert_eq(ops->stream_follow(0, second, first), 0);
	cr_assert_eq(rd_stream_write(ops, 0, second, gone, 1), 0);
	/* Later work on the first stream is not waited for. */
	cr_assert_eq(rd_stream_wait(ops, 0, first, go, 2), 0);
	cr_expect(stays_zero(gone));
	rd_flag_write(go, 1);
	cr_assert_eq(ops->stream_synchronize(0, second), 0);
	cr_expect_eq(*gone, 1);
	rd_flag_write(go, 2);
	ops->stream_destroy(0, first);
	ops->stream_destroy(0, second);
}

/* Two events, and in between a gate that is shut for two milliseconds at least. */
Test(device, events_time_what_runs_between_them, .timeout = 60)
{
	const struct rd_device_ops *ops = use_devices("2");
	rondo_event *first, *last, *never;
	rondo_stream *stream, *other, *host;
	uint32_t *gate = flags_on(ops), *reached = gate + 1;
	double us = -1;

	cr_assert_eq(rondo_stream_create_on(&stream, 1), 0);
	cr_assert_eq(rondo_stream_create_on(&other, 0), 0);
	cr_assert_eq(rondo_stream_create(&host), 0);
	cr_assert_eq(rondo_event_create(&first, 1), 0);
	cr_assert_eq(rondo_event_create(&last, 1), 0);
	cr_assert_eq(rondo_event_create(&never, 1), 0);

	struct rd_device_stream *device_stream = rd_stream_device_stream(stream);

	for (int round = 1; round <= 2; round++) {
		int64_t began = rd_clock_ns(), shut;

		cr_assert_eq(rondo_event_record(first, stream), 0);
		rd_stream_write(ops, 1, device_stream->stream, reached, (uint32_t)round);
		rd_stream_wait(ops, 1, device_stream->stream, gate, (uint32_t)round);
		cr_assert_eq(rondo_event_record(last, stream), 0);
		while (!rd_flag_reached(reached, (uint32_t)round))
			rd_flag_sleep(reached, (uint32_t)round - 1, 1000000);
		for (shut = rd_clock_ns(); rd_clock_ns() - shut < 2000000;)
			;
		rd_flag_write(gate, (uint32_t)round);
		cr_assert_eq(rondo_event_elapsed(first, last, &us), 0);
		cr_expect_geq(us, 2000);
		cr_expect_leq(us, (double)(rd_clock_ns() - began) / 1e3);
	}
	cr_expect_eq(rondo_event_elapsed(first, never, &us), RONDO_INVALID);
	cr_expect_eq(rondo_event_record(first, other), RONDO_INVALID);
	cr_expect_eq(rondo_event_record(first, host), RONDO_INVALID);
	rondo_event_destroy(first);
	cr_expect_eq(rondo_event_create(&first, 2), RONDO_INVALID);
	cr_expect_null(first);
	rondo_event_destroy(last);
	rondo_event_destroy(never);
	rondo_stream_destroy(stream);
	rondo_stream_destroy(other);
	rondo_stream_destroy(host);
}

Test(device, streams_leave_nothing_behind)
{
	const struct rd_device_ops *ops = use_devices("4");
	int files = contract_open_files();
	uint32_t *flag = flags_on(ops);

	for (uint32_t i = 1; i <= 20; i++) {
		void *stream = stream_on(ops, i % 4);

		rd_stream_write(ops, 0, stream, flag, i);
		ops->stream_destroy(0, stream);
		cr_assert_eq(*flag, i);
	}
	cr_expect_eq(contract_open_files(), files);
}

Test(device, a_query_of_a_stream_does_not_wait)
{
	const struct rd_device_ops *ops = use_devices("1");
	/* Memory that is registered orders the streams that are there: this one comes later. */
	uint32_t *go = flags_on(ops);
	void *stream = stream_on(ops, 0);
	rondo_stream *wrapped;

	cr_assert_eq(rondo_stream_wrap(&wrapped, stream, 0), 0);
	cr_expect_eq(rondo_stream_query(wrapped), 0);
	cr_assert_eq(rd_stream_wait(ops, 0, stream, go, 1), 0);
	cr_expect_eq(rondo_stream_query(wrapped), RONDO_PENDING);
	rd_flag_write(go, 1);
	cr_assert_eq(rondo_stream_synchronize(wrapped), 0);
	cr_expect_eq(rondo_stream_query(wrapped), 0);
	rondo_stream_destroy(wrapped);
	ops->stream_destroy(0, stream);
}

Test(device, copies_go_between_all_memory_in_a_streams_order)
{
	const struct rd_device_ops *ops = use_devices("2");
	char *here = alloc_on(0, 8), *there = alloc_on(1, 8), host[8] = "abc", back[8] = "";
	rondo_stream *stream, *host_stream;

	cr_assert_eq(rondo_stream_create_on(&stream, 0), 0);
	cr_assert_eq(rondo_stream_create(&host_stream), 0);
	cr_expect_eq(rondo_copy(here, host, 8, NULL), 0);
	cr_expect_eq(rondo_copy(there, here, 8, stream), 0);
	cr_expect_eq(rondo_copy(back, there, 8, stream), 0);
	cr_expect_eq(rondo_stream_synchronize(stream), 0);
	cr_expect_str_eq(back, "abc");
	cr_expect_eq(rondo_copy(back, here, 8, host_stream), RONDO_INVALID);
	cr_expect_eq(rondo_copy(NULL, here, 8, NULL), RONDO_INVALID);
	rondo_stream_destroy(stream);
	rondo_stream_destroy(host_stream);
	rondo_mem_free(here);
	rondo_mem_free(there);
	(void)ops;
}

Test(device, a_stream_of_another_device_cannot_be_wrapped)
{
	const struct rd_device_ops *ops = use_devices("2");
	void *theirs = stream_on(ops, 1);
	rondo_stream *stream;

	cr_expect_eq(rondo_stream_wrap(&stream, theirs, 0), RONDO_INVALID);
	cr_expect_null(stream);
	cr_assert_eq(rondo_stream_wrap(&stream, theirs, 1), 0);
	cr_expect_eq(rondo_stream_call(stream, free, NULL), RONDO_UNSUPPORTED);
	rondo_stream_destroy(stream);
	/* It is still theirs. */
	cr_expect_eq(ops->stream_synchronize(1, theirs), 0);
	ops->stream_destroy(1, theirs);
}
