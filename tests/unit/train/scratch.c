#include "train/scratch.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[256];
static int entries;

void scratch_make(void)
{
	const char *root = getenv("TMPDIR");
	snprintf(dir, sizeof(dir), "%s/rondo-train-XXXXXX", root ? root : "/tmp");
	cr_assert(mkdtemp(dir));
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where)
{
	(void)about, (void)type, (void)where;
	return remove(path);
}

void scratch_remove(void)
{
	nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_path(const char *name)
{
	static char paths[32][512];
	static int next;
	char *path = paths[next++ % 32];
	snprintf(path, sizeof(paths[0]), "%s%s%s", dir, *name ? "/" : "", name);
	return path;
}

void scratch_write(const char *name, const void *bytes, unsigned long size)
{
	FILE *file = fopen(scratch_path(name), "wb");
	cr_assert(file);
	cr_assert_eq(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

static int count_entry(const char *path, const struct stat *about, int type, struct FTW *where)
{
	(void)path, (void)about, (void)type;
	entries += where->level > 0;
	return 0;
}

int scratch_count(void)
{
	entries = 0;
	nftw(dir, count_entry, 8, FTW_PHYS);
	return entries;
}
