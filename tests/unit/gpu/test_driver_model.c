/* ctest label: threads */
/*
 * The tests' driver (tests/support/driver) waits where a CUDA driver does: its hardware queues, its
 * launch queue, the context's lock, and room for blocks. Each test has something wait for a flag of
 * its own, and checks that the flag was set when it went on.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/futex.h"
#include "cuda_calls.h"

/* The time in which something that need not wait has most likely gone on. */
#define GRACE_MS 200
#define BOUND_MS 20000
/* CU_STREAM_WAIT_VALUE_GEQ, CU_STREAM_NON_BLOCKING, CU_EVENT_DISABLE_TIMING */
#define GEQ 0
#define NON_BLOCKING 1
#define NO_TIMING 2
#define MULTIPROCESSOR_COUNT 16
#define LAUNCH_TIMEOUT 702
#define QUEUED_MAX 1024

static struct cuda_calls cuda;
static uint32_t *go, *started, *stop; /* pinned */

/* Streams are on hardware queues 0, 1, 0 where there are two of them. */
static void *a, *b, *c;

static void use_the_tests_driver(void)
{
	if (!cuda_calls_find(&cuda))
		cr_skip_test("the tests' driver is not here");
}

TestSuite(driver_model, .init = use_the_tests_driver, .timeout = 60);

static void begin(const char *connections)
{
	void *pinned;

	setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1);
	cr_assert_eq(cuda_calls_open(&cuda, 0), 0);
	cr_assert_eq(cuda.alloc_host(&pinned, 4096), 0);
	memset(pinned, 0, 4096);
	go = pinned;
	started = go + 1;
	stop = go + 2;
	cr_assert_eq(cuda.stream_create(&a, NON_BLOCKING), 0);
	cr_assert_eq(cuda.stream_create(&b, NON_BLOCKING), 0);
	cr_assert_eq(cuda.stream_create(&c, NON_BLOCKING), 0);
}

/* On device 1, in tests of two devices. */
static void *stream_elsewhere;

static void end(void)
{
	/* All that waits goes on. */
	rd_flag_write(go, 1);
	rd_flag_write(stop, 1);
	cr_expect_eq(cuda.stream_destroy(a), 0);
	cr_expect_eq(cuda.stream_destroy(b), 0);
	cr_expect_eq(cuda.stream_destroy(c), 0);
	if (stream_elsewhere)
		cr_expect_eq(cuda.stream_destroy(stream_elsewhere), 0);
	cr_expect_eq(cuda.free_host(go), 0);
}

static bool wait_for_flag(const uint32_t *flag, int bound_ms)
{
	for (int ms = 0; ms < bound_ms && !rd_flag_reached(flag, 1); ms++)
		rd_flag_sleep(flag, 0, 1000000);
	return rd_flag_reached(flag, 1);
}

/* ---- Points of streams --------------------------------------------------------------------- */

/* A stream passes it; the flag as it was then. */
struct point {
	const uint32_t *flag;
	uint32_t passed, saw;
};

static void pass(void *argument)
{
	struct point *point = argument;

	point->saw = __atomic_load_n(point->flag, __ATOMIC_ACQUIRE);
	rd_flag_write(&point->passed, 1);
}

static void queue_point(struct point *point, void *stream, const uint32_t *flag)
{
	*point = (struct point){ .flag = flag };
	cr_assert_eq(cuda.host_call(stream, pass, point), 0);
}

/* The stream passes the point, but not before the flag is set. */
static void expect_held_up(struct point *point)
{
	wait_for_flag(&point->passed, GRACE_MS);
	rd_flag_write((uint32_t *)point->flag, 1);
	cr_assert(wait_for_flag(&point->passed, BOUND_MS));
	cr_expect_eq(point->saw, 1, "it was passed too early");
}

/* The stream passes the point with the flag not set. */
static void expect_free(struct point *point)
{
	cr_assert(wait_for_flag(&point->passed, BOUND_MS), "it is held up");
	cr_expect_eq(point->saw, 0);
}

static void hold_up_a(void)
{
	cr_assert_eq(cuda.wait_value(a, go, 1, GEQ), 0);
}

/* ---- Hardware queues ----------------------------------------------------------------------- */

