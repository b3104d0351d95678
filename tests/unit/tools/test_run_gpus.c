/* rondo-run --nproc-per-node gpu and auto, with a fake of CUDA's driver and without one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "file_tree.h"
#include "program.h"
#include "text.h"
#include "topo/processors.h"

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
