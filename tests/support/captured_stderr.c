#include "captured_stderr.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
