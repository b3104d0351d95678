#include "tuner/cost_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "tuner/tuner_rows.h"

#define FILE_MAX (1 << 20)
#define TEXT_MAX 2048 /* one section */
#define REMEMBERED_MAX 16

/* ---- In this process ------------------------------------------------------------------------ */

static struct {
	char key[RD_COST_KEY_SIZE];
	struct rd_costs costs;
} remembered[REMEMBERED_MAX];
static int remembered_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool recall(const char *key, struct rd_costs *costs)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < remembered_count && !found; i++) {
		found = strcmp(remembered[i].key, key) == 0;
		if (found)
			*costs = remembered[i].costs;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void remember(const char *key, const struct rd_costs *costs)
{
	pthread_mutex_lock(&lock);
	if (remembered_count < REMEMBERED_MAX) {
		snprintf(remembered[remembered_count].key, RD_COST_KEY_SIZE, "%s", key);
		remembered[remembered_count++].costs = *costs;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- In the file ---------------------------------------------------------------------------- */

char *rd_cost_file_text(const char *path, const char **wrong)
{
	int fd = rd_above_stderr(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	char *text = NULL;
	struct stat about;
	ssize_t got;

	*wrong = NULL;
	if (fd < 0) {
		if (errno != ENOENT)
			*wrong = strerror(errno);
		return NULL;
	}
	if (fstat(fd, &about) || !S_ISREG(about.st_mode) || about.st_size > FILE_MAX)
		*wrong = "it is no file of at most 1 MiB";
	else
		text = malloc((size_t)about.st_size + 1);
	if (text) {
		got = read(fd, text, (size_t)about.st_size);
		text[got > 0 ? got : 0] = '\0';
		if (got != about.st_size || strlen(text) != (size_t)got)
			*wrong = "it cannot be read whole, or is no text";
	}
	close(fd);
	if (*wrong) {
		free(text);
		text = NULL;
	}
	return text;
}

/* A file that is being read: the rest of its text, and the number of that text's first line. */
struct reader {
	const char *text;
	int line;
	char wrong[200]; /* the error in `line`; empty: none so far */
};

static bool complain(struct reader *reader, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool complain(struct reader *reader, int line, const char *format, ...)
{
	va_list args;

	reader->line = line;
	va_start(args, format);
	vsnprintf(reader->wrong, sizeof(reader->wrong), format, args);
	va_end(args);
	return false;
}

static int lines_in(const char *text, size_t length)
{
	int lines = 0;

	for (size_t i = 0; i < length; i++)
		lines += text[i] == '\n';
	return lines;
}

static void move_on(struct reader *reader, size_t length)
{
	reader->line += lines_in(reader->text, length);
	reader->text += length;
}

/* "[key]\n" */
static bool read_key(struct reader *reader, char key[RD_COST_KEY_SIZE])
{
	const char *text = reader->text;
	size_t length = strcspn(text, "\n");

	if (length < 2 || length >= RD_COST_KEY_SIZE + 2 || text[0] != '[' ||
		text[length - 1] != ']')
		return complain(reader, reader->line, "\"%.*s\" should be [a key]",
			length < 40 ? (int)length : 40, text);
	snprintf(key, RD_COST_KEY_SIZE, "%.*s", (int)length - 2, text + 1);
	move_on(reader, length + (text[length] == '\n'));
	return true;
}

/* Reads a section, its key and its lines, and moves on behind it. */
static bool read_section(struct reader *reader, char key[RD_COST_KEY_SIZE], struct rd_costs *costs)
{
	char lines[TEXT_MAX], wrong[sizeof(reader->wrong)];
	int begin = reader->line, line;
	const char *end;
	size_t body;

	if (!read_key(reader, key))
		return false;
	end = strstr(reader->text, "\n[");
	body = *reader->text == '[' ? 0
	       : end                ? (size_t)(end - reader->text) + 1
				    : strlen(reader->text);
	if (body >= TEXT_MAX)
		return complain(reader, begin, "[%.60s] is too long", key);
	memcpy(lines, reader->text, body);
	lines[body] = '\0';
	if (!rd_costs_read(costs, lines, &line, wrong, sizeof(wrong)))
		return complain(reader, line > 0 ? begin + line : begin, "%s", wrong);
	move_on(reader, body);
	return true;
}

/* 1: found, 0: not there, -1: a malformed file, or one of rows. Reads the whole file, to find every
   error. */
static int search(
	const char *path, const char *text, const char *key, struct rd_costs *costs, bool warns)
{
	struct reader reader = { .text = text, .line = 1 };
	char there[RD_COST_KEY_SIZE];
	struct rd_costs read = { 0 };
	int found = 0;

	if (rd_tuner_is_csv(text))
		return -1;
	while (*reader.text) {
		if (!read_section(&reader, there, &read)) {
			rd_log(warns ? RD_WARN : RD_TRACE, RD_PICK,
				"RONDO_TUNE_FILE %s is not used: line %d: %s. Correct or remove it",
				path, reader.line, reader.wrong);
			return -1;
		}
		if (strcmp(there, key) == 0) {
			*costs = read;
			found = 1;
		}
	}
	return found;
}

static int write_all(int fd, const char *text, size_t size)
{
	while (size > 0) {
		ssize_t written = write(fd, text, size);

		if (written < 0)
			return -1;
		text += written;
		size -= (size_t)written;
	}
	return 0;
}

/* Writes the old text and the new section. Returns -1 with errno set on failure. */
static int write_file(int fd, const char *text, const char *section)
{
	size_t length = strlen(text);
	bool ends = length == 0 || text[length - 1] == '\n';

	if (write_all(fd, text, length) || write_all(fd, "\n", !ends))
		return -1;
	return write_all(fd, section, strlen(section));
}

/*
 * Writes a new file beside the old one and renames it, so no job reads half a file, and a full disk
 * leaves the old one. Two jobs that end at the same time may lose the section of one, whose next
 * run measures again.
 */
static int replace(const char *path, const char *text, const char *section)
{
	char beside[PATH_MAX], target[PATH_MAX];
	int fd, length;

	/* A symbolic link stays, and the file behind it is replaced. */
	if (realpath(path, target))
		path = target;
	length = snprintf(beside, sizeof(beside), "%s.%d", path, (int)syscall(SYS_gettid));

	if (length >= (int)sizeof(beside)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	unlink(beside); /* a killed process may have left it */
	fd = rd_above_stderr(open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
	if (fd < 0)
		return -1;

	int err = write_file(fd, text, section) ? errno : 0;

	if (close(fd) && !err)
		err = errno;
	if (!err && rename(beside, path))
		err = errno;
	if (err)
		unlink(beside);
	errno = err;
	return err ? -1 : 0;
}

static void add_section(
	const char *path, const char *text, const char *key, const struct rd_costs *costs)
{
	char section[RD_COST_KEY_SIZE + TEXT_MAX];
	int length = snprintf(section, sizeof(section), "[%s]\n", key);

	rd_costs_print(costs, section + length, sizeof(section) - (size_t)length);
	if (replace(path, text, section))
		rd_log(RD_WARN, RD_PICK, "cannot write RONDO_TUNE_FILE %s: %s", path,
			strerror(errno));
}

/* ---- Both ----------------------------------------------------------------------------------- */

bool rd_cost_file_find(const char *path, const char *key, struct rd_costs *costs)
{
	const char *wrong = NULL;
	char *text = *path ? rd_cost_file_text(path, &wrong) : NULL;
	/* The file goes first: its author set these costs on purpose. */
	bool found = text && search(path, text, key, costs, true) > 0;

	if (wrong)
		rd_log(RD_WARN, RD_PICK, "RONDO_TUNE_FILE %s is not used: %s", path, wrong);
	free(text);
	return found || recall(key, costs);
}

void rd_cost_file_keep(const char *path, const char *key, const struct rd_costs *costs)
{
	const char *wrong = NULL;
	char *text = *path ? rd_cost_file_text(path, &wrong) : NULL;
	struct rd_costs there;

	remember(key, costs);
	if (*path && !wrong && search(path, text ? text : "", key, &there, false) == 0)
		add_section(path, text ? text : "", key, costs);
	free(text);
}
