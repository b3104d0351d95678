/* The files of a Chakra trace in a directory of the test. */
#ifndef CHAKRA_FILES_H
#define CHAKRA_FILES_H

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "file_tree.h"
#include "plan/chakra_node.h"

static char name[PATH_MAX]; /* of the files, without rank and ending */

/* Skips the test in a build without protobuf-c. */
static inline void chakra_files_begin(void)
{
	char *bytes = NULL;
	size_t size;
	FILE *out = open_memstream(&bytes, &size);
	int err = chakra_begin(out);

	fclose(out);
	free(bytes);
	if (err)
		cr_skip_test("rondo-plan was built without protobuf-c");
	tree_begin();
	snprintf(name, sizeof(name), "%s/t", tree_root);
}

static inline const char *path_of(int rank)
{
	static char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s.%d.et", name, rank);
	return path;
}

#endif
