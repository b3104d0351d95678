/* Devices that a setting names and that are missing, and device memory that Rondo cannot use: each
   error is one line with the reason. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "rondo.h"
#include "filter.h"
#include "gpus.h"
#include "text.h"

/* A comm of one rank. */
static int create(rondo_comm **comm, int gpu)
{
	struct rondo_config config = RONDO_CONFIG_INIT;

	config.rank = 0;
	config.size = 1;
	config.gpu = gpu;
	return rondo_comm_create(comm, &config);
}

static void expect_error_text(const char *words)
{
	cr_expect(strstr(rondo_last_error(), words), "\"%s\" is not in \"%s\"", words,
		rondo_last_error());
}

/* The reason of a machine without a GPU: what is missing first. */
static void expect_what_is_missing(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);

	if (strstr(rondo_last_error(), "this build of Rondo has no CUDA"))
		expect_error_text("build it where the CUDA toolkit is");
	else if (driver)
		expect_error_text(
			"sees no device (look at nvidia-smi, and at CUDA_VISIBLE_DEVICES)");
	else
		expect_error_text("there is no CUDA driver here (libcuda.so.1): install NVIDIA's");
}

/* No driver, or (cuda_without_a_device) one that sees none. */
Test(device_missing, cuda_that_is_asked_for_and_is_not_there_is_an_error)
{
	rondo_comm *comm;
	void *memory;

	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	setenv("RONDO_DEVICE", "cuda", 1);
	cr_expect_eq(rondo_device_count(), 0);
	expect_what_is_missing();
	cr_expect_eq(rondo_mem_alloc_on(&memory, 8, 0), RONDO_UNSUPPORTED);
	expect_what_is_missing();
	cr_expect_eq(create(&comm, -1), RONDO_UNSUPPORTED);
	cr_expect_null(comm);
	expect_error_text("RONDO_DEVICE is \"cuda\", but ");
	expect_what_is_missing();
}

Test(device_missing, a_rank_that_is_given_a_device_where_there_is_none_is_refused)
{
	rondo_comm *comm;

	setenv("RONDO_DEVICE", "none", 1);
	cr_expect_eq(create(&comm, 0), RONDO_UNSUPPORTED);
	expect_error_text(
		"rank 0 is to use device 0 (RONDO_GPU, or gpu in struct rondo_config), but "
		"RONDO_DEVICE is \"none\"");
	cr_assert_eq(create(&comm, -1), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_comm_destroy(comm), 0);
}

Test(device_missing, a_device_beyond_the_last_is_refused_with_those_there_are)
{
	rondo_comm *comm;

	need_tests_gpus("2");
	cr_expect_eq(create(&comm, 2), RONDO_SETTING);
	expect_error_text(
		"rank 0 is to use device 2, but there are 2 here: set RONDO_GPU, or gpu in struct "
		"rondo_config, to one of 0 to 1");
}

Test(device_missing, none_means_none_and_says_so)
{
	void *memory = &memory;
	rondo_stream *stream;

	setenv("RONDO_DEVICE", "none", 1);
	cr_expect_eq(rondo_device_count(), 0);
	cr_expect(strstr(rondo_last_error(), "none"), "%s", rondo_last_error());
	cr_expect_eq(rondo_mem_alloc_on(&memory, 8, 0), RONDO_UNSUPPORTED);
	cr_expect_null(memory);
	cr_expect_eq(rondo_stream_create_on(&stream, 0), RONDO_UNSUPPORTED);
	cr_expect_null(stream);
}

Test(device_missing, a_setting_that_makes_no_sense_is_refused_with_the_choices)
{
	rondo_comm *comm;

	setenv("RONDO_DEVICE", "CUDA", 1);
	cr_expect_eq(create(&comm, -1), RONDO_SETTING);
	expect_error_text("RONDO_DEVICE is \"CUDA\": choose auto, cuda or none");
	cr_expect_eq(rondo_device_count(), 0);
	expect_error_text("choose auto, cuda or none");
}

/* ---- GPUs for which there are no kernels --------------------------------------------------- */

struct program {
	int (*start)(unsigned);
	int (*retain)(void **, int);
	int (*set)(void *);
	int (*alloc)(void **, size_t);
};

/* A program that uses the first GPU by itself, of the tests' driver: they are of these compute
   capabilities. */
static void use_gpus_of(struct program *program, const char *capabilities)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY), *context;

	if (!driver || !dlsym(driver, "emulated_load"))
		cr_skip_test("the tests' driver is not here");
	setenv("EMULATED_CAPABILITY", capabilities, 1);
	unsetenv("RONDO_DEVICE");
	*(void **)&program->start = dlsym(driver, "cuInit");
	*(void **)&program->retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&program->set = dlsym(driver, "cuCtxPushCurrent_v2");
	*(void **)&program->alloc = dlsym(driver, "cuMemAlloc_v2");
	cr_assert_eq(program->start(0), 0);
	cr_assert_eq(program->retain(&context, 0), 0);
	cr_assert_eq(program->set(context), 0);
}

