#include "run/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/base/descriptor.h"

/* Bytes that the names below LOG_DIR take at most. */
#define NAMES_SIZE (RUN_ID_SIZE + 64)
/* Runs of one id whose logs may stand side by side. */
#define RUNS_MAX 10000

/* ---- The ways of a rank's outputs ------------------------------------------------------------ */

static int streams_of(const struct streams *streams, int local_rank)
{
	for (const char *at = streams->listed; at && *at;) {
		char *end;
		long rank = strtol(at, &end, 10);

		if (rank == local_rank && *end == ':')
			return atoi(end + 1);
		at = strchr(at, ',');
		at += at != NULL;
	}
	return streams->all;
}

static bool is_shown(const struct options *options, int local_rank)
{
	for (const char *at = options->shown; at && *at;) {
		if (strtol(at, NULL, 10) == local_rank)
			return true;
		at = strchr(at, ',');
		at += at != NULL;
	}
	return !options->shown;
}

static enum output_mode mode_of(
	const struct options *options, int stream, int local_rank, int local_size)
{
	bool shown = is_shown(options, local_rank);

	if (streams_of(&options->tee, local_rank) & stream)
		return shown ? OUTPUT_TEE : OUTPUT_REDIRECT;
	if (streams_of(&options->redirects, local_rank) & stream)
		return OUTPUT_REDIRECT;
	if (!shown)
		return OUTPUT_HIDE;
	/* There are no lines of others to keep apart from. */
	return local_size == 1 && !options->tag ? OUTPUT_INHERIT : OUTPUT_PRINT;
}

static bool asks_for_files(const struct options *options)
{
	return options->redirects.all || options->redirects.listed || options->tee.all ||
	       options->tee.listed;
}

int logs_files_of_rank(const struct options *options)
{
	return (options->tee.all || options->tee.listed ? 2 : 0) + !options->log_dir;
}

/* ---- Folders --------------------------------------------------------------------------------- */

static bool report(const char *what, const char *path)
{
	fprintf(stderr, "rondo-run: cannot %s %s: %m\n", what, path);
	return false;
}

