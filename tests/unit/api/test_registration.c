/* ctest label: threads */
/* rondo_mem_register() and rondo_mem_deregister(): which endpoints learn of memory, and what is
   refused. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transports/contract/leaks.h"
#include "gpus.h"
#include "registering.h"
#include "text.h"
#include "world.h"

#define SIZE (64 << 10)

static char memory[2 * SIZE];

/* ---- Refusals -------------------------------------------------------------------------------- */

static void expect_refused(int err, const char *function, const char *words)
{
	cr_expect_eq(err, RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), function) && strstr(rondo_last_error(), words), "%s",
		rondo_last_error());
	cr_expect_null(strchr(rondo_last_error(), '\n'));
}

#define REGISTER "rondo_mem_register: "
#define DEREGISTER "rondo_mem_deregister: "

Test(registration, of_no_memory_is_refused)
{
	expect_refused(rondo_mem_register(NULL, 8), REGISTER, "memory is NULL");
	expect_refused(rondo_mem_register(memory, 0), REGISTER, "0 bytes at ");
	expect_refused(rondo_mem_register(memory, SIZE_MAX), REGISTER, "are no memory");
	expect_refused(rondo_mem_register(memory, (size_t)1 << 62), REGISTER, "are mapped");
}

Test(registration, of_memory_that_is_not_mapped_is_refused)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *mapped = mmap(NULL, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(mapped, MAP_FAILED);
	munmap(mapped + 2 * page, page);
	expect_refused(rondo_mem_register(mapped + 1, 2 * page), REGISTER, "not all of ");
	cr_expect_eq(rondo_mem_register(mapped + 1, 2 * page - 1), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_mem_deregister(mapped + 1), 0);
	munmap(mapped, 2 * page);
}

Test(registration, of_memory_that_overlaps_other_is_refused)
{
	void *allocated;

	cr_assert_eq(rondo_mem_alloc(&allocated, 100), 0);
	cr_assert_eq(rondo_mem_register(memory + 1000, 1000), 0, "%s", rondo_last_error());
	expect_refused(rondo_mem_register(memory + 1000, 1000), REGISTER, "which are registered");
	expect_refused(rondo_mem_register(memory + 999, 2), REGISTER, "overlap 1000 bytes at ");
	expect_refused(rondo_mem_register(memory + 1999, 1), REGISTER, "overlap 1000 bytes at ");
	expect_refused(rondo_mem_register(memory, 3000), REGISTER, "overlap 1000 bytes at ");
	expect_refused(rondo_mem_register(allocated, 8), REGISTER, "which Rondo allocated");
	cr_expect_eq(rondo_mem_register(memory + 900, 100), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_mem_register(memory + 2000, 1), 0, "%s", rondo_last_error());
	for (int at = 900; at <= 2000; at += at == 900 ? 100 : 1000)
		cr_expect_eq(rondo_mem_deregister(memory + at), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_mem_register(memory, 3000), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_mem_deregister(memory), 0);
	cr_expect_eq(rondo_mem_free(allocated), 0);
}

Test(registration, ends_once_and_where_it_began)
{
	void *allocated;

	cr_assert_eq(rondo_mem_alloc(&allocated, 100), 0);
	cr_assert_eq(rondo_mem_register(memory, SIZE), 0, "%s", rondo_last_error());
	expect_refused(rondo_mem_deregister(NULL), DEREGISTER, "no registration begins at ");
	expect_refused(rondo_mem_deregister(memory + 1), DEREGISTER, "no registration begins at ");
	expect_refused(rondo_mem_deregister(allocated), DEREGISTER, "use rondo_mem_free()");
	expect_refused(rondo_mem_free(memory), "rondo_mem_free: ", "is not the start of memory");
	cr_expect_eq(rondo_mem_deregister(memory), 0);
	expect_refused(rondo_mem_deregister(memory), DEREGISTER, "no registration begins at ");
	cr_expect_eq(rondo_mem_free(allocated), 0);
}

/* ---- Endpoints ------------------------------------------------------------------------------- */

static int expect_count(struct rank_env *env, const char *when, int wanted)
{
	int count = registering_count(memory, SIZE);

	return count == wanted ? 0
			       : world_report(env, "%s: %d endpoints, not %d", when, count, wanted);
}