Test(device_missing, a_gpu_for_which_there_are_no_kernels_counts_as_none)
{
	struct program program;
	char host[64] = "", *memory;
	const char *text;
	rondo_comm *comm;

	use_gpus_of(&program, "7.5");
	setenv("RONDO_DEBUG", "INFO", 1);
	captured_stderr_begin();
	cr_assert_eq(create(&comm, -1), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_broadcast(comm, host, host, 16, RONDO_F32, 0, NULL), 0);
	cr_assert_eq(program.alloc((void **)&memory, 64), 0);
	cr_expect_eq(rondo_broadcast(comm, memory, memory, 16, RONDO_F32, 0, NULL), RONDO_INVALID);
	expect_error_text(
		"is device memory, but device 0 has compute capability 7.5, and this build's "
		"kernels need ");
	cr_expect_eq(rondo_comm_destroy(comm), 0);
	cr_expect_eq(rondo_device_count(), 0);
	cr_expect_eq(create(&comm, 0), RONDO_UNSUPPORTED);
	expect_error_text(
		"is to use device 0 (RONDO_GPU, or gpu in struct rondo_config), but device 0 "
		"has compute capability 7.5");
	text = captured_stderr_end();
	cr_expect_eq(count_of(text, "capability"), 1, "%s", text);
	cr_expect(strstr(text, "2 of 2 GPUs are not used: device 0 has "), "%s", text);
}

Test(device_missing, gpus_beside_one_without_kernels_keep_their_numbers)
{
	struct program program;
	void *memory;
	rondo_comm *comm;

	use_gpus_of(&program, "7.5,9.0");
	cr_expect_eq(rondo_device_count(), 2);
	cr_assert_eq(create(&comm, -1), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_comm_destroy(comm), 0);
	cr_assert_eq(create(&comm, 1), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_comm_destroy(comm), 0);
	cr_expect_eq(rondo_mem_alloc_on(&memory, 64, 0), RONDO_UNSUPPORTED);
	expect_error_text("device 0 has compute capability 7.5");
	cr_assert_eq(rondo_mem_alloc_on(&memory, 64, 1), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_mem_free(memory), 0);
}

Test(device_missing, gpus_without_kernels_behind_the_others_are_not_counted)
{
	struct program program;

	use_gpus_of(&program, "9.0,7.5");
	cr_expect_eq(rondo_device_count(), 1);
}

/* ---- Device memory that is not for us ------------------------------------------------------ */

static void *load_driver(void)
{
	void *driver = dlopen(FAKE_CUDA, RTLD_LAZY);

	cr_assert(driver, "%s", dlerror());
	return driver;
}

/* As of a program that has started a driver by itself. */
static char *foreign_memory(void)
{
	void *driver = load_driver();
	int (*start)(unsigned);

	*(void **)&start = dlsym(driver, "cuInit");
	cr_assert_eq(start(0), 0);
	return dlsym(driver, "fake_device_memory");
}

static void expect_refused(const char *why)
{
	char *memory = foreign_memory(), host[64] = "";
	rondo_comm *comm;

	cr_assert_eq(create(&comm, -1), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_all_reduce(comm, memory, memory + 64, 16, RONDO_F32, RONDO_SUM, NULL),
		RONDO_INVALID);
	expect_error_text("all_reduce: send is device memory, but ");
	expect_error_text(why);
	cr_expect_eq(rondo_broadcast(comm, host, memory, 16, RONDO_F32, 0, NULL), RONDO_INVALID);
	expect_error_text("broadcast: recv is device memory, but ");
	cr_expect_eq(rondo_copy(host, memory, 64, NULL), RONDO_UNSUPPORTED);
	expect_error_text(why);
	/* Host memory is as good as ever. */
	cr_expect_eq(rondo_broadcast(comm, host, host, 16, RONDO_F32, 0, NULL), 0);
	cr_expect_eq(rondo_comm_destroy(comm), 0);
}

static _Atomic int searches;

/* Where dlopen() tries to open a file of that name. */
static int count_search(const struct watched_call *call)
{
	char path[256];

	watched_text(call, call->arguments[1], path, sizeof(path));
	if (strstr(path, "/libcuda.so.1"))
		searches++;
	return 0;
}

/* Leaves the searches of the second comm; -1: none can be counted. Returns NULL, or `failed`. */
static void *create_twice(void *failed)
{
	rondo_comm *comm;
	int err = 0;

	if (!watch_calls(SYS_openat, count_search)) {
		searches = -1;
		return NULL;
	}
	for (int i = 0; i < 2 && !err; i++) {
		searches = 0;
		err = create(&comm, -1);
		if (!err)
			err = rondo_comm_destroy(comm);
	}
	return err ? failed : NULL;
}

/* It looks for the driver again when the program has brought in something. */
Test(device_missing, a_driver_that_is_not_loaded_is_looked_for_once)
{
	pthread_t thread;
	void *failed;

	unsetenv("RONDO_DEVICE");
	if (rd_device_met())
		cr_skip_test("this program is linked with a driver");
	cr_assert_eq(pthread_create(&thread, NULL, create_twice, (void *)&searches), 0);
	pthread_join(thread, &failed);
	cr_assert_null(failed);
	if (searches < 0)
		cr_skip_test("system calls cannot be watched here");
	cr_expect_eq(searches, 0);
	cr_expect_not(rd_device_met());
	/* NVML loads it for itself. */
	load_driver();
	cr_expect_not(rd_device_met());
	foreign_memory();
	cr_expect(rd_device_met());
}

/* A build without CUDA; in one with it, a driver with that alone. */
Test(device_missing, device_memory_is_refused_where_there_is_no_cuda)
{
	unsetenv("RONDO_DEVICE");
	foreign_memory();
	rondo_device_count();

	bool has_cuda = !strstr(rondo_last_error(), "this build of Rondo has no CUDA");

	expect_refused(has_cuda ? "the CUDA driver is too old" : "this build of Rondo has no CUDA");
}

Test(device_missing, device_memory_is_refused_where_no_device_is_used)
{
	setenv("RONDO_DEVICE", "none", 1);
	expect_refused("RONDO_DEVICE is \"none\"");
}
