#include "run/output/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ESCAPE '\033'
#define BELL '\a'

void tail_write(struct tail *tail, const char *data, size_t size)
{
	size_t kept = tail->size;

	if (size >= TAIL_SIZE) {
		tail->cut = tail->cut || size > TAIL_SIZE || kept > 0;
		data += size - TAIL_SIZE;
		size = TAIL_SIZE;
		kept = 0;
	} else if (kept + size > TAIL_SIZE) {
		kept = TAIL_SIZE - size;
		memmove(tail->data, tail->data + tail->size - kept, kept);
		tail->cut = true;
	}
	memcpy(tail->data + kept, data, size);
	tail->size = kept + size;
}

bool tail_read_file(struct tail *tail, const char *path)
{
	/* A rank may have put something else in the place of its file. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error;
	struct stat file;
	ssize_t size = -1;

	*tail = (struct tail){ 0 };
	if (fd < 0)
		return false;
	if (fstat(fd, &file) == 0) {
		off_t from = file.st_size > TAIL_SIZE ? file.st_size - TAIL_SIZE : 0;

		size = pread(fd, tail->data, TAIL_SIZE, from);
		tail->size = size > 0 ? (size_t)size : 0;
		tail->cut = from > 0;
	}
	error = errno;
	close(fd);
	errno = error;
	return size >= 0;
}

/* Returns the end of the escape sequence that begins at `at`. */
static const char *skip_escape(const char *at, const char *end)
{
	if (++at == end)
		return end;
	if (*at == '[') { /* parameters, then one letter or sign */
		for (at++; at < end && (unsigned char)*at < 0x40; at++)
			;
	} else if (*at == ']') { /* a text, such as the window's title */
		for (at++; at < end && *at != BELL && *at != ESCAPE; at++)
			;
		if (at < end && *at == ESCAPE)
			at++;
	}
	return at < end ? at + 1 : end;
}

/* Copies what a screen shows of the bytes; returns the size. */
static size_t copy_shown(const char *at, const char *end, char *text)
{
	size_t size = 0, line = 0; /* `line`: where the last one begins */

	while (at < end) {
		unsigned char byte = (unsigned char)*at;

		if (byte == ESCAPE) {
			at = skip_escape(at, end);
			continue;
		}
		if (byte == '\r' && at + 1 < end && at[1] != '\n')
			size = line;
		else if (byte == '\n' || byte == '\t' || (byte >= ' ' && byte != 0x7f))
			text[size++] = *at;
		if (byte == '\n')
			line = size;
		at++;
	}
	return size;
}

/* Where the last TAIL_LINES lines of the text begin; it ends with '\n'. */
static size_t first_line(const char *text, size_t size)
{
	int lines = 0;

	while (size > 0) {
		lines += text[size - 1] == '\n';
		if (lines > TAIL_LINES)
			break;
		size--;
	}
	return size;
}

void tail_text(const struct tail *tail, char text[TAIL_TEXT_SIZE])
{
	const char *from = tail->data, *end = from + tail->size, *whole;
	size_t size, first;

	whole = tail->cut ? memchr(from, '\n', tail->size) : NULL;
	if (whole && whole + 1 < end)
		from = whole + 1;
	else if (tail->cut)
		while (from < end && ((unsigned char)*from & 0xc0) == 0x80)
			from++; /* the rest of a character of UTF-8 */
	size = copy_shown(from, end, text);
	while (size > 0 && strchr("\n\t ", text[size - 1]))
		size--;
	if (size > 0)
		text[size++] = '\n';
	first = first_line(text, size);
	memmove(text, text + first, size - first);
	text[size - first] = '\0';
}
