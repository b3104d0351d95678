#include "run/gpus.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRIVER "libcuda.so.1"
#define WAIT_MS 60000

/* The child's answer: one write, smaller than PIPE_BUF. */
struct answer {
	int count;
	char reason[GPUS_REASON_SIZE];
};

static void ask_driver(struct answer *answer)
{
	void *driver = dlopen(DRIVER, RTLD_NOW);
	int (*init)(unsigned) = NULL, (*count)(int *) = NULL, error;

	if (driver) {
		*(void **)&init = dlsym(driver, "cuInit");
		*(void **)&count = dlsym(driver, "cuDeviceGetCount");
	}
	if (!init || !count) {
		snprintf(answer->reason, sizeof(answer->reason), "%s", dlerror());
		return;
	}
	error = init(0);
	if (error == 0)
		error = count(&answer->count);
	if (error)
		snprintf(answer->reason, sizeof(answer->reason), "%s: error %d", DRIVER, error);
	else if (answer->count <= 0)
		snprintf(answer->reason, sizeof(answer->reason), "%s sees no device", DRIVER);
}

static void answer_and_exit(int fd)
{
	struct answer answer = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ask_driver(&answer);
	_exit(write(fd, &answer, sizeof(answer)) != sizeof(answer));
}

/* False where the child has not answered in time, or has died. */
static bool receive(int fd, struct answer *answer)
{
	struct pollfd watch = { fd, POLLIN, 0 };
	int ready;

	do {
		ready = poll(&watch, 1, WAIT_MS);
	} while (ready < 0 && errno == EINTR);
	return ready > 0 && read(fd, answer, sizeof(*answer)) == sizeof(*answer);
}

int gpus_count(char reason[GPUS_REASON_SIZE])
{
	struct answer answer = { 0 };
	int ends[2];
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0 || (child = fork()) < 0) {
		snprintf(reason, GPUS_REASON_SIZE, "cannot ask %s: %s", DRIVER, strerror(errno));
		return 0;
	}
	if (child == 0)
		answer_and_exit(ends[1]);
	close(ends[1]);
	if (!receive(ends[0], &answer)) {
		answer = (struct answer){ .reason = DRIVER " does not answer" };
		kill(child, SIGKILL);
	}
	close(ends[0]);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	answer.reason[GPUS_REASON_SIZE - 1] = '\0';
	snprintf(reason, GPUS_REASON_SIZE, "%s", answer.reason);
	return answer.count > 0 ? answer.count : 0;
}