/* The sum of registered buffers, which begin anywhere. */
static int sum_registered(struct rank_env *env)
{
	return world_sum(env, (float *)(memory + 1000), 10000);
}

static int register_before_and_after(struct rank_env *env)
{
	rondo_comm *second;

	TRY(env->create_error);
	/* It was registered before there were comms. */
	if (expect_count(env, "with a comm", 1) || sum_registered(env))
		return 1;
	if (world_second_comm(env, &second) || expect_count(env, "with two comms", 2))
		return 1;
	TRY(rondo_mem_deregister(memory));
	if (expect_count(env, "deregistered", 0) || sum_registered(env))
		return 1;
	TRY(rondo_mem_register(memory, SIZE));
	if (expect_count(env, "registered again", 2) || sum_registered(env))
		return 1;
	TRY(rondo_comm_destroy(second));
	return expect_count(env, "with a comm again", 1) || sum_registered(env);
}

Test(registration, holds_for_comms_before_and_after_it, .timeout = 60)
{
	struct world world = { .size = 2 };

	registering_add();
	cr_assert_eq(rondo_mem_register(memory, SIZE), 0, "%s", rondo_last_error());
	cr_expect_eq(world_run(&world, register_before_and_after, NULL, NULL), 0);
	cr_expect_eq(rondo_mem_deregister(memory), 0);
}

static int alloc_and_free(struct rank_env *env)
{
	void *allocated, *none;

	TRY(env->create_error);
	TRY(rondo_mem_alloc(&allocated, 5000));
	TRY(rondo_mem_alloc(&none, 0));
	if (registering_count(allocated, 5000) != 1)
		return world_report(env, "allocated memory is not attached");
	if (world_sum(env, allocated, 1000))
		return 1;
	TRY(rondo_mem_free(allocated));
	return registering_count(allocated, 5000) == 0
		       ? 0
		       : world_report(env, "freed memory stays attached");
}

Test(registration, includes_memory_that_rondo_allocates, .timeout = 60)
{
	struct world world = { .size = 2 };

	registering_add();
	cr_expect_eq(world_run(&world, alloc_and_free, NULL, NULL), 0);
}

static int use_other_transport(struct rank_env *env)
{
	TRY(env->create_error);
	TRY(rondo_mem_register(memory, SIZE));
	if (expect_count(env, "over shm", 0) || sum_registered(env))
		return 1;
	TRY(rondo_mem_deregister(memory));
	return registering_calls() == 0 ? 0 : world_report(env, "an idle endpoint got calls");
}

Test(registration, leaves_out_endpoints_without_links_and_other_transports, .timeout = 60)
{
	struct world world = { .size = 2, .transport = "shm" };

	registering_add();
	cr_expect_eq(world_run(&world, use_other_transport, NULL, NULL), 0);
	world.transport = "tcp";
	cr_expect_eq(world_run(&world, use_other_transport, NULL, NULL), 0);
}

static int register_two(struct rank_env *env)
{
	TRY(env->create_error);
	TRY(rondo_mem_register(memory, SIZE));
	TRY(rondo_mem_register(memory + SIZE, 100));
	if (sum_registered(env))
		return 1;
	TRY(rondo_mem_deregister(memory + SIZE));
	TRY(rondo_mem_deregister(memory));
	return 0;
}

Test(registration, that_a_transport_refuses_is_one_warning, .timeout = 60)
{
	struct world world = { .size = 2 };
	const char *text;

	registering_add();
	registering_refuse();
	text = world_run_captured(&world, register_two, NULL);
	cr_expect_eq(warnings_of(text), 2, "one on each rank: %s", text);
	cr_expect_eq(count_of(text, "registers does not register 65536 bytes at "), 2, "%s", text);
	cr_expect_eq(count_of(text, "no room on the card"), 2, "%s", text);
}

/* ---- Threads, and forks ---------------------------------------------------------------------- */

static void *register_repeatedly(void *argument)
{
	_Atomic bool *ends = argument;
	long failures = 0;

	while (!atomic_load(ends))
		failures += rondo_mem_register(memory + SIZE, SIZE) ||
			    rondo_mem_deregister(memory + SIZE);
	return (void *)failures;
}

