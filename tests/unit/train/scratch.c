#include "train/scratch.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "train/base/fail.h"

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

/* ---- Data sets ---- */

void files_gzip(const char *name, const void *bytes, unsigned size)
{
	gzFile file = gzopen(scratch_path(name), "wb");
	cr_assert(file);
	cr_assert_eq(gzwrite(file, bytes, size), (int)size);
	cr_assert_eq(gzclose(file), Z_OK);
}

size_t files_read(const char *name, void *bytes, size_t room)
{
	FILE *file = fopen(scratch_path(name), "rb");
	cr_assert(file);
	size_t size = fread(bytes, 1, room, file);
	fclose(file);
	return size;
}

struct data_source files_source(const struct data_kind *kind, const char *name)
{
	struct data_source source = { .kind = kind, .window = FILES_WINDOW };
	snprintf(source.path, sizeof(source.path), "%s", scratch_path(name));
	return source;
}

struct data *files_open(const struct data_kind *kind, const char *name, enum data_part part)
{
	struct data_source source = files_source(kind, name);
	struct data *data;
	cr_assert_eq(data_open(&data, &source, part), 0, "%s", failure());
	return data;
}

void files_refuse(const struct data_kind *kind, const char *name, enum data_part part,
	const char *file, const char *reason)
{
	struct data_source source = files_source(kind, name);
	struct data *data;
	cr_assert_neq(data_open(&data, &source, part), 0, "no failure: %s", reason);
	cr_assert_null(data);
	cr_assert(strstr(failure(), file), "%s is not in: %s", file, failure());
	cr_assert(strstr(failure(), reason), "'%s' is not in: %s", reason, failure());
	cr_assert_null(strchr(failure(), '\n'));
}

double entropy_of_bytes(const char *path)
{
	FILE *file = fopen(path, "r");
	double counts[256] = { 0 }, all = 0, entropy = 0;
	cr_assert_not_null(file, "%s", path);
	for (int byte; (byte = getc(file)) != EOF; all++)
		counts[byte]++;
	fclose(file);
	for (int byte = 0; byte < 256; byte++)
		entropy -= counts[byte] ? counts[byte] / all * log(counts[byte] / all) : 0;
	return entropy;
}

/* ---- Metrics ---- */

struct rows read_rows(const char *path)
{
	struct rows rows = { 0 };
	const struct metrics_format *format = metrics_format_of(path);
	char line[1024], *end;
	FILE *file = fopen(path, "r");
	cr_assert(file, "%s", path);
	while (fgets(line, sizeof(line), file) && (end = strchr(line, '\n'))) {
		*end = '\0';
		bool is_head = !rows.size && format->head_line;
		rows.size += end - line + 1;
		if (is_head)
			cr_assert_str_eq(line, format->head_line);
		else
			cr_assert(format->read_row(line, &rows.rows[rows.count++]), "%s", line);
	}
	fclose(file);
	return rows;
}
