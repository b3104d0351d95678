#include "train/device/gpus.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/device/device.h"

enum gpus find_gpus(void)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		struct device *device;
		if (device_create(&device, DEVICE_CUDA, 0))
			_exit(NO_GPU);
		int emulated = !strcmp(device->name, "emulated GPU");
		device_destroy(device);
		_exit(emulated ? EMULATED_GPUS : REAL_GPUS);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

void need_gpus(void (*finish)(void))
{
	if (find_gpus() != NO_GPU)
		return;
	if (finish)
		finish();
	cr_skip_test("there is no GPU here, or no CUDA driver, or no cuBLAS, or this build has no "
		     "CUDA");
}

void expect_success(int (*run)(void))
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		int err = run();
		if (err)
			fprintf(stderr, "%s\n", failure());
		_exit(err != 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}
