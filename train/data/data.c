#include "train/data/data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/base/fail.h"

/* Finds dir/name or dir/name.gz; an empty path if there is neither. */
static int find_file(char path[PATH_MAX], const char *dir, const char *name)
{
	static const char *const endings[] = { "", ".gz" };
	for (int i = 0; i < 2; i++) {
		int length = snprintf(path, PATH_MAX, "%s/%s%s", dir, name, endings[i]);
		if (length >= PATH_MAX)
			return fail("%s: the name is too long", dir);
		if (!access(path, F_OK))
			return 0;
		if (errno != ENOENT && errno != ENOTDIR)
			return fail("%s: %s", path, strerror(errno));
	}
	path[0] = '\0';
	return 0;
}

int data_open_file(struct content *content, const char *dir, const char *name)
{
	char path[PATH_MAX];
	int err = find_file(path, dir, name);
	if (!err && !path[0])
		err = fail("%s: neither %s nor %s.gz is there", dir, name, name);
	return err ? err : content_open(content, path);
}

int data_find(bool *found, const char *dir, const struct data_kind *kind)
{
	char path[PATH_MAX], missing[256] = "";
	int present = 0, count = 0;
	*found = false;
	for (; kind->files[count]; count++) {
		size_t length = strlen(missing);
		int err = find_file(path, dir, kind->files[count]);
		if (err)
			return err;
		present += path[0] != '\0';
		if (!path[0])
			snprintf(missing + length, sizeof(missing) - length, "%s%s",
				length ? ", " : "", kind->files[count]);
	}
	*found = count > 0 && present == count;
	if (present > 0 && present < count)
		return fail("%s: holds %d of the %d files of a data set, and lacks %s (or .gz): "
			    "add what is missing, or give another directory with --data",
			dir, present, count, missing);
	return 0;
}

int data_open(struct data **out, const struct data_source *source, enum data_part part)
{
	struct data *data = calloc(1, sizeof(*data));
	*out = NULL;
	if (!data)
		return fail("out of memory");
	data->kind = source->kind;
	int err = source->kind->open(data, source, part);
	if (!err && data->count > UINT32_MAX)
		err = fail(
			"%s: has %zu samples, more than %u", source->path, data->count, UINT32_MAX);
	if (err)
		data_destroy(data);
	else
		*out = data;
	return err;
}

static int compare_shapes(const struct data *train, const struct data *test)
{
	if (train->rows == test->rows && train->columns == test->columns)
		return 0;
	return fail("%s: has images of %d x %d, at byte 8, but those of %s have %d x %d",
		test->contents[0].path, test->rows, test->columns, train->contents[0].path,
		train->rows, train->columns);
}

int data_open_both(struct data **train, struct data **test, const struct data_source *source)
{
	*test = NULL;
	int err = data_open(train, source, DATA_TRAIN);
	if (!err)
		err = data_open(test, source, DATA_TEST);
	if (!err)
		err = compare_shapes(*train, *test);
	if (err) {
		data_destroy(*train);
		data_destroy(*test);
		*train = *test = NULL;
	}
	return err;
}

void data_destroy(struct data *data)
{
	if (!data)
		return;
	for (int i = 0; i < DATA_FILES_MAX; i++)
		content_close(&data->contents[i]);
	free(data->labels);
	free(data);
}

void data_gather(
	const struct data *data, const uint32_t *picks, size_t count, void *inputs, int32_t *labels)
{
	data->kind->gather(data, picks, count, inputs, labels);
}

int data_check(const struct data *data)
{
	int err = 0;
	for (int i = 0; !err && i < DATA_FILES_MAX; i++)
		err = content_check(&data->contents[i]);
	return err;
}
