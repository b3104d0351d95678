/*
 * How a rank failed, as data that nodes exchange, and the report of the first failure of a job.
 */
#ifndef RUN_FAILURE_H
#define RUN_FAILURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "run/output/console.h"
#include "run/output/tail.h"

/* Bytes, the last a zero. */
#define HOST_SIZE 128
#define FAILURE_MESSAGE_SIZE 512
#define FAILURE_LOG_SIZE 1024
#define FAILURE_TAIL_SIZE TAIL_TEXT_SIZE

struct failure {
	int rank, local_rank; /* -1: the whole node was lost */
	int node; /* -1: not known, of a lost one */
	pid_t pid;
	char host[HOST_SIZE]; /* its name */
	int status; /* the exit status, or 128 + signal */
	bool by_signal;
	int64_t at_ms; /* ms since the epoch, on the clock of the job's host */
	int64_t after_ms; /* ms since the job's start, on the same clock */
	char message[FAILURE_MESSAGE_SIZE]; /* from TORCHELASTIC_ERROR_FILE; "": none */
	char log[FAILURE_LOG_SIZE]; /* path of its stderr.log on its host; "": none */
	char tail[FAILURE_TAIL_SIZE]; /* the last lines of its stderr; "": none are known */
};

/* Writes "rank 2 (pid 123) was killed by signal 9 (Killed)". */
void failure_describe(const struct failure *failure, char *text, size_t size);

/* Whether it goes before an earlier one as the cause: a lost node, then a death by signal. The
   kernel reports these late, when others have failed because of them. */
bool failure_outranks(const struct failure *failure, const struct failure *earlier);

/* Reads the message in a file of TORCHELASTIC_ERROR_FILE's format, JSON; "" where there is none. */
void failure_read_message(struct failure *failure, const char *path);

/* Prints the report: several lines, the first with "first failure:". */
void failure_report(const struct failure *failure, struct console *console);

#endif
