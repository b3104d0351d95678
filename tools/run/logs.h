/*
 * The log files of the ranks: LOG_DIR/RUN_ID/attempt_N/LOCAL_RANK/{stdout,stderr}.log, and the
 * place where torch's programs describe an error.
 */
#ifndef RUN_LOGS_H
#define RUN_LOGS_H

#include <stdbool.h>

#include "run/options.h"
#include "run/output/console.h"
#include "run/world.h"

/* Bytes of a path, the last a zero. */
#define LOG_PATH_SIZE 1024

/* The way of an output of a rank. */
enum output_mode {
	OUTPUT_INHERIT, /* it has our own stdout or stderr */
	OUTPUT_PRINT, /* through us to the console */
	OUTPUT_REDIRECT, /* it writes into its log file */
	OUTPUT_TEE, /* through us into the log file and to the console */
	OUTPUT_HIDE, /* it is not shown */
};

struct output {
	enum output_mode mode;
	int file; /* REDIRECT, TEE: the log file; else -1 */
};

struct rank_logs {
	struct output out, err;
	int error_fd; /* an error file without a name; -1: it is in the folder */
	char error_path[LOG_PATH_SIZE]; /* TORCHELASTIC_ERROR_FILE */
};

struct logs {
	const struct options *options;
	char base[LOG_PATH_SIZE]; /* LOG_DIR; "": there are no log files */
	char run[LOG_PATH_SIZE]; /* this run's folder in it; "": not made yet */
	char attempt[LOG_PATH_SIZE]; /* the attempt's folder in that */
};

/* Makes LOG_DIR where one is given. False, with one line on stderr, where it cannot be written. */
bool logs_init(struct logs *logs, const struct options *options);

/*
 * Makes the folders of an attempt; without LOG_DIR in a fresh folder under TMPDIR, if files are
 * asked for. A run does not write over the logs of another one: where RUN_ID is there, the folder
 * becomes RUN_ID.1, and so on. A line on the console names a fresh folder, or such a name. False,
 * with one line on stderr, where a folder cannot be made.
 */
bool logs_start_attempt(struct logs *logs, const struct world *world, struct console *console);

/* Opens the files of a rank. False, with one line on stderr, where that fails: nothing is open
   then. rank_logs_close() closes them. */
bool logs_open(const struct logs *logs, int local_rank, int local_size, struct rank_logs *rank);
void rank_logs_close(struct rank_logs *rank);

/* Open files that a rank's logs take while it runs. */
int logs_files_of_rank(const struct options *options);

/* The path of a rank's file, such as "stderr.log". */
void logs_path(const struct logs *logs, int local_rank, const char *file, char path[LOG_PATH_SIZE]);

#endif
