/* The processors of ranks (--bind), on trees like those of sysfs and on this machine. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file_tree.h"
#include "program.h"
#include "run/bind.h"
#include "text.h"
#include "topo/processors.h"

static struct processors processors;

/* Cores of two hardware threads each, CPUs i and i + cores; nodes of the same number of cores. */
static void make_tree(int nodes, int cores)
{
	int each = cores / nodes;

	tree_begin();
	for (int node = 0; node < nodes; node++) {
		char list[64];
		int first = node * each, last = first + each - 1;

		snprintf(list, sizeof(list), "%d-%d,%d-%d", first, last, first + cores,
			last + cores);
		tree_put(list, "sys/devices/system/node/node%d/cpulist", node);
	}
	for (int cpu = 0; cpu < 2 * cores; cpu++) {
		char list[32];

		snprintf(list, sizeof(list), "%d,%d", cpu % cores, cpu % cores + cores);
		tree_put(list, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	}
}

static void allow(const char *list)
{
	struct rd_cpus allowed;

	cr_assert(rd_cpus_read(&allowed, list));
	cr_assert(processors_init(&processors, tree_root, &allowed));
}

static void finish(void)
{
	processors_finish(&processors);
	tree_end();
}

/* Asserts the slices of all ranks: "0-1 x2; 2-3 x2", processors and threads. */
static void assert_slices(enum bind bind, int size, const char *wanted)
{
	char all[512] = "";

	for (int i = 0; i < size; i++) {
		struct slice slice;
		char cpus[64];
		size_t length = strlen(all);

		slice_init(&slice, &processors, bind, size, i);
		rd_cpus_text(&slice.cpus, cpus, sizeof(cpus));
		snprintf(all + length, sizeof(all) - length, "%s%s x%d", i ? "; " : "", cpus,
			slice.threads);
	}
	cr_assert_str_eq(all, wanted);
}

TestSuite(run_bind, .fini = finish);

Test(run_bind, cores_are_divided_whole, .timeout = 30)
{
	make_tree(2, 8);
	allow("0-15");
	assert_slices(BIND_CORES, 1, "0-15 x8");
	assert_slices(BIND_CORES, 2, "0-3,8-11 x4; 4-7,12-15 x4");
	assert_slices(BIND_CORES, 3, "0-1,8-9 x2; 2-4,10-12 x3; 5-7,13-15 x3");
	assert_slices(BIND_CORES, 8,
		"0,8 x1; 1,9 x1; 2,10 x1; 3,11 x1; 4,12 x1; 5,13 x1; 6,14 x1; 7,15 x1");
}

Test(run_bind, ranks_beyond_the_cores_get_hardware_threads, .timeout = 30)
{
	make_tree(1, 2);
	allow("0-3");
	assert_slices(BIND_CORES, 3, "0 x1; 2 x1; 1,3 x1");
	assert_slices(BIND_CORES, 4, "0 x1; 2 x1; 1 x1; 3 x1");
	assert_slices(BIND_CORES, 6, "0 x1; 0 x1; 2 x1; 1 x1; 1 x1; 3 x1");
}

Test(run_bind, nodes_are_divided, .timeout = 30)
{
	make_tree(4, 8);
	allow("0-15");
	assert_slices(BIND_NUMA, 1, "0-15 x8");
	assert_slices(BIND_NUMA, 2, "0-3,8-11 x4; 4-7,12-15 x4");
	assert_slices(BIND_NUMA, 4, "0-1,8-9 x2; 2-3,10-11 x2; 4-5,12-13 x2; 6-7,14-15 x2");
	assert_slices(BIND_NUMA, 6,
		"0-1,8-9 x1; 0-1,8-9 x1; 2-3,10-11 x2; 4-5,12-13 x1; 4-5,12-13 x1; 6-7,14-15 x2");
}

Test(run_bind, only_allowed_processors_count, .timeout = 30)
{
	make_tree(2, 8);
	/* Both threads of core 1, the second of core 2, and core 6 of the other node. */
	allow("1,9,10,6");
	assert_slices(BIND_NONE, 2, "1,6,9-10 x1; 1,6,9-10 x1");
	assert_slices(BIND_CORES, 3, "1,9 x1; 10 x1; 6 x1");
	assert_slices(BIND_CORES, 2, "1,9 x1; 6,10 x2");
	assert_slices(BIND_NUMA, 2, "1,9-10 x2; 6 x1");
}

Test(run_bind, unbound_ranks_share_the_cores, .timeout = 30)
{
	make_tree(2, 8);
	allow("0-15");
	assert_slices(BIND_NONE, 1, "0-15 x8");
	assert_slices(BIND_NONE, 3, "0-15 x2; 0-15 x2; 0-15 x2");
}

Test(run_bind, threads_are_no_more_than_a_quota, .timeout = 30)
{
	make_tree(2, 8);
	tree_put("0::/", "proc/self/cgroup");
	tree_put("650000 100000", "sys/fs/cgroup/cpu.max");
	allow("0-15");
	assert_slices(BIND_NONE, 1, "0-15 x6");
	assert_slices(BIND_NONE, 4, "0-15 x1; 0-15 x1; 0-15 x1; 0-15 x1");
	assert_slices(BIND_CORES, 2, "0-3,8-11 x3; 4-7,12-15 x3");
}

Test(run_bind, without_sysfs_each_processor_is_a_core, .timeout = 30)
{
	tree_begin();
	allow("0-2,5");
	assert_slices(BIND_CORES, 2, "0-1 x2; 2,5 x2");
	assert_slices(BIND_NUMA, 2, "0-2,5 x2; 0-2,5 x2");
}

Test(run_bind, files_that_make_no_sense_are_ignored, .timeout = 30)
{
	tree_begin();
	tree_put("1-0", "sys/devices/system/node/node0/cpulist");
	tree_put("0-99999", "sys/devices/system/node/node1/cpulist");
	tree_put("0-1", "sys/devices/system/node/node-2/cpulist");
	tree_put("1", "sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
	tree_put("x", "sys/devices/system/cpu/cpu1/topology/thread_siblings_list");
	allow("0-1");
	assert_slices(BIND_CORES, 2, "0 x1; 1 x1");
	cr_assert_eq(processors.nodes, 1);
}

Test(run_bind, slices_are_described, .timeout = 30)
{
	struct slice slice;
	char text[SLICE_TEXT_SIZE];

	make_tree(2, 8);
	allow("0-15");
	slice_init(&slice, &processors, BIND_CORES, 8, 5);
	slice_describe(&slice, text);
	cr_assert_str_eq(text, "CPUs 5,13 of NUMA node 1");
	slice_init(&slice, &processors, BIND_CORES, 1, 0);
	slice_describe(&slice, text);
	cr_assert_str_eq(text, "CPUs 0-15 of NUMA nodes 0-1");
	slice_init(&slice, &processors, BIND_CORES, 16, 3);
	slice_describe(&slice, text);
	cr_assert_str_eq(text, "CPU 9 of NUMA node 0");
}

/* The list of a rank's own processors, as the kernel has it. */
Test(run_bind, ranks_run_on_their_slices, .timeout = 30)
{
	struct program run = program_files();
	struct rd_cpus allowed;
	char *out, line[128];

	tree_begin(); /* finish() removes it */
	cr_assert(rd_cpus_allowed(&allowed));
	cr_assert(processors_init(&processors, "", &allowed));
	program_run(&run, RONDO_TOOL, "--nproc-per-node=2", "--bind=cores", "sh", "-c",
		"echo $RANK $(sed -n 's/Cpus_allowed_list:.//p' /proc/self/status)", NULL);
	out = file_text(run.out);
	for (int i = 0; i < 2; i++) {
		struct slice slice;
		char cpus[64], described[SLICE_TEXT_SIZE];

		slice_init(&slice, &processors, BIND_CORES, 2, i);
		rd_cpus_text(&slice.cpus, cpus, sizeof(cpus));
		snprintf(line, sizeof(line), "%d %s", i, cpus);
		cr_assert_eq(count_lines(out, line), 1, "%s: %s", line, out);
		slice_describe(&slice, described);
		assert_contains(run.err, described);
	}
}

Test(run_bind, numa_nodes_bring_their_memory_where_the_kernel_allows_it, .timeout = 30)
{
	struct program run = program_files();
	char *err;

	tree_begin();
	program_run(&run, RONDO_TOOL, "--bind=numa", "head", "-1", "/proc/self/numa_maps", NULL);
	cr_assert_eq(run.status, 0);
	err = file_text(run.err);
	if (strstr(err, ", without memory"))
		cr_skip_test("the kernel does not allow to choose memory");
	cr_assert(strstr(err, "memory\n"), "%s", err);
	assert_contains(run.out, " prefer");
}

/* rondo-run --nproc-per-node gpu and auto, with a fake of CUDA's driver and without one. */

/* The folder where programs look for the driver first: with this file as the driver, or none. */
static void place_driver(const char *file)
{
	char link[128];

	tree_begin();
	snprintf(link, sizeof(link), "%s/libcuda.so.1", tree_root);
	if (file)
		cr_assert_eq(symlink(file, link), 0);
	else
		tree_put("no library", "libcuda.so.1");
	setenv("LD_LIBRARY_PATH", tree_root, 1);
	setenv("OMP_NUM_THREADS", "1", 1);
}

/* Runs a job that prints the number of its ranks. */
static struct program print_size(const char *local_size)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--nproc-per-node", local_size, "sh", "-c",
		"[ $RANK = 0 ] && echo $WORLD_SIZE; :", NULL);
	return run;
}