/* NAMES_SIZE leaves room for all names. */
static void join(char path[LOG_PATH_SIZE], const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void join(char path[LOG_PATH_SIZE], const char *format, ...)
{
	va_list names;

	va_start(names, format);
	vsnprintf(path, LOG_PATH_SIZE, format, names);
	va_end(names);
}

/* Makes the folder and those above it. */
static bool make_folders(const char *path)
{
	char part[LOG_PATH_SIZE];

	for (size_t i = 1; path[i]; i++) {
		if (path[i] != '/')
			continue;
		join(part, "%.*s", (int)i, path);
		if (mkdir(part, 0777) < 0 && errno != EEXIST)
			return report("make the folder of logs", part);
	}
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		return report("make the folder of logs", path);
	return true;
}

static bool make_base(struct logs *logs, const char *path)
{
	struct stat folder;
	char *real;

	if (strlen(path) >= LOG_PATH_SIZE - NAMES_SIZE) {
		errno = ENAMETOOLONG;
		return report("write logs to", path);
	}
	if (!make_folders(path))
		return false;
	if (stat(path, &folder) == 0 && !S_ISDIR(folder.st_mode)) {
		errno = ENOTDIR;
		return report("write logs to", path);
	}
	/* A rank may change its folder: the path is absolute. */
	if (access(path, W_OK | X_OK) < 0 || !(real = realpath(path, NULL)))
		return report("write logs to", path);
	if (strlen(real) < LOG_PATH_SIZE - NAMES_SIZE)
		join(logs->base, "%s", real);
	free(real);
	errno = ENAMETOOLONG;
	return logs->base[0] || report("write logs to", path);
}

static bool make_fresh_base(struct logs *logs, struct console *console)
{
	const char *temporary = getenv("TMPDIR");
	char path[LOG_PATH_SIZE];

	if (!temporary || !*temporary)
		temporary = "/tmp";
	if (strlen(temporary) >= LOG_PATH_SIZE - NAMES_SIZE - sizeof("/rondo-run_XXXXXX")) {
		errno = ENAMETOOLONG;
		return report("write logs to", temporary);
	}
	join(path, "%s/rondo-run_XXXXXX", temporary);
	if (!mkdtemp(path))
		return report("make a folder of logs in", temporary);
	console_print(console, "logs are in %s", path);
	return make_base(logs, path);
}

bool logs_init(struct logs *logs, const struct options *options)
{
	*logs = (struct logs){ .options = options };
	return !options->log_dir || make_base(logs, options->log_dir);
}

/* A run id is any text; as a name it must not lead out of LOG_DIR. */
static void name_of_run(const char *run_id, char name[RUN_ID_SIZE])
{
	snprintf(name, RUN_ID_SIZE, "%s", *run_id ? run_id : "none");
	for (char *at = name; *at; at++)
		if (*at == '/')
			*at = '_';
	if (name[0] == '.')
		name[0] = '_';
}

static bool make_run(struct logs *logs, const char *run_id, struct console *console)
{
	char name[RUN_ID_SIZE], path[LOG_PATH_SIZE];
	int i = 0;

	name_of_run(run_id, name);
	join(path, "%s/%s", logs->base, name);
	while (mkdir(path, 0777) < 0) {
		if (errno != EEXIST || ++i == RUNS_MAX)
			return report("make the folder of logs", path);
		join(path, "%s/%s.%d", logs->base, name, i);
	}
	if (i > 0)
		console_print(console, "logs are in %s, for %s was there", path, name);
	join(logs->run, "%s", path);
	return true;
}

bool logs_start_attempt(struct logs *logs, const struct world *world, struct console *console)
{
	char path[LOG_PATH_SIZE];

	if (!logs->base[0] && !asks_for_files(logs->options))
		return true;
	if (!logs->base[0] && !make_fresh_base(logs, console))
		return false;
	if (!logs->run[0] && !make_run(logs, world->run_id, console))
		return false;
	join(logs->attempt, "%s/attempt_%d", logs->run, world->attempt);
	if (mkdir(logs->attempt, 0777) < 0)
		return report("make the folder of logs", logs->attempt);
	for (int i = 0; i < world->local_size; i++) {
		logs_path(logs, i, "", path);
		if (mkdir(path, 0777) < 0)
			return report("make the folder of logs", path);
	}
	return true;
}

void logs_path(const struct logs *logs, int local_rank, const char *file, char path[LOG_PATH_SIZE])
{
	join(path, "%s/%d/%s", logs->attempt, local_rank, file);
}

/* ---- The files of a rank --------------------------------------------------------------------- */

static bool open_log(const struct logs *logs, int local_rank, const char *file, struct output *to)
{
	char path[LOG_PATH_SIZE];

	if (to->mode != OUTPUT_REDIRECT && to->mode != OUTPUT_TEE)
		return true;
	logs_path(logs, local_rank, file, path);
	/* Appending: the rank and what it starts may write side by side. */
	to->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
	return to->file >= 0 || report("make the log file", path);
}

/* Without a folder the file has no name: nothing of it stays, even when we are killed. */
static bool open_error_file(const struct logs *logs, int local_rank, struct rank_logs *rank)
{
	if (logs->base[0]) {
		logs_path(logs, local_rank, "error.json", rank->error_path);
		return true;
	}
	rank->error_fd = memfd_create("error.json", MFD_CLOEXEC);
	join(rank->error_path, "/proc/%d/fd/%d", (int)getpid(), rank->error_fd);
	return rank->error_fd >= 0 || report("make", "an error file in memory");
}

bool logs_open(const struct logs *logs, int local_rank, int local_size, struct rank_logs *rank)
{
	const struct options *options = logs->options;

	*rank = (struct rank_logs){
		.out = { mode_of(options, STREAM_OUT, local_rank, local_size), -1 },
		.err = { mode_of(options, STREAM_ERR, local_rank, local_size), -1 },
		.error_fd = -1,
	};
	if (open_log(logs, local_rank, "stdout.log", &rank->out) &&
		open_log(logs, local_rank, "stderr.log", &rank->err) &&
		open_error_file(logs, local_rank, rank))
		return true;
	rank_logs_close(rank);
	return false;
}

void rank_logs_close(struct rank_logs *rank)
{
	descriptor_close(&rank->out.file);
	descriptor_close(&rank->err.file);
	descriptor_close(&rank->error_fd);
}
