#include "files.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/error.h"

static int read_all(FILE *file, const char *path, size_t most, char *text, size_t *size)
{
	*size = fread(text, 1, most + 1, file);
	if (ferror(file))
		return rd_fail_errno("cannot read %s", path);
	if (*size > most)
		return rd_fail(RONDO_INVALID, "%s has more than %zu bytes", path, most);
	text[*size] = 0;
	return 0;
}

int file_read(const char *path, size_t most, char **text, size_t *size)
{
	bool named = strcmp(path, "-") != 0;
	FILE *file = named ? rd_fopen(path, O_RDONLY) : stdin;
	int err;

	*text = NULL;
	if (!file)
		return rd_fail_errno("cannot read %s", path);
	*text = malloc(most + 1);
	err = *text ? read_all(file, path, most, *text, size)
		    : rd_fail(RONDO_MEMORY, "no memory to read %s", path);
	if (named)
		fclose(file);
	if (err) {
		free(*text);
		*text = NULL;
	}
	return err;
}

FILE *file_create(const char *name)
{
	FILE *file = strcmp(name, "-") == 0 ? stdout : rd_fopen(name, O_WRONLY | O_CREAT | O_TRUNC);

	if (!file)
		rd_fail_errno("cannot write %s", name);
	return file;
}

int file_close(FILE *file, const char *name)
{
	bool named = file != stdout;
	int failed = ferror(file);

	/* A full disk shows here at the latest. */
	failed |= named ? fclose(file) : fflush(file);
	return failed ? rd_fail_errno("cannot write %s", named ? name : "standard output") : 0;
}

int file_save(const char *name, const char *bytes, size_t size)
{
	FILE *file = file_create(name);

	if (!file)
		return RONDO_SYSTEM;
	fwrite(bytes, 1, size, file);
	return file_close(file, name);
}