Test(driver_model, a_wait_in_front_holds_up_the_streams_of_its_queue)
{
	struct point other, same;

	begin("2");
	hold_up_a();
	queue_point(&same, c, go);
	queue_point(&other, b, go);
	expect_free(&other);
	expect_held_up(&same);
	end();
}

Test(driver_model, all_streams_share_the_only_queue)
{
	struct point point;

	begin("1");
	hold_up_a();
	queue_point(&point, b, go);
	expect_held_up(&point);
	end();
}

Test(driver_model, a_wait_for_an_event_holds_up_its_queue)
{
	struct point point;
	void *event;

	begin("2");
	cr_assert_eq(cuda.event_create(&event, NO_TIMING), 0);
	cr_assert_eq(cuda.wait_value(b, go, 1, GEQ), 0);
	cr_assert_eq(cuda.event_record(event, b), 0);
	cr_assert_eq(cuda.wait_event(a, event, 0), 0);
	queue_point(&point, c, go);
	expect_held_up(&point);
	cuda.event_destroy(event);
	end();
}

Test(driver_model, an_event_is_its_record_and_not_what_follows_in_the_stream)
{
	struct point point;
	void *event;

	begin("8");
	cr_assert_eq(cuda.event_create(&event, NO_TIMING), 0);
	cr_assert_eq(cuda.event_record(event, a), 0);
	cr_assert_eq(cuda.wait_value(a, go, 1, GEQ), 0);
	cr_assert_eq(cuda.wait_event(b, event, 0), 0);
	queue_point(&point, b, go);
	expect_free(&point);
	cuda.event_destroy(event);
	end();
}

Test(driver_model, an_item_waits_for_the_start_of_what_is_before_it_and_not_for_its_end)
{
	struct point beside, behind;
	float *memory;

	begin("2");
	cr_assert_eq(cuda.alloc((void **)&memory, sizeof(*memory)), 0);
	cr_assert_eq(cuda_spin(&cuda, a, 1, started, stop), 0);
	queue_point(&beside, c, stop);
	expect_free(&beside);
	/* The stream's second kernel does not start before its first has ended. */
	cr_assert_eq(cuda_add(&cuda, a, 1, memory, 1, 1), 0);
	queue_point(&behind, c, stop);
	expect_held_up(&behind);
	cr_expect_eq(cuda.stream_synchronize(a), 0);
	cr_expect_eq(*memory, 1);
	cuda.free(memory);
	end();
}

/* ---- The launch queue, and the lock -------------------------------------------------------- */

/* A call of another thread; the flag as it was when the call returned. */
struct call {
	int (*function)(void);
	const uint32_t *flag;
	uint32_t returned, saw;
	int result, device;
	pthread_t thread;
};

static void *make_call(void *argument)
{
	struct call *call = argument;
	void *context;

	cuda.retain(&context, call->device);
	cuda.set(context);
	call->result = call->function();
	call->saw = __atomic_load_n(call->flag, __ATOMIC_ACQUIRE);
	rd_flag_write(&call->returned, 1);
	return NULL;
}

static void begin_call(struct call *call, int (*function)(void), int device)
{
	*call = (struct call){ .function = function, .flag = go, .device = device };
	cr_assert_eq(pthread_create(&call->thread, NULL, make_call, call), 0);
}

static void end_call(struct call *call, uint32_t saw)
{
	pthread_join(call->thread, NULL);
	cr_expect_eq(call->result, 0, "CUDA error %d", call->result);
	cr_expect_eq(call->saw, saw);
}

static int write_on_b(void)
{
	return cuda.write_value(b, go + 8, 1, 0);
}

static int write_elsewhere(void)
{
	return cuda.write_value(stream_elsewhere, go + 8, 1, 0);
}

/* The call returns when stream a goes on, and no thread can queue anything meanwhile, but on
   another device. */
static void expect_lock(int (*function)(void))
{
	struct call call, other, elsewhere;

	begin_call(&call, function, 0);
	while (!cuda.locked(0) && !wait_for_flag(&call.returned, 1))
		;
	begin_call(&other, write_on_b, 0);
	begin_call(&elsewhere, write_elsewhere, 1);
	cr_expect(wait_for_flag(&elsewhere.returned, BOUND_MS));
	wait_for_flag(&other.returned, GRACE_MS);
	rd_flag_write(go, 1);
	end_call(&call, 1);
	end_call(&other, 1);
	end_call(&elsewhere, 0);
}

