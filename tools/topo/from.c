#include "from.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "nccl.h"
#include "smi.h"

#define SIZE_MAX_READ (1 << 20)

/* text[size + 1] ends with 0. */
static int parse(struct rd_topology *topology, const char *path, char *text, size_t size)
{
	text[size] = '\0';
	/* A mark of UTF-8. */
	if (strncmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		size -= 3;
	}
	if (text[strspn(text, " \t\r\n")] == '<')
		return topo_nccl_parse(topology, path, text, size);
	return topo_smi_parse(topology, path, text, size);
}

int topo_from_load(struct rd_topology *topology, const char *path)
{
	FILE *file = strcmp(path, "-") ? rd_fopen(path, O_RDONLY) : stdin;
	char *text = malloc(SIZE_MAX_READ + 1);
	size_t size = file && text ? fread(text, 1, SIZE_MAX_READ + 1, file) : 0;
	int err;

	*topology = (struct rd_topology){ 0 };
	if (!file || ferror(file))
		err = rd_fail_errno("cannot read %s", path);
	else if (!text)
		err = rd_fail(RONDO_MEMORY, "no memory to read %s", path);
	else if (size > SIZE_MAX_READ)
		err = rd_fail(RONDO_INVALID, "%s: has more than %d bytes", path, SIZE_MAX_READ);
	else
		err = parse(topology, path, text, size);
	if (file && file != stdin)
		fclose(file);
	free(text);
	return err;
}
