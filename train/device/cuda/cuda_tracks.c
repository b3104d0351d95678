/* The two streams of a GPU: computation and communication; their order, and times. */
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/device/cuda/gpu.h"

int gpu_stream(struct device *device, rondo_stream **stream)
{
	struct gpu *gpu = (struct gpu *)device;
	if (rondo_stream_wrap(stream, gpu->tracks[COMMUNICATION], device->number))
		return fail("GPU %d (%s): %s", device->number, device->name, rondo_last_error());
	return 0;
}

int gpu_join(struct device *device, enum track track)
{
	struct gpu *gpu = (struct gpu *)device;
	enum track other = track == COMPUTATION ? COMMUNICATION : COMPUTATION;
	if (!device->error &&
		gpu_check(gpu, cuda.cuEventRecord(gpu->passed[other], gpu->tracks[other]),
			"order streams"))
		gpu_check(gpu, cuda.cuStreamWaitEvent(gpu->tracks[track], gpu->passed[other], 0),
			"order streams");
	return device_failure(device);
}

bool gpu_make_event(struct gpu *gpu, CUevent *event, unsigned flags)
{
	return gpu_check(gpu, cuda.cuEventCreate(event, flags), "make an event");
}

static void drop_moments(struct gpu *gpu)
{
	for (int m = 0; m < gpu->moment_count; m++)
		cuda.cuEventDestroy(gpu->moments[m]);
	free(gpu->moments);
	gpu->moments = NULL;
	gpu->moment_count = 0;
}

int gpu_moments(struct device *device, int count)
{
	struct gpu *gpu = (struct gpu *)device;
	drop_moments(gpu);
	gpu->moments = calloc(count, sizeof(*gpu->moments));
	if (!gpu->moments && count)
		return fail("out of memory for %d moments", count);
	while (gpu->moment_count < count &&
		gpu_make_event(gpu, &gpu->moments[gpu->moment_count], CU_EVENT_DEFAULT))
		gpu->moment_count++;
	return device_failure(device);
}

void gpu_record(struct device *device, enum track track, int moment)
{
	struct gpu *gpu = (struct gpu *)device;
	if (!device->error)
		gpu_check(gpu, cuda.cuEventRecord(gpu->moments[moment], gpu->tracks[track]),
			"take the time");
}

double gpu_between(struct device *device, int from, int to)
{
	struct gpu *gpu = (struct gpu *)device;
	CUevent start = gpu->moments[from], end = gpu->moments[to];
	float ms = 0;
	if (!device->error && gpu_check(gpu, cuda.cuEventSynchronize(start), "compute") &&
		gpu_check(gpu, cuda.cuEventSynchronize(end), "compute"))
		gpu_check(gpu, cuda.cuEventElapsedTime(&ms, start, end), "take the time");
	return 1e-3 * ms;
}

/* Where both have kernels to run, a bucket's go first: all ranks wait for them. */
bool gpu_tracks_open(struct gpu *gpu)
{
	int priorities[2];
	bool well = gpu_check(gpu,
		cuda.cuCtxGetStreamPriorityRange(
			&priorities[COMPUTATION], &priorities[COMMUNICATION]),
		"ask the priorities of streams");
	for (int track = 0; well && track < 2; track++)
		well = gpu_check(gpu,
			       cuda.cuStreamCreateWithPriority(&gpu->tracks[track],
				       CU_STREAM_NON_BLOCKING, priorities[track]),
			       "make a stream") &&
		       gpu_make_event(gpu, &gpu->passed[track], CU_EVENT_DISABLE_TIMING);
	return well;
}

void gpu_tracks_close(struct gpu *gpu)
{
	drop_moments(gpu);
	for (int track = 0; track < 2; track++) {
		if (gpu->passed[track])
			cuda.cuEventDestroy(gpu->passed[track]);
		if (gpu->tracks[track])
			cuda.cuStreamDestroy(gpu->tracks[track]);
	}
}