static int sum_while_registering(struct rank_env *env)
{
	static _Thread_local float values[1000];
	_Atomic bool ends = false;
	pthread_t thread;
	void *failures = NULL;
	int wrong = env->create_error;

	if (env->rank != 0) {
		for (int i = 0; i < 300 && !wrong; i++)
			wrong = world_sum(env, values, 1000);
		return wrong;
	}
	if (pthread_create(&thread, NULL, register_repeatedly, &ends))
		return world_report(env, "no thread");
	for (int i = 0; i < 300 && !wrong; i++)
		wrong = world_sum(env, values, 1000);
	atomic_store(&ends, true);
	pthread_join(thread, &failures);
	if (failures)
		return world_report(env, "%ld registrations failed", (long)failures);
	return wrong;
}

Test(registration, by_another_thread_does_not_disturb_calls, .timeout = 120)
{
	struct world world = { .size = 3, .threads = true };

	registering_add();
	cr_expect_eq(world_run(&world, sum_while_registering, NULL, NULL), 0);
}

/* The parent's endpoints must not see what the child does; its memory is its own. */
static int deregister_in_child(int calls)
{
	if (rondo_mem_deregister(memory) || rondo_mem_register(memory, 100))
		return 1;
	return registering_calls() == calls ? 0 : 2;
}

static int fork_a_child(struct rank_env *env)
{
	int status = -1;
	pid_t child;

	TRY(env->create_error);
	TRY(rondo_mem_register(memory, SIZE));
	child = fork();
	if (child == 0)
		_exit(deregister_in_child(registering_calls()));
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		return world_report(env, "the child: status %x", status);
	if (expect_count(env, "after a fork", 1) || sum_registered(env))
		return 1;
	TRY(rondo_mem_deregister(memory));
	return 0;
}

Test(registration, in_a_forked_child_leaves_the_parents_alone, .timeout = 60)
{
	struct world world = { .size = 2 };

	registering_add();
	cr_expect_eq(world_run(&world, fork_a_child, NULL, NULL), 0);
}

/* ---- Device memory --------------------------------------------------------------------------- */

/* argument: the endpoints to which it is attached. */
static int register_device_memory(struct rank_env *env)
{
	int wanted = *(int *)env->argument, count;
	unsigned char byte = 0x5a;
	char *device;

	TRY(env->create_error);
	TRY(rondo_mem_alloc_on((void **)&device, 8192, 0));
	TRY(rondo_copy(device + 100, &byte, 1, NULL));
	EXPECT_ERROR(rondo_mem_register(device + 100, 8093), RONDO_INVALID, "exceed their alloca");
	TRY(rondo_mem_register(device + 100, 8000));
	count = registering_count(device + 100, 8000);
	if (count != wanted)
		return world_report(env, "attached to %d endpoints", count);
	if (wanted && registering_device_byte() != byte)
		return world_report(env, "the dma-buf has %d", registering_device_byte());
	EXPECT_ERROR(rondo_mem_free(device), RONDO_INVALID, "is registered");
	TRY(rondo_mem_deregister(device + 100));
	if (registering_count(device + 100, 8000) != 0)
		return world_report(env, "stays attached");
	TRY(rondo_mem_free(device));
	return 0;
}

static const char *register_on_device(int wanted)
{
	struct world world = { .size = 2 };

	need_tests_gpus("1");
	return world_run_captured(&world, register_device_memory, &wanted);
}

Test(registration, of_device_memory_is_by_a_dma_buf, .timeout = 60)
{
	int files = contract_open_files();
	const char *text;

	registering_add();
	text = register_on_device(1);
	cr_expect_eq(warnings_of(text), 0, "%s", text);
	cr_expect_eq(contract_open_files(), files);
}

Test(registration, of_device_memory_without_dma_bufs_is_one_warning, .timeout = 60)
{
	const char *text;

	registering_add();
	setenv("EMULATED_NO_DMABUF", "1", 1);
	text = register_on_device(0);
	cr_expect_eq(count_of(text, "registers does not register 8000 bytes at "), 2, "%s", text);
}
