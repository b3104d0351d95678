#include "gpus.h"

#include "elements.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"

void gpu_die_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int gpu_trial_run(const struct gpu_trial *trial)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		gpu_die_with_parent();
		setenv("RONDO_DEVICE", "cuda", 1);
		setenv("RONDO_KERNEL", trial->kernel, 1);
		setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
		status = world_run(&trial->world, trial->body, NULL, NULL);
		/* The output of its ranks. */
		fflush(stdout);
		_exit(status);
	}
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool has_gpus(int count)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setenv("RONDO_DEVICE", "cuda", 1);
		_exit(rondo_device_count() >= count ? 0 : 1);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

bool has_tests_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);

	return driver && dlsym(driver, "emulated_load") && has_gpus(1);
}

void use_tests_gpus(const char *gpus)
{
	setenv("EMULATED_GPUS", gpus, 1);
	setenv("RONDO_DEVICE", "cuda", 1);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

void need_tests_gpus(const char *gpus)
{
	if (!has_tests_driver())
		cr_skip_test(NO_TESTS_DRIVER);
	use_tests_gpus(gpus);
}

static void *find_function(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY), *found;

	found = driver ? dlsym(driver, name) : NULL;
	cr_assert(found, NO_TESTS_DRIVER);
	return found;
}

void give_handles(bool given)
{
	void (*give)(int);

	*(void **)&give = find_function("emulated_give_handles");
	give(given);
}

void run_small_kernel(const struct rd_small_work *work)
{
	void (*run)(const struct rd_small_work *);

	*(void **)&run = find_function("emulated_small");
	run(work);
}

void run_steps_kernel(const struct rd_steps *steps)
{
	void (*run)(const struct rd_steps *);

	*(void **)&run = find_function("emulated_steps");
	run(steps);
}

int open_flag(struct rank_env *env, uint32_t **flag)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	*flag = aligned_alloc(page, page);
	if (!*flag)
		return world_report(env, "no memory for a flag");
	**flag = 0;
	TRY(rd_device(true)->share(0, *flag, page));
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

void close_flag(uint32_t *flag)
{
	rd_device(true)->unshare(0, flag);
	free(flag);
}

/* CU_DEVICE_ATTRIBUTE_MPS_ENABLED */
#define MPS_ENABLED 133

static bool ask_for_mps(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
	int (*start)(unsigned), (*ask)(int *, int, int), active = 0;

	*(void **)&start = driver ? dlsym(driver, "cuInit") : NULL;
	*(void **)&ask = driver ? dlsym(driver, "cuDeviceGetAttribute") : NULL;
	return start && ask && !start(0) && !ask(&active, MPS_ENABLED, 0) && active == 1;
}

/* Not in this process, which must fork later. */
bool has_mps(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(ask_for_mps() ? 0 : 1);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

void gpu_put_element(void *at, rondo_type type, size_t i, int rank)
{
	static const uint16_t one[RONDO_TYPE_COUNT] = { [RONDO_F16] = 0x3c00,
		[RONDO_BF16] = 0x3f80,
		[RONDO_F8E4M3] = 0x38,
		[RONDO_F8E5M2] = 0x3c };
	static const uint16_t twice[RONDO_TYPE_COUNT] = {
		[RONDO_F16] = 0x400, [RONDO_BF16] = 0x80, [RONDO_F8E4M3] = 8, [RONDO_F8E5M2] = 4
	};
	rondo_type part = element_part(type);
	uint64_t bits = i * 13 + (uint64_t)rank * 5;
	float f32 = (float)(i % 5) + 1;
	double f64 = (double)(i % 5) + 1;

	if (part != type) {
		gpu_put_element(at, part, i, rank);
		gpu_put_element((char *)at + rondo_type_size(part), part, i + 1, rank);
		return;
	}
	/* Zeros, for logical operations. */
	if (i % 7 == 0)
		bits = rank % 2;
	if (one[type])
		bits = one[type] + twice[type] * (i % 3);
	memcpy(at,
		type == RONDO_F32   ? (void *)&f32
		: type == RONDO_F64 ? (void *)&f64
				    : (void *)&bits,
		rondo_type_size(type));
}

bool gpu_find_graphs(struct gpu_graphs *graphs)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
	struct {
		void *at;
		const char *name;
	} wants[] = { { &graphs->begin, "cuStreamBeginCapture_v2" },
		{ &graphs->end, "cuStreamEndCapture" },
		{ &graphs->instantiate, "cuGraphInstantiateWithFlags" },
		{ &graphs->launch, "cuGraphLaunch" }, { &graphs->create, "cuStreamCreate" },
		{ &graphs->synchronize, "cuStreamSynchronize" },
		{ &graphs->retain, "cuDevicePrimaryCtxRetain" },
		{ &graphs->set, "cuCtxSetCurrent" },
		{ &graphs->destroy_exec, "cuGraphExecDestroy" },
		{ &graphs->destroy_graph, "cuGraphDestroy" },
		{ &graphs->destroy, "cuStreamDestroy_v2" } };

	for (size_t i = 0; i < sizeof(wants) / sizeof(*wants); i++) {
		*(void **)wants[i].at = driver ? dlsym(driver, wants[i].name) : NULL;
		if (!*(void **)wants[i].at)
			return false;
	}
	return true;
}

int gpu_open_stream(const struct gpu_graphs *cu, int device, void **stream, rondo_stream **wrapped)
{
	void *context;

	/* 1: not after the null stream. */
	return cu->retain(&context, device) || cu->set(context) || cu->create(stream, 1) ||
	       rondo_stream_wrap(wrapped, *stream, device);
}

int gpu_begin(const struct gpu_graphs *cu, void *stream)
{
	/* 1: captured by this thread alone. */
	return cu->begin(stream, 1);
}
