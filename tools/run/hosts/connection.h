/*
 * The connection with rondo-run on one host, through ssh (remote.h).
 */
#ifndef RUN_HOSTS_CONNECTION_H
#define RUN_HOSTS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "run/base/polls.h"
#include "run/hosts/list.h"
#include "run/output/console.h"
#include "run/output/lines.h"
#include "run/output/tail.h"

/* A process of ssh, which runs rondo-run on a host (ssh.c). */
struct ssh {
	pid_t pid;
	int pidfd;
	int in, out, err; /* our ends of its pipes, non-blocking */
};

/* Starts it, in a process group of its own. False, with one line on stderr, where that fails. */
bool ssh_start(struct ssh *ssh, const char *host, const char *program);
/* How rondo-run is started there: by its path, or by its name if we were. */
const char *ssh_program(const char *called);

enum connection_state {
	CONNECTION_OPENS,
	CONNECTION_READY, /* rondo-run there has answered, and waits */
	CONNECTION_RUNS, /* it has its arguments, and its output is passed on */
	CONNECTION_ENDED,
};

struct connection {
	const struct host *host;
	enum connection_state state;
	struct ssh ssh;
	struct sink in; /* its stdin; fd -1: closed */
	struct lines out, err; /* once it runs */
	char answer[256]; /* the line that it writes as it opens */
	size_t answer_size;
	char version[64], address[128]; /* once ready: of rondo-run there, and of the host */
	struct tail errors; /* the last lines of stderr */
	int status; /* once ended: the exit status of ssh, or 128 + signal */
	int first_poll;
};

/* False, with one line on stderr, where ssh cannot be started: the state is ENDED then. */
bool connection_open(struct connection *connection, const struct host *host, const char *program);

/* From READY to RUNS: sends it the strings. */
void connection_run(
	struct connection *connection, struct console *console, const char *strings, size_t size);

/* Sends a signal, if it runs. */
void connection_signal(struct connection *connection, int signal);

/* Closes its stdin: rondo-run there ends its ranks. */
void connection_close(struct connection *connection);

void connection_add_polls(struct connection *connection, struct polls *polls);
/* Reads, writes, and changes the state to READY or ENDED. */
void connection_take_polls(struct connection *connection, const struct polls *polls);

/* Once ended, prints unfinished lines. Ends ssh where it has not. */
void connection_finish(struct connection *connection);

/* Writes the reason why it ended without a job, as a part of a line. */
void connection_explain(
	const struct connection *connection, const char *program, char *text, size_t size);

/* Whether ssh, and not the job, gave the exit status. */
bool connection_was_lost(const struct connection *connection);

#endif
