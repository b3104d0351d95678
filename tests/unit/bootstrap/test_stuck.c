/* Children that the kernel cannot end, in state D: whoever waits for them leaves them. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/trial.h"
#include "captured_stderr.h"
#include "mute_files.h"
#include "rondo.h"

static struct mute_files files;

static int get_stuck(void *argument)
{
	(void)argument;
	close(files.fd);
	return open(files.file, O_RDONLY | O_CLOEXEC);
}

/* Rank 0 fails once rank 1 is stuck. */
static int fail_beside(void *argument)
{
	if (atoi(getenv("RANK")) == 1)
		return get_stuck(argument);
	mute_files_await(&files);
	return 3;
}

Test(stuck, ranks_of_rondo_spawn_are_named_and_left, .timeout = 60)
{
	const char *text;

	mute_files_mount(&files);
	captured_stderr_begin();
	cr_expect_eq(rondo_spawn(2, fail_beside, NULL), 3);
	text = captured_stderr_end();
	cr_expect(strstr(text, "rank 1 (pid ") &&
			  strstr(text, ") does not end 10 s after SIGKILL: leaving it"),
		"%s", text);
	mute_files_unmount(&files);
}

Test(stuck, a_trial_ends_though_its_process_does_not, .timeout = 60)
{
	pid_t server;

	mute_files_mount(&files);
	server = fork();
	if (server == 0) {
		mute_files_await(&files);
		_exit(0);
	}
	cr_expect_eq(rd_trial(get_stuck, NULL, 1000), RONDO_TIMEOUT);
	cr_expect_str_eq(rondo_last_error(), "hung for 1.0 s");
	cr_expect_eq(waitpid(server, NULL, 0), server);
	mute_files_unmount(&files);
}
