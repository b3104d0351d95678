#include "run/hosts/connection.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "run/hosts/remote.h"

/* Bytes. */
#define PROGRAM_SIZE 4096

struct pipes {
	int in[2], out[2], err[2];
};

static void close_pipes(struct pipes *pipes)
{
	int *fds = (int *)pipes;

	for (size_t i = 0; i < sizeof(*pipes) / sizeof(int); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static bool open_pipes(struct pipes *pipes)
{
	*pipes = (struct pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 } };
	if (pipe2(pipes->in, O_CLOEXEC) == 0 && pipe2(pipes->out, O_CLOEXEC) == 0 &&
		pipe2(pipes->err, O_CLOEXEC) == 0)
		return true;
	close_pipes(pipes);
	return false;
}

/* A group of its own: Ctrl-C is ours, and ssh stays to pass the signal on. */
static int spawn(pid_t *pid, const struct pipes *pipes, char *const *arguments)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, usual;
	int error;

	sigemptyset(&none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, pipes->in[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, pipes->out[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, pipes->err[1], STDERR_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes,
		POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &usual);
	error = posix_spawnp(pid, arguments[0], &files, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	return error;
}

static int keep(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return fd;
}

bool ssh_start(struct ssh *ssh, const char *host, const char *program)
{
	char command[2 * PROGRAM_SIZE];
	/* Keys alone, no questions. A host that vanishes is noticed by ssh itself. */
	char *arguments[] = { "ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
		"ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o",
		"ClearAllForwardings=yes", "-o", "ForwardX11=no", "--", (char *)host, command,
		NULL };
	struct pipes pipes;
	int error;

	snprintf(command, sizeof(command), "exec '%s' " REMOTE_OPTION, program);
	if (!open_pipes(&pipes)) {
		fprintf(stderr, "rondo-run: cannot start ssh for host %s: %m\n", host);
		return false;
	}
	error = spawn(&ssh->pid, &pipes, arguments);
	ssh->pidfd = error ? -1 : rd_pidfd_open(ssh->pid);
	if (error || ssh->pidfd < 0) {
		fprintf(stderr, "rondo-run: cannot start ssh for host %s: %s\n", host,
			error ? strerror(error) : "no descriptor of its process");
		close_pipes(&pipes);
		return false;
	}
	close(pipes.in[0]);
	close(pipes.out[1]);
	close(pipes.err[1]);
	ssh->in = keep(pipes.in[1]);
	ssh->out = keep(pipes.out[0]);
	ssh->err = keep(pipes.err[0]);
	return true;
}

const char *ssh_program(const char *called)
{
	static char path[PROGRAM_SIZE];
	ssize_t size;

	if (!strchr(called, '/'))
		return "rondo-run";
	size = readlink("/proc/self/exe", path, sizeof(path) - 1);
	/* The path stands between quotes in the command for the other shell. */
	if (size <= 0 || memchr(path, '\'', (size_t)size))
		return "rondo-run";
	path[size] = '\0';
	return path;
}
