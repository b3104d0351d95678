#include "run/hosts/connection.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "run/base/descriptor.h"
#include "run/hosts/remote.h"

/* The exit status of ssh for errors of its own. */
#define SSH_FAILED 255

/* The polls of a connection. */
enum { WATCH_END, WATCH_IN, WATCH_OUT, WATCH_ERR };

bool connection_open(struct connection *connection, const struct host *host, const char *program)
{
	*connection = (struct connection){ .host = host,
		.state = CONNECTION_ENDED,
		.in = { .fd = -1 },
		.out = { .fd = -1 },
		.err = { .fd = -1 } };
	if (!ssh_start(&connection->ssh, host->name, program))
		return false;
	connection->state = CONNECTION_OPENS;
	sink_init(&connection->in, connection->ssh.in);
	connection->in.queue.secret = true;
	return true;
}

void connection_run(
	struct connection *connection, struct console *console, const char *strings, size_t size)
{
	char head[32];

	snprintf(head, sizeof(head), "%zu\n", size);
	sink_write(&connection->in, head, strlen(head));
	sink_write(&connection->in, strings, size);
	lines_init(&connection->out, connection->ssh.out, &console->out, "");
	lines_init(&connection->err, connection->ssh.err, console->messages, "");
	connection->errors = (struct tail){ 0 };
	connection->err.tail = &connection->errors;
	connection->state = CONNECTION_RUNS;
}

void connection_signal(struct connection *connection, int signal)
{
	char number = (char)signal;

	if (connection->state != CONNECTION_RUNS || connection->in.fd < 0)
		return;
	sink_write(&connection->in, &number, 1);
	/* It may be closed next. */
	sink_flush(&connection->in);
}

void connection_close(struct connection *connection)
{
	descriptor_close(&connection->in.fd);
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* Takes a line of stdout: the answer, or one of the shell's start there. */
static void take_line(struct connection *connection)
{
	connection->answer[connection->answer_size] = '\0';
	if (sscanf(connection->answer, REMOTE_HELLO "%63s %127s", connection->version,
		    connection->address) == 2)
		connection->state = CONNECTION_READY;
	connection->answer_size = 0;
}

/* A byte at a time: nothing comes behind the answer until we send. */
static void read_answer(struct connection *connection)
{
	char byte;

	while (connection->state == CONNECTION_OPENS && read(connection->ssh.out, &byte, 1) == 1) {
		if (byte == '\n')
			take_line(connection);
		else if (connection->answer_size < sizeof(connection->answer) - 1)
			connection->answer[connection->answer_size++] = byte;
	}
}

static void read_errors(struct connection *connection)
{
	char data[1024];
	ssize_t size = read(connection->ssh.err, data, sizeof(data));

	if (size > 0)
		tail_write(&connection->errors, data, (size_t)size);
	else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
		close(connection->ssh.err);
		connection->ssh.err = -1;
	}
}

/* ---- Polling -------------------------------------------------------------------------------- */

void connection_add_polls(struct connection *connection, struct polls *polls)
{
	bool runs = connection->state == CONNECTION_RUNS;
	bool opens = connection->state == CONNECTION_OPENS;
	const struct ssh *ssh = &connection->ssh;
	int out = opens ? ssh->out : -1, err = opens ? ssh->err : -1;

	connection->first_poll = polls->count;
	polls_add(polls, connection->state == CONNECTION_ENDED ? -1 : ssh->pidfd, POLLIN);
	polls_add(polls, sink_waiting(&connection->in) ? connection->in.fd : -1, POLLOUT);
	polls_add(polls, runs ? lines_readable_fd(&connection->out) : out, POLLIN);
	polls_add(polls, runs ? lines_readable_fd(&connection->err) : err, POLLIN);
}

/* ssh has ended and is reaped. */
static void release(struct connection *connection)
{
	struct ssh *ssh = &connection->ssh;

	connection_close(connection);
	sink_finish(&connection->in);
	if (connection->state == CONNECTION_RUNS) {
		lines_finish(&connection->out);
		lines_finish(&connection->err);
	} else {
		descriptor_close(&ssh->out);
		descriptor_close(&ssh->err);
	}
	descriptor_close(&ssh->pidfd);
	connection->state = CONNECTION_ENDED;
}

/* A process that ssh leaves (the master of shared connections) holds the pipes. */
static void read_rest(struct connection *connection)
{
	if (connection->state == CONNECTION_RUNS) {
		lines_read_rest(&connection->out);
		lines_read_rest(&connection->err);
	} else if (connection->ssh.err >= 0) {
		read_errors(connection);
	}
}

static void on_end(struct connection *connection)
{
	siginfo_t end = { 0 };

	while (waitid(RD_P_PIDFD, (id_t)connection->ssh.pidfd, &end, WEXITED) < 0 && errno == EINTR)
		;
	read_rest(connection);
	connection->status = end.si_code == CLD_EXITED ? end.si_status : 128 + end.si_status;
	release(connection);
}

void connection_take_polls(struct connection *connection, const struct polls *polls)
{
	const struct pollfd *own = &polls->fds[connection->first_poll];
	bool runs = connection->state == CONNECTION_RUNS;

	if (own[WATCH_IN].revents)
		sink_flush(&connection->in);
	if (own[WATCH_OUT].revents) {
		if (runs)
			lines_read(&connection->out);
		else
			read_answer(connection);
	}
	if (own[WATCH_ERR].revents) {
		if (runs)
			lines_read(&connection->err);
		else
			read_errors(connection);
	}
	if (own[WATCH_END].revents)
		on_end(connection);
}

void connection_finish(struct connection *connection)
{
	if (connection->state == CONNECTION_ENDED)
		return;
	kill(connection->ssh.pid, SIGKILL);
	waitpid(connection->ssh.pid, NULL, 0);
	release(connection);
}

/* ---- The end -------------------------------------------------------------------------------- */

void connection_explain(
	const struct connection *connection, const char *program, char *text, size_t size)
{
	char lines[TAIL_TEXT_SIZE], *last;

	if (connection->status == 127 || connection->status == 126) {
		snprintf(text, size, "cannot run %s there%s", program,
			strchr(program, '/') ? ": install Rondo at the same place"
					     : ": install Rondo in the PATH of ssh's shell");
		return;
	}
	tail_text(&connection->errors, lines);
	if (*lines)
		lines[strlen(lines) - 1] = '\0';
	last = strrchr(lines, '\n');
	last = last ? last + 1 : lines;
	if (*last)
		snprintf(text, size, "%s", last);
	else
		snprintf(text, size, "ssh ended with status %d", connection->status);
}

bool connection_was_lost(const struct connection *connection)
{
	char lines[TAIL_TEXT_SIZE];

	/* The job may have ended with this status, too, and has named it then. */
	tail_text(&connection->errors, lines);
	return connection->status == SSH_FAILED && !strstr(lines, "exited with status 255");
}
