/* A program that has closed 0, 1 or 2: no file of the library gets the number, nor its log. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rondo.h"
#include "gpus.h"

#define SIZE 3

static void close_all(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
}

static bool are_closed_now(void)
{
	struct stat file;

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fstat(fd, &file) == 0)
			return false;
	return true;
}

/* A thread of the library that opens a file moves it above 2, and has it there for a moment. */
static bool are_closed(void)
{
	for (int ms = 0; ms < 5000 && !are_closed_now(); ms++)
		poll(NULL, 0, 1);
	return are_closed_now();
}

static bool works(rondo_comm *comm)
{
	int32_t one = 1, sum = 0;

	return rondo_all_reduce(comm, &one, &sum, 1, RONDO_I32, RONDO_SUM, NULL) == 0 &&
	       sum == rondo_comm_size(comm);
}

/* Makes comms by each way, and shrinks one. Returns the step that went wrong. */
static int use_comms(void *argument)
{
	int rank = atoi(getenv("RANK"));
	rondo_comm *comm, *split, *left;
	rondo_stream *stream;
	bool right;

	if (argument && rank > 0)
		setenv("RONDO_HOST", "elsewhere", 1);
	if (!are_closed())
		return 1;
	if (rondo_comm_create(&comm, NULL) || !works(comm) || !are_closed())
		return 2;
	if (rondo_comm_split(comm, 0, rank, &split) || !works(split) || !are_closed())
		return 3;
	if (rondo_stream_create(&stream) || rondo_barrier(comm, stream) ||
		rondo_stream_synchronize(stream) || !are_closed())
		return 4;
	rondo_stream_destroy(stream);
	rondo_comm_revoke(split, NULL);
	if (rondo_comm_shrink(split, &left) || !works(left) || !are_closed())
		return 5;
	right = rondo_comm_destroy(left) == 0;
	rondo_comm_destroy(split);
	return rondo_comm_destroy(comm) == 0 && right && are_closed() ? 0 : 6;
}

static void expect_closed(const char *transport, bool several_hosts)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		setenv("RONDO_DEBUG", "TRACE", 1);
		setenv("RONDO_TRANSPORT", transport, 1);
		close_all();
		_exit(rondo_spawn(SIZE, use_comms, several_hosts ? &child : NULL));
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0, "%s: status 0x%x", transport, (unsigned)status);
}

Test(closed_descriptors, stay_closed, .timeout = 120)
{
	expect_closed("shm", false);
	expect_closed("tcp", false);
	expect_closed("shm,tcp", true);
}

Test(closed_descriptors, stay_closed_beside_a_device, .timeout = 120)
{
	need_tests_gpus("1");
	setenv("RONDO_DEBUG_FILE", "/dev/null", 1);
	expect_closed("shm,tcp", true);
}

/* The number of standard error leads to the program's socket: 0 if no byte came. */
static int reuse_stderr(void *argument)
{
	int fds[2], step = 0;
	char byte;
	rondo_comm *comm, *dup;

	setenv("RONDO_DEBUG", "TRACE", 1);
	/* Nobody reads the socket: it has room for some lines, not for those of measurements. */
	setenv("RONDO_REPRODUCIBLE", "1", 1);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		return 1;
	if (!argument)
		close(STDERR_FILENO);
	/* The first call opens links: then no thread of the library has the number for a moment. */
	if (rondo_comm_create(&comm, NULL) || !works(comm))
		return 1;
	if (dup2(fds[1], STDERR_FILENO) < 0)
		return 2;
	/* These lines are for the present standard error, whose file it was before. */
	if (!works(comm) || rondo_comm_destroy(comm))
		step = 3;
	if (!step && recv(fds[0], &byte, 1, MSG_DONTWAIT) >= 0)
		step = 4;
	/* A later comm's lines are for what it finds. */
	if (!step && (rondo_comm_create(&dup, NULL) || rondo_comm_destroy(dup)))
		step = 5;
	if (!step && recv(fds[0], &byte, 1, MSG_DONTWAIT) != 1)
		step = 6;
	return step;
}

Test(closed_descriptors, of_standard_error_get_no_line_of_the_log_by_their_next_use, .timeout = 60)
{
	int null = open("/dev/null", O_WRONLY);

	cr_assert_geq(dup2(null, STDERR_FILENO), 0);
	cr_expect_eq(rondo_spawn(2, reuse_stderr, NULL), 0);
	cr_expect_eq(rondo_spawn(2, reuse_stderr, &null), 0);
}
