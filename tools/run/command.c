#include "run/command.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCAL_RANK "${local_rank}"

/* Words before the program: python, -u, and -m or -c with its text. */
#define PREFIX_MAX 4

/* python -c leaves "-c" in sys.argv[0]. */
#define RUN_PATH \
	"import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"

/* Whether the kernel finds an interpreter's name in the file. */
static bool names_interpreter(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char start[2] = "";
	bool found = fd >= 0 && read(fd, start, 2) == 2 && memcmp(start, "#!", 2) == 0;

	if (fd >= 0)
		close(fd);
	return found;
}

/* Without a "/" in its name, the kernel would look for it in PATH alone. */
static bool needs_python(const char *path)
{
	size_t length = strlen(path);
	struct stat file;

	if (length < 3 || strcmp(path + length - 3, ".py") != 0 || stat(path, &file) < 0 ||
		!S_ISREG(file.st_mode))
		return false;
	return !strchr(path, '/') || access(path, X_OK) < 0 || !names_interpreter(path);
}

static const char *python_file(void)
{
	const char *file = getenv("PYTHON_EXEC");

	return file && *file ? file : "python3";
}

static bool runs_python(const struct options *options)
{
	if (options->module || options->run_path)
		return true;
	return !options->no_python && needs_python(options->command[0]);
}

const char *command_file(const struct options *options)
{
	return runs_python(options) ? python_file() : options->command[0];
}

/* Replaces each LOCAL_RANK in the word; NULL without memory. */
static char *substitute(char *word, int local_rank)
{
	size_t size = strlen(word) + 1, length = 0;
	const char *from = word, *found;
	/* No number is longer than the text that it replaces. */
	char *result = strstr(word, LOCAL_RANK) ? malloc(size) : word;

	while (result && result != word && (found = strstr(from, LOCAL_RANK))) {
		memcpy(result + length, from, (size_t)(found - from));
		length += (size_t)(found - from);
		length += (size_t)snprintf(result + length, size - length, "%d", local_rank);
		from = found + strlen(LOCAL_RANK);
	}
	if (result && result != word)
		strcpy(result + length, from);
	return result;
}

void command_execute(const struct options *options, int local_rank)
{
	bool python = runs_python(options);
	char **words, **program = options->command;
	int count = 0, used = 0;

	while (program[count])
		count++;
	words = calloc((size_t)count + PREFIX_MAX + 1, sizeof(*words));
	if (!words)
		return;
	if (python) {
		words[used++] = (char *)python_file();
		words[used++] = "-u"; /* lines arrive when they are printed */
		setenv("PYTHON_EXEC", words[0], 0);
	}
	if (options->run_path) {
		words[used++] = "-c";
		words[used++] = RUN_PATH;
	} else if (options->module) {
		words[used++] = "-m";
	}
	words[used++] = program[0];
	for (int i = 1; i < count; i++) {
		words[used] = substitute(program[i], local_rank);
		if (!words[used++])
			return;
	}
	execvp(words[0], words);
}

/* ---- The environment ------------------------------------------------------------------------- */

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* Those that torch reads where the user has not chosen. */
static void set_defaults(const struct world *world, int threads)
{
	/* A rank that waits for a failed one must end. The first name is that of old versions. */
	setenv("NCCL_ASYNC_ERROR_HANDLING", "1", 0);
	setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 0);
	if (world->local_size > 1 && !getenv("OMP_NUM_THREADS"))
		set_number("OMP_NUM_THREADS", threads);
}

void environment_set(const struct options *options, const struct world *world, int local_rank,
	int threads, int rendezvous_fd, int secret_fd)
{
	int rank = world->first + local_rank;

	set_number("RANK", rank);
	set_number("LOCAL_RANK", local_rank);
	set_number("WORLD_SIZE", world->size);
	set_number("LOCAL_WORLD_SIZE", world->local_size);
	set_number("GROUP_RANK", world->node);
	set_number("GROUP_WORLD_SIZE", world->nodes);
	set_number("ROLE_RANK", rank);
	set_number("ROLE_WORLD_SIZE", world->size);
	setenv("ROLE_NAME", options->role, 1);
	unsetenv("RONDO_LAUNCHER"); /* these variables are torchrun's */
	setenv("MASTER_ADDR", world->address, 1);
	set_number("MASTER_PORT", world->port);
	set_number("RONDO_PORT", world->rondo_port);
	setenv("TORCHELASTIC_RUN_ID", world->run_id, 1);
	set_number("TORCHELASTIC_RESTART_COUNT", world->restarts);
	set_number("TORCHELASTIC_MAX_RESTARTS", options->max_restarts);
	/* No store of ours listens at MASTER_PORT: rank 0 opens its own. */
	setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1);
	setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", options->signal_names, 1);
	set_defaults(world, threads);
	if (rank == 0 && rendezvous_fd >= 0)
		set_number("RONDO_RENDEZVOUS_FD", rendezvous_fd);
	else
		unsetenv("RONDO_RENDEZVOUS_FD");
	if (secret_fd >= 0)
		set_number("RONDO_SECRET_FD", secret_fd);
	else
		unsetenv("RONDO_SECRET_FD");
}
