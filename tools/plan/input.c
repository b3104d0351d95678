#include "input.h"

#include <stdbool.h>
#include <stdio.h>
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

int plan_input_read(const char *path, size_t most, char **text, size_t *size)
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
