/* Answers to `rondo-run --status`: a text longer than a socket's buffer, and readers that are slow
   or read nothing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/status.h"

#define TEXT_SIZE RD_STATUS_MAX

static struct rd_status status;
static int epoll_fd, answers;

static void open_it(void)
{
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	cr_assert_eq(rd_status_open(&status, 0, epoll_fd, &status), 0);
}

static void close_it(void)
{
	rd_status_close(&status);
	close(epoll_fd);
}

TestSuite(status, .init = open_it, .fini = close_it, .timeout = 30);

static int ask(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t size = sizeof(at);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(getsockname(status.listen_fd, (struct sockaddr *)&at, &size), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&at, size), 0);
	return fd;
}

static char byte_at(size_t at)
{
	return (char)('a' + at % 23);
}

/* As the job's thread does: serves one event, or the deadline. */
static void serve(int64_t now_ms, int timeout_ms)
{
	struct epoll_event event;
	char *text;

	if (epoll_wait(epoll_fd, &event, 1, timeout_ms) > 0)
		cr_assert_eq(event.data.ptr, &status);
	else if (now_ms < rd_status_deadline(&status))
		return;
	if (!rd_status_accept(&status, now_ms))
		return;
	answers++;
	text = malloc(TEXT_SIZE);
	for (size_t i = 0; text && i < TEXT_SIZE; i++)
		text[i] = byte_at(i);
	rd_status_answer(&status, text, TEXT_SIZE, now_ms);
}

/* Reads and serves in turn. */
static size_t read_all(int fd, int64_t now_ms)
{
	static char part[60000];
	size_t size = 0;
	ssize_t got;

	for (;;) {
		serve(now_ms, 0);
		got = recv(fd, part, sizeof(part), MSG_DONTWAIT);
		if (got == 0)
			return size;
		for (ssize_t i = 0; i < got; i++)
			cr_assert_eq(
				part[i], byte_at(size + (size_t)i), "byte %zu", size + (size_t)i);
		size += got > 0 ? (size_t)got : 0;
	}
}

Test(status, a_text_longer_than_the_buffer_comes_whole)
{
	int fd = ask();

	cr_expect_eq(read_all(fd, 0), TEXT_SIZE);
	cr_expect_eq(rd_status_deadline(&status), RD_NEVER);
	close(fd);
}

Test(status, who_reads_nothing_delays_the_others_for_a_second_alone)
{
	int idle = ask(), fd = ask();

	for (int i = 0; i < 10; i++)
		serve(RD_STATUS_ANSWER_MS - 1, 0);
	cr_expect_eq(answers, 1);
	cr_expect_eq(rd_status_deadline(&status), 2 * RD_STATUS_ANSWER_MS - 1);
	cr_expect_eq(read_all(fd, 2 * RD_STATUS_ANSWER_MS - 1), TEXT_SIZE);
	cr_expect_eq(answers, 2);
	close(idle);
	close(fd);
}

Test(status, who_hangs_up_delays_nobody)
{
	int gone = ask(), fd = ask();

	serve(0, 0);
	close(gone);
	cr_expect_eq(read_all(fd, 0), TEXT_SIZE);
	close(fd);
}

/* Else the reader waits for the child. */
Test(status, a_forked_child_has_neither_descriptor)
{
	int fd = ask(), wait_status = -1, pipe_fds[2];
	pid_t child;
	char byte;

	serve(0, 0);
	cr_assert(status.fd >= 0);
	cr_assert_eq(pipe(pipe_fds), 0);
	child = fork();
	if (child == 0) {
		close(pipe_fds[1]);
		/* Until the parent has read all, or has ended. */
		if (read(pipe_fds[0], &byte, 1) < 0)
			_exit(2);
		rd_status_close(&status);
		_exit(status.listen_fd >= 0 || status.fd >= 0);
	}
	close(pipe_fds[0]);
	cr_expect_eq(read_all(fd, 0), TEXT_SIZE);
	close(pipe_fds[1]);
	cr_assert_eq(waitpid(child, &wait_status, 0), child);
	cr_expect_eq(wait_status, 0);
	close(fd);
}