static void *memory;

static void begin_with_two_devices(void)
{
	struct cuda_calls elsewhere = cuda;

	begin("8");
	cr_assert_eq(cuda_calls_open(&elsewhere, 1), 0);
	cr_assert_eq(cuda.stream_create(&stream_elsewhere, NON_BLOCKING), 0);
	cr_assert_eq(cuda_calls_open(&cuda, 0), 0);
	cr_assert_eq(cuda.alloc(&memory, 100), 0);
}

static void fill_the_queue(void)
{
	hold_up_a();
	for (int i = 1; i < QUEUED_MAX; i++)
		cr_assert_eq(cuda.write_value(a, go + 4, 1, 0), 0);
}

static int write_on_a(void)
{
	return cuda.write_value(a, go + 4, 1, 0);
}

Test(driver_model, a_call_into_a_full_launch_queue_waits_with_the_lock)
{
	begin_with_two_devices();
	fill_the_queue();
	expect_lock(write_on_a);
	cuda.free(memory);
	end();
}

Test(driver_model, a_launch_queue_that_stays_full_is_an_error)
{
	begin_with_two_devices();
	fill_the_queue();
	cr_expect_eq(write_on_a(), LAUNCH_TIMEOUT);
	rd_flag_write(go, 1);
	cuda.free(memory);
	end();
}

static int free_memory(void)
{
	return cuda.free(memory);
}

Test(driver_model, a_free_waits_for_the_device_with_the_lock)
{
	begin_with_two_devices();
	hold_up_a();
	expect_lock(free_memory);
	end();
}

static int free_pinned_memory(void)
{
	return cuda.free_host(memory);
}

Test(driver_model, so_does_a_free_of_pinned_memory)
{
	begin_with_two_devices();
	cr_assert_eq(cuda.free(memory), 0);
	cr_assert_eq(cuda.alloc_host(&memory, 100), 0);
	hold_up_a();
	expect_lock(free_pinned_memory);
	end();
}

static int copy_to_pageable_memory(void)
{
	int pageable;

	return cuda.copy(&pageable, memory, sizeof(pageable), a);
}

Test(driver_model, a_copy_to_pageable_memory_waits_for_its_stream_with_the_lock)
{
	begin_with_two_devices();
	hold_up_a();
	expect_lock(copy_to_pageable_memory);
	cuda.free(memory);
	end();
}

static int launch_on_a(void)
{
	return cuda_add(&cuda, a, 1, memory, 1, 1);
}

Test(driver_model, blocking_launches_return_when_the_kernel_has_ended)
{
	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	begin_with_two_devices();
	hold_up_a();
	expect_lock(launch_on_a);
	cuda.free(memory);
	end();
}

Test(driver_model, others_return_at_once)
{
	struct call call;

	begin_with_two_devices();
	hold_up_a();
	begin_call(&call, launch_on_a, 0);
	end_call(&call, 0);
	rd_flag_write(go, 1);
	cuda.free(memory);
	end();
}

/* ---- Room for blocks ----------------------------------------------------------------------- */

/* program_spin's blocks that the device holds, by multiprocessor. */
static int room_by_processor(int *processors)
{
	int blocks = 0;

	cr_assert_eq(cuda.attribute(processors, MULTIPROCESSOR_COUNT, 0), 0);
	cr_assert_eq(cuda.occupancy(&blocks, cuda.spin, 256, 0), 0);
	cr_assert_eq(blocks, 2);
	return blocks;
}

Test(driver_model, a_kernel_of_many_registers_finds_room_beside_a_block_and_not_beside_two)
{
	struct point point;
	int processors, blocks;

	begin("8");
	blocks = room_by_processor(&processors);
	cr_assert_eq(cuda.alloc(&memory, 100), 0);
	cr_assert_eq(cuda_spin(&cuda, a, processors, started, stop), 0);
	cr_assert(wait_for_flag(started, BOUND_MS));
	cr_assert_eq(cuda_add(&cuda, b, 1, memory, 1, 1), 0);
	queue_point(&point, b, stop);
	expect_free(&point);
	cr_assert_eq(cuda_spin(&cuda, c, (blocks - 1) * processors, started + 8, stop), 0);
	cr_assert(wait_for_flag(started + 8, BOUND_MS));
	cr_assert_eq(cuda_add(&cuda, b, 1, memory, 1, 1), 0);
	queue_point(&point, b, stop);
	expect_held_up(&point);
	cr_expect_eq(*(float *)memory, 2);
	cuda.free(memory);
	end();
}

