/* A child that is forked while another thread looks up memory, or registers it. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/plugin.h"
#include "base/library.h"
#include "check/proof.h"
#include "comm/comm.h"
#include "comm/registration.h"
#include "device/region.h"
#include "held_fork.h"
#include "ring/ring.h"

/* ---- The table of regions -------------------------------------------------------------------- */

/* A search of these takes longer than the rest of the loop: most forks come during one. */
#define REGIONS 500
#define FORKS 20

static void *search(void *ends)
{
	struct rd_region region;

	while (!atomic_load((_Atomic bool *)ends))
		rd_region_find(NULL, 1, &region);
	return NULL;
}

/* Returns its wait status. */
static int child_allocates(void)
{
	pid_t child = fork();
	int status = -1;
	void *memory;

	if (child == 0) {
		alarm(20);
		_exit(rd_region_alloc(&memory, 1) != 0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	return status;
}

Test(memory_fork, a_child_allocates_though_a_thread_held_the_table_of_regions, .timeout = 60)
{
	_Atomic bool ends = false;
	void *memory[REGIONS];
	pthread_t thread;
	int status = 0;

	for (int i = 0; i < REGIONS; i++)
		cr_assert_eq(rd_region_alloc(&memory[i], 1), 0, "%s", rondo_last_error());
	cr_assert_eq(pthread_create(&thread, NULL, search, (void *)&ends), 0);
	for (int i = 0; i < FORKS && status == 0; i++)
		status = child_allocates();
	atomic_store(&ends, true);
	pthread_join(thread, NULL);
	cr_expect_eq(status, 0, "a child hung, or failed: status %#x", (unsigned)status);
	for (int i = 0; i < REGIONS; i++)
		rd_region_free(memory[i]);
}

/* Returns 0 if the child has a copy of its own, which is plain memory, and frees it. */
static int write_and_free(char *memory)
{
	struct rd_region region;

	if (memory[0] != 1 || rd_region_find(memory, 1, &region))
		return 1;
	memory[0] = 2;
	return !rd_registered_free(memory) || rd_registered_free(memory);
}

Test(memory_fork, a_child_writes_a_copy_of_its_own, .timeout = 60)
{
	struct rd_region region;
	int status = -1;
	void *memory;
	pid_t child;

	cr_assert_eq(rd_registered_alloc(&memory, 10000), 0, "%s", rondo_last_error());
	*(char *)memory = 1;
	child = fork();
	if (child == 0) {
		alarm(20);
		_exit(write_and_free(memory));
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0, "%#x", (unsigned)status);
	cr_expect_eq(*(char *)memory, 1, "the child wrote its parent's memory");
	cr_expect(rd_region_find(memory, 10000, &region));
	rd_registered_free(memory);
}

/* ---- Registrations --------------------------------------------------------------------------- */

/* Called below their lock. */
static int attach(struct rd_endpoint *endpoint, const struct rd_registration *registration)
{
	(void)endpoint;
	(void)registration;
	held_fork_dwell();
	return 0;
}

static void detach(struct rd_endpoint *endpoint, uint64_t id)
{
	(void)endpoint;
	(void)id;
}

static void allocate(void)
{
	void *memory;

	if (rd_registered_alloc(&memory, 4096) == 0)
		rd_registered_free(memory);
}

Test(memory_fork, a_child_allocates_though_a_thread_held_the_registrations, .timeout = 60)
{
	struct rd_transport transport = { .name = "test", .attach = attach, .detach = detach };
	struct rd_endpoint endpoint = { .transport = &transport };
	struct rondo_comm comm = { .endpoints = { &endpoint }, .endpoint_count = 1 };

	rd_registration_join(&comm, 0);
	fork_while(allocate);
	rd_registration_leave(&comm);
}

/* A child that is forked while another thread loads plug-ins and plan files. */

/* Below the lock of all that is loaded. */
int __wrap_rd_plan_files_load(const char *list);

int __wrap_rd_plan_files_load(const char *list)
{
	(void)list;
	held_fork_dwell();
	return 0;
}

static void load_plugins(void)
{
	struct rd_settings settings = {
		.transport_plugin = "", .algo_plugin = "", .plan_files = ""
	};

	rd_plugins_load(&settings);
}

Test(plugin_fork, a_child_loads_though_a_thread_was_loading, .timeout = 60)
{
	fork_while(load_plugins);
}

/* A child that is forked while another thread loads a library. */

static int (*function)(void);
static const char *const name = "getpid";

/* Called below its lock. */
static struct rd_library library = {
	.file = "libc.so.6",
	.names = &name,
	.functions = &function,
	.count = 1,
	.start = held_fork_dwell,
	.lock = RD_FORK_LOCK(RD_FORK_LEAF),
};

static void load_library(void)
{
	rd_library_load(&library);
}

Test(library_fork, a_child_loads_it_though_a_thread_was_loading_it, .timeout = 60)
{
	fork_while(load_library);
	cr_expect(library.loaded);
}

/* A child that is forked while another thread proves an algorithm of a plug-in. */

static bool may_run(const struct rd_problem *problem)
{
	(void)problem;
	held_fork_dwell(); /* the proof asks for each rank, below its lock */
	return true;
}

static struct rd_algorithm brought;

static void prove(void)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 4 };

	rd_proof_holds(&brought, &problem);
}

Test(proof_fork, a_child_proves_though_a_thread_was_proving, .timeout = 60)
{
	brought = rd_ring;
	brought.may_run = may_run;
	cr_assert_eq(rd_proof_add(&brought), 0);
	fork_while(prove);
}
