#include "text.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int count_of(const char *text, const char *part)
{
	int found = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		found++;
	return found;
}

int warnings_of(const char *log)
{
	return count_of(log, " WARN ") - count_of(log, " WARN slow call: ");
}

char *file_text(int fd)
{
	static struct text {
		struct text *before;
		char bytes[];
	} * texts; /* which a leak checker sees */
	off_t size = lseek(fd, 0, SEEK_END);
	struct text *text = calloc(1, sizeof(*text) + (size_t)size + 1);

	cr_assert_not_null(text);
	cr_assert_eq(pread(fd, text->bytes, (size_t)size, 0), size);
	text->before = texts;
	texts = text;
	return text->bytes;
}

char *file_text_at(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0, "no %s", path);

	char *text = file_text(fd);

	close(fd);
	return text;
}

static int file, kept;

void captured_stderr_begin(void)
{
	file = memfd_create("stderr", MFD_CLOEXEC);
	kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	cr_assert(file >= 0 && kept >= 0);
	/* Processes write to it side by side. */
	cr_assert_eq(fcntl(file, F_SETFL, O_APPEND), 0);
	fflush(stderr);
	dup2(file, STDERR_FILENO);
}

const char *captured_stderr_end(void)
{
	static char text[256 << 10];
	ssize_t size;

	fflush(stderr);
	dup2(kept, STDERR_FILENO);
	close(kept);
	size = pread(file, text, sizeof(text) - 1, 0);
	close(file);
	text[size > 0 ? size : 0] = '\0';
	return text;
}