TestSuite(run_gpus, .fini = tree_end);

Test(run_gpus, gpu_and_auto_count_the_drivers_devices, .timeout = 30)
{
	struct program run;

	place_driver(FAKE_CUDA);
	run = print_size("gpu");
	assert_contains(run.out, "2\n");
	run = print_size("auto");
	assert_contains(run.out, "2\n");
}

Test(run_gpus, without_a_driver_gpu_is_refused_in_one_line, .timeout = 30)
{
	struct program run;
	char *text;

	place_driver(NULL);
	run = print_size("gpu");
	cr_assert_eq(run.status, 2);
	text = file_text(run.err);
	cr_assert_eq(count_of(text, "\n"), 1, "%s", text);
	assert_contains(run.err, "rondo-run: --nproc-per-node gpu: there is no GPU here: ");
}

Test(run_gpus, without_a_driver_auto_counts_processors, .timeout = 30)
{
	char size[16];
	struct program run;

	place_driver(NULL);
	run = print_size("auto");
	snprintf(size, sizeof(size), "%d\n", rd_processors_here());
	assert_contains(run.out, size);
	setenv("SLURM_STEP_NUM_TASKS", "1", 1);
	setenv("SLURM_CPUS_PER_TASK", "1", 1);
	run = print_size("cpu");

	char *text = file_text(run.out);

	cr_assert_str_eq(text, "1\n");
}
