#include "train/data/files.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "train/base/fail.h"
#include "train/scratch.h"

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