Test(driver_model, a_kernel_that_spins_starts_when_all_of_its_blocks_have_room)
{
	struct point point;
	int processors, blocks;

	begin("8");
	blocks = room_by_processor(&processors);
	cr_assert_eq(cuda_spin(&cuda, a, 1, started, stop), 0);
	cr_assert(wait_for_flag(started, BOUND_MS));
	cr_assert_eq(cuda_spin(&cuda, b, blocks * processors, started + 8, go), 0);
	cr_expect_not(wait_for_flag(started + 8, GRACE_MS));
	/* Its blocks that have found room keep it. */
	cr_assert_eq(cuda.alloc(&memory, 100), 0);
	cr_assert_eq(cuda_add(&cuda, c, 1, memory, 1, 1), 0);
	queue_point(&point, c, stop);
	cr_expect_not(wait_for_flag(&point.passed, GRACE_MS));
	rd_flag_write(stop, 1);
	rd_flag_write(go, 1);
	cr_expect(wait_for_flag(&point.passed, BOUND_MS));
	cr_expect(wait_for_flag(started + 8, BOUND_MS));
	cuda.free(memory);
	end();
}

/* ---- Registrations and handles ------------------------------------------------------------- */

#define PORTABLE 1
#define ALREADY_REGISTERED 712
#define LAZY_PEER_ACCESS 1
#define HANDLE_SIZE 4096

Test(driver_model, host_memory_is_registered_once)
{
	char *host = calloc(3, 4096);

	begin("8");
	cr_expect_eq(cuda.pin(host, 2 * 4096, PORTABLE), 0);
	cr_expect_eq(cuda.pin(host, 2 * 4096, PORTABLE), ALREADY_REGISTERED);
	cr_expect_eq(cuda.pin(host + 4096, 2 * 4096, PORTABLE), ALREADY_REGISTERED);
	cr_expect_eq(cuda.pin(host + 2 * 4096, 4096, PORTABLE), 0);
	cr_expect_eq(cuda.unpin(host), 0);
	cr_expect_neq(cuda.unpin(host), 0);
	cr_expect_eq(cuda.unpin(host + 2 * 4096), 0);
	end();
	free(host);
}

/* In a process of its own: hands out a handle, and lives until it may end. */
static void own_memory(int handles, int done)
{
	struct cuda_handle handle;
	void *owned;
	char byte;

	if (cuda_calls_open(&cuda, 0) || cuda.alloc(&owned, HANDLE_SIZE) ||
		cuda.get_handle(&handle, owned) ||
		write(handles, &handle, sizeof(handle)) != sizeof(handle))
		_exit(1);
	_exit(read(done, &byte, 1) == 0 ? 0 : 2);
}

Test(driver_model, a_handle_opened_twice_is_one_mapping_and_closed_twice)
{
	int handles[2], done[2], status;
	struct cuda_handle handle;
	void *first, *second;
	pid_t owner;

	cr_assert(pipe(handles) == 0 && pipe(done) == 0);
	owner = fork();
	if (owner == 0) {
		close(done[1]);
		own_memory(handles[1], done[0]);
	}
	close(handles[1]);
	cr_assert_eq(read(handles[0], &handle, sizeof(handle)), sizeof(handle));
	begin("8");
	cr_assert_eq(cuda.open_handle(&first, handle, LAZY_PEER_ACCESS), 0);
	cr_assert_eq(cuda.open_handle(&second, handle, LAZY_PEER_ACCESS), 0);
	cr_expect_eq(first, second);
	cr_expect_eq(cuda.close_handle(first), 0);
	memset(second, 1, HANDLE_SIZE);
	cr_expect_eq(cuda.close_handle(second), 0);
	cr_expect_neq(cuda.close_handle(second), 0);
	end();
	close(done[1]);
	cr_expect(waitpid(owner, &status, 0) == owner && status == 0);
}
