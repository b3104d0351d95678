#include "base/trial.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pidfd.h"

#define UNKNOWN (-1) /* no wait status */
#define KILL_MS 5000 /* until the end of a child that is killed: it may be in state D */

/*
 * Memory that parent and child share. The child may write anything into it, so the parent cuts
 * texts when it reads them.
 */
struct report {
	_Atomic int done;
	int error;
	char reason[RD_REASON_SIZE];
	char stage[128];
	int64_t stage_ms; /* when it began, by rd_clock_ms() */
};

static struct report *mine; /* in the child; else NULL */

void rd_trial_stage(const char *format, ...)
{
	va_list args;

	if (!mine)
		return;
	va_start(args, format);
	vsnprintf(mine->stage, sizeof(mine->stage), format, args);
	va_end(args);
	mine->stage_ms = rd_clock_ms();
}

/*
 * Prepares for a crash: no signal handlers of the program, no core file, and death with the parent.
 */
static void prepare_to_crash(pid_t parent)
{
	static const int deadly[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };
	struct rlimit none = { 0, 0 };

	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		signal(deadly[i], SIG_DFL);
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

static void run_child(struct report *report, int (*body)(void *argument), void *argument)
{
	mine = report;
	report->error = body(argument);
	if (report->error)
		strncpy(report->reason, rondo_last_error(), sizeof(report->reason) - 1);
	atomic_store(&report->done, 1);
}

/* The wait status of a child that has ended, or is killed. UNKNOWN: it does not end; or where the
   program ignores SIGCHLD, the kernel has discarded it; or the program reaps its children. */
static int reap(pid_t child)
{
	int status;

	return rd_reap_killed(child, &status, rd_clock_ms() + KILL_MS) == child ? status : UNKNOWN;
}

/* Whether it ends in time. */
static bool ends(int fd, int64_t deadline_ms)
{
	struct pollfd watch = { .fd = fd, .events = POLLIN };
	int ready;

	do {
		int64_t left = deadline_ms - rd_clock_ms();

		ready = poll(&watch, 1, left > 0 ? (int)left : 0);
	} while (ready < 0 && errno == EINTR);
	return ready > 0;
}

static int judge(struct report *report, bool ended, int status, int64_t deadline_ms)
{
	report->reason[sizeof(report->reason) - 1] = '\0';
	report->stage[sizeof(report->stage) - 1] = '\0';

	const char *in = *report->stage ? " in " : "";

	if (!ended)
		return rd_fail(RONDO_TIMEOUT, "hung for %.1f s%s%s",
			(double)(deadline_ms - report->stage_ms) / 1000, in, report->stage);
	if (atomic_load(&report->done))
		return report->error ? rd_fail(report->error, "%s", report->reason) : 0;
	if (status == UNKNOWN)
		return rd_fail(
			RONDO_SYSTEM, "crashed, or ended the process%s%s", in, report->stage);
	/*
	 * The child does not send this signal to itself; the kernel sends it when memory runs out.
	 */
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return rd_fail(RONDO_MEMORY, "was killed from outside%s%s: out of memory, perhaps",
			in, report->stage);
	if (WIFSIGNALED(status))
		return rd_fail(RONDO_SYSTEM, "crashed (%s)%s%s", strsignal(WTERMSIG(status)), in,
			report->stage);
	return rd_fail(RONDO_SYSTEM, "ended the process%s%s", in, report->stage);
}

/* By its descriptor: once the kernel has discarded it, its number may be another process's. */
static int watch(pid_t child, struct report *report, int64_t deadline_ms)
{
	int fd = rd_pidfd_open(child);
	/* ESRCH: it has ended, and is discarded. */
	bool ended = fd >= 0 ? ends(fd, deadline_ms) : errno == ESRCH;

	if (fd < 0 && !ended) {
		int err = rd_fail_errno("cannot watch a trial by a pidfd");

		kill(child, SIGKILL);
		reap(child);
		return err;
	}
	if (!ended)
		rd_pidfd_kill(fd, SIGKILL);
	if (fd >= 0)
		close(fd);
	return judge(report, ended, reap(child), deadline_ms);
}

int rd_trial(int (*body)(void *argument), void *argument, int timeout_ms)
{
	struct report *report = mmap(
		NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), child;
	int64_t began_ms = rd_clock_ms();
	int err;

	if (report == MAP_FAILED)
		return rd_fail(RONDO_MEMORY, "no memory for a trial");
	report->stage_ms = began_ms;
	child = fork();
	if (child == 0) {
		prepare_to_crash(parent);
		run_child(report, body, argument);
		_exit(0);
	}
	err = child < 0 ? rd_fail_errno("cannot fork for a trial")
			: watch(child, report, began_ms + timeout_ms);
	munmap(report, sizeof(*report));
	return err;
}
