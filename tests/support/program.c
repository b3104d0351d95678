#include "program.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "text.h"

#define ARGS_MAX 32

int program_file(void)
{
	int fd = memfd_create("output", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fcntl(fd, F_SETFL, O_APPEND), 0);
	return fd;
}

struct program program_files(void)
{
	return (struct program){ .out = program_file(), .err = program_file() };
}

void program_start_with(struct program *program, const char *path, char *const *arguments)
{
	program->pid = fork();
	if (program->pid == 0) {
		dup2(program->out, STDOUT_FILENO);
		dup2(program->err, STDERR_FILENO);
		execv(path, arguments);
		_exit(99);
	}
	cr_assert_gt(program->pid, 0);
}

void program_start_list(struct program *program, const char *path, va_list args)
{
	char *arguments[ARGS_MAX] = { (char *)path };
	int count = 0;

	do {
		arguments[++count] = va_arg(args, char *);
	} while (arguments[count] && count < ARGS_MAX - 1);
	program_start_with(program, path, arguments);
}

void program_start(struct program *program, const char *path, ...)
{
	va_list args;

	va_start(args, path);
	program_start_list(program, path, args);
	va_end(args);
}

void program_finish(struct program *program)
{
	int status;

	cr_assert_eq(waitpid(program->pid, &status, 0), program->pid);
	program->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void program_run(struct program *program, const char *path, ...)
{
	va_list args;

	va_start(args, path);
	program_start_list(program, path, args);
	va_end(args);
	program_finish(program);
}

pid_t child_of(pid_t pid)
{
	char path[64];
	FILE *children;
	int child = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	children = fopen(path, "re");
	cr_assert_not_null(children);
	if (fscanf(children, "%d", &child) != 1)
		child = 0;
	fclose(children);
	return child;
}

void program_press(struct program *program, int signal)
{
	struct pollfd end = { .fd = rd_pidfd_open(program->pid), .events = POLLIN };

	do
		kill(program->pid, signal);
	while (poll(&end, 1, 100) == 0);
	close(end.fd);
	program_finish(program);
}

int count_lines(const char *text, const char *line)
{
	size_t length = strlen(line);
	int found = 0;

	for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
		found += strncmp(at, line, length) == 0 && at[length] == '\n';
		if (!strchr(at, '\n'))
			break;
	}
	return found;
}

void assert_contains(int fd, const char *part)
{
	char *text = file_text(fd);

	cr_assert_not_null(strstr(text, part), "'%s' is not in:\n%s", part, text);
}

int pipe_from(int *end)
{
	int fds[2];

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	*end = fds[1];
	return fds[0];
}

int pipe_to_fd_8(void)
{
	int fds[2];

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	cr_assert_eq(dup2(fds[0], 8), 8);
	return fds[1];
}

void read_until(int fd, char *text, size_t size, const char *part)
{
	size_t length = strlen(text);

	while (!strstr(text, part)) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		ssize_t got;

		cr_assert_eq(
			poll(&ready, 1, 20000), 1, "'%s' does not come; so far:\n%s", part, text);
		got = read(fd, text + length, size - length - 1);
		cr_assert_gt(got, 0, "ended without '%s':\n%s", part, text);
		length += (size_t)got;
		text[length] = '\0';
	}
}

void read_line(int fd, char *line, size_t size)
{
	size_t length = 0;

	do {
		struct pollfd ready = { .fd = fd, .events = POLLIN };

		cr_assert_lt(length, size);
		cr_assert_eq(poll(&ready, 1, 20000), 1, "no line comes");
		cr_assert_eq(read(fd, line + length, 1), 1, "no more lines");
	} while (line[length++] != '\n');
	line[length - 1] = '\0';
}

void watch_processes(int fd, struct pollfd *ends, int count)
{
	for (int i = 0; i < count; i++) {
		char line[64];

		read_line(fd, line, sizeof(line));
		ends[i] = (struct pollfd){ .fd = rd_pidfd_open(atoi(line)), .events = POLLIN };
		cr_assert_geq(ends[i].fd, 0, "no process '%s'", line);
	}
}

bool all_end(struct pollfd *ends, int count)
{
	int ended = 0;

	for (int i = 0; i < count; i++) {
		ended += poll(&ends[i], 1, 10000);
		syscall(SYS_pidfd_send_signal, ends[i].fd, SIGKILL, NULL, 0);
	}
	return ended == count;
}

struct run run_tool(const char *path, ...)
{
	struct program program = program_files();
	va_list args;

	va_start(args, path);
	program_start_list(&program, path, args);
	va_end(args);
	program_finish(&program);

	struct run run = { program.status, file_text(program.out), file_text(program.err) };

	close(program.out);
	close(program.err);
	return run;
}

void assert_went_well(const struct run *run)
{
	cr_assert_eq(run->status, 0, "%s", run->err);
	cr_assert_str_empty(run->err);
}
