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

#include "call_collective.h"
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

/* ---- Calls beside the same ones in host memory ---------------------------------------------- */

int gpu_buffers_open(struct rank_env *env, struct gpu_buffers **buffers, size_t size)
{
	int device = env->rank % rondo_device_count();
	struct gpu_buffers *made = calloc(1, sizeof(*made));

	*buffers = made;
	made->size = size;
	made->host_in = malloc(3 * size);
	made->host_out = made->host_in + size;
	made->got = made->host_out + size;
	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	TRY(rondo_mem_alloc_on((void **)&made->in, size, device));
	TRY(rondo_mem_alloc_on((void **)&made->out, size, device));
	TRY(rondo_stream_create_on(&made->stream, device));
	return 0;
}

void gpu_buffers_close(struct gpu_buffers *buffers)
{
	rondo_stream_destroy(buffers->stream);
	rondo_mem_free(buffers->in);
	rondo_mem_free(buffers->out);
	free(buffers->host_in);
	free(buffers);
}

int gpu_request_call(rondo_comm *comm, const struct gpu_request *request, char *in, char *out,
	rondo_stream *stream)
{
	size_t ours =
		(size_t)rondo_comm_rank(comm) * request->count * rondo_type_size(request->type);

	in += request->in_at;
	out = request->in_place ? in : out + request->out_at;
	if (request->in_place &&
		(request->collective == RD_ALL_GATHER || request->collective == RD_GATHER))
		in += ours;
	if (request->in_place &&
		(request->collective == RD_REDUCE_SCATTER || request->collective == RD_SCATTER))
		out += ours;
	return call_collective(comm, request->collective, in, out, request->count, request->type,
		request->op, request->root, stream);
}

static void fill(
	const struct rank_env *env, struct gpu_buffers *buffers, const struct gpu_request *request)
{
	size_t size = rondo_type_size(request->type), at = request->in_at;
	size_t shift = rd_collective_reduces(request->collective) ? 0 : (size_t)env->rank;

	memset(buffers->host_in, 0x33, buffers->size);
	memset(buffers->host_out, 0x55, buffers->size);
	for (size_t i = 0; at + size <= buffers->size; i++, at += size)
		gpu_put_element(buffers->host_in + at, request->type, i + shift, env->rank);
}

static int compare(
	struct rank_env *env, const struct gpu_buffers *buffers, const struct gpu_request *request)
{
	const char *right = request->in_place ? buffers->host_in : buffers->host_out;

	for (size_t i = 0; i < buffers->size; i++)
		if (buffers->got[i] != right[i])
			return world_report(env,
				"%s of %zu %s %s at %zu and %zu, root %d%s: byte %zu is %d, not %d",
				rd_collective_name(request->collective), request->count,
				rondo_type_name(request->type), rondo_op_name(request->op),
				request->in_at, request->out_at, request->root,
				request->in_place ? ", in place" : "", i, buffers->got[i],
				right[i]);
	return 0;
}

int gpu_beside_the_host(
	struct rank_env *env, struct gpu_buffers *buffers, const struct gpu_request *request)
{
	char *where = request->in_place ? buffers->in : buffers->out;

	fill(env, buffers, request);
	TRY(rondo_copy(buffers->in, buffers->host_in, buffers->size, buffers->stream));
	TRY(rondo_copy(buffers->out, buffers->host_out, buffers->size, buffers->stream));
	TRY(gpu_request_call(env->comm, request, buffers->in, buffers->out, buffers->stream));
	TRY(rondo_copy(buffers->got, where, buffers->size, buffers->stream));
	TRY(rondo_stream_synchronize(buffers->stream));
	TRY(gpu_request_call(env->comm, request, buffers->host_in, buffers->host_out, NULL));
	return compare(env, buffers, request);
}
