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
