#include "file_tree.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char tree_root[64], tree_file[80];

void tree_begin(void)
{
	strcpy(tree_root, "/tmp/tree.XXXXXX");
	cr_assert_not_null(mkdtemp(tree_root));
	snprintf(tree_file, sizeof(tree_file), "%s/file", tree_root);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *at)
{
	(void)status;
	(void)kind;
	(void)at;
	return remove(path);
}

void tree_end(void)
{
	nftw(tree_root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
}

void tree_put(const char *text, const char *format, ...)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/", tree_root);
	va_list args;

	va_start(args, format);
	vsnprintf(path + length, sizeof(path) - (size_t)length, format, args);
	va_end(args);
	make_folders(path);
	FILE *file = fopen(path, "w");
	cr_assert_not_null(file, "%s", path);
	fprintf(file, "%s\n", text);
	fclose(file);
}

void tree_link(const char *link, const char *target)
{
	char path[PATH_MAX], to[PATH_MAX];
	bool relative = !strncmp(target, "../", 3);

	snprintf(to, sizeof(to), "%s%s%s", relative ? "" : tree_root, relative ? "" : "/", target);
	snprintf(path, sizeof(path), "%s/%s", tree_root, link);
	make_folders(path);
	cr_assert_eq(symlink(to, path), 0, "%s", path);
}
