#include "train/data/data.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "train/base/fail.h"

/* The most memory that a header may claim, in bytes. */
#define SIZE_MAX_OF_FILE ((uint64_t)1 << 30)

const char *const data_files[4] = {
	"train-images-idx3-ubyte",
	"train-labels-idx1-ubyte",
	"t10k-images-idx3-ubyte",
	"t10k-labels-idx1-ubyte",
};

int data_create(struct data **out, size_t count, size_t rows, size_t columns)
{
	struct data *data = calloc(1, sizeof(*data));
	*out = NULL;
	if (!data)
		return fail("out of memory");
	data->count = count;
	data->rows = rows;
	data->columns = columns;
	data->images = calloc(count, rows * columns);
	data->labels = calloc(count, 1);
	if (!data->images || !data->labels) {
		data_destroy(data);
		return fail("out of memory for %zu images of %zu x %zu", count, rows, columns);
	}
	*out = data;
	return 0;
}

void data_destroy(struct data *data)
{
	if (!data)
		return;
	free(data->images);
	free(data->labels);
	free(data);
}

/* ---- Reading ---- */

#define LABELS_HEADER 8 /* bytes before the first label */

static const char *file_of(const char *part, int labels)
{
	return data_files[(strcmp(part, "train") ? 2 : 0) + labels];
}

struct idx {
	uint32_t dimensions[3];
	uint8_t *bytes; /* [dimensions[0]]..., malloc'ed */
};

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

/* In a compressed file, offsets count unpacked bytes. */
static const char *unpacked(gzFile file)
{
	return gzdirect(file) ? "" : " (unpacked)";
}

/* Fails with the reason of a short read. */
static int fail_read(gzFile file, const char *path)
{
	int error = 0;
	long long offset = gztell(file);
	gzerror(file, &error);
	if (error == Z_ERRNO)
		return fail("%s: %s, at byte %lld", path, strerror(errno), offset);
	if (error == Z_DATA_ERROR)
		return fail("%s: its compressed data is damaged, at byte %lld", path,
			(long long)gzoffset(file));
	return fail("%s: ends too early, at byte %lld%s", path, offset, unpacked(file));
}

/* Reads exactly `size` bytes. */
static int read_bytes(gzFile file, const char *path, void *bytes, size_t size)
{
	int got = gzread(file, bytes, size);
	return got < 0 || (size_t)got < size ? fail_read(file, path) : 0;
}

static int read_header(gzFile file, const char *path, int dimensions, struct idx *idx)
{
	unsigned char magic[4], number[4];
	uint64_t size = 1;
	int err = read_bytes(file, path, magic, sizeof(magic));
	if (err)
		return err;
	for (int i = 0; i < 4; i++) {
		int right = i == 3 ? dimensions : i == 2 ? 8 : 0;
		if (magic[i] != right)
			return fail("%s: not an IDX file of bytes in %d dimension%s: byte %d is "
				    "%d, not %d",
				path, dimensions, dimensions > 1 ? "s" : "", i, magic[i], right);
	}
	for (int i = 0; i < dimensions; i++) {
		err = read_bytes(file, path, number, sizeof(number));
		if (err)
			return err;
		idx->dimensions[i] = (uint32_t)number[0] << 24 | (uint32_t)number[1] << 16 |
				     (uint32_t)number[2] << 8 | number[3];
		/* Checked before each product: none overflows. */
		if (!idx->dimensions[i] || idx->dimensions[i] > SIZE_MAX_OF_FILE / size)
			return fail("%s: its header asks for an impossible size: %u at byte %d",
				path, idx->dimensions[i], 4 + 4 * i);
		size *= idx->dimensions[i];
	}
	idx->bytes = malloc(size);
	if (!idx->bytes)
		return fail("%s: out of memory for %llu bytes", path, (unsigned long long)size);
	return 0;
}

static int read_elements(gzFile file, const char *path, int dimensions, struct idx *idx)
{
	unsigned char extra;
	size_t size = 1;
	for (int i = 0; i < dimensions; i++)
		size *= idx->dimensions[i];
	int err = read_bytes(file, path, idx->bytes, size);
	if (err)
		return err;
	/* The read at the end makes zlib check the checksum of a gzip file. */
	int more = gzread(file, &extra, 1);
	if (more > 0)
		return fail("%s: is longer than its header says, at byte %zu%s", path,
			4 + 4 * (size_t)dimensions + size, unpacked(file));
	return more < 0 ? fail_read(file, path) : 0;
}

/* On failure idx->bytes is NULL. */
static int read_idx(struct idx *idx, const char *dir, const char *name, int dimensions)
{
	char path[PATH_MAX];
	memset(idx, 0, sizeof(*idx));
	int err = find_file(path, dir, name);
	if (err)
		return err;
	if (!path[0])
		return fail("%s: neither %s nor %s.gz is there", dir, name, name);
	gzFile file = gzopen(path, "rb");
	if (!file)
		return fail("%s: %s", path, strerror(errno ? errno : ENOMEM));
	gzbuffer(file, 1 << 17);
	err = read_header(file, path, dimensions, idx);
	if (!err)
		err = read_elements(file, path, dimensions, idx);
	long long end = gztell(file);
	/* Returns Z_BUF_ERROR if the file ends within the gzip trailer. */
	int closed = gzclose_r(file);
	if (!err && closed != Z_OK)
		err = fail("%s: ends too early, behind byte %lld (unpacked)", path, end);
	if (err) {
		free(idx->bytes);
		idx->bytes = NULL;
	}
	return err;
}

/* The path of the labels, for a reason; the plain name if the file is gone. */
static const char *name_labels(char path[PATH_MAX], const char *dir, const char *part)
{
	const char *name = file_of(part, 1);
	return find_file(path, dir, name) || !path[0] ? name : path;
}

static int check_labels(const struct data *data, const char *dir, const char *part)
{
	char path[PATH_MAX];
	for (size_t i = 0; i < data->count; i++) {
		if (data->labels[i] >= DATA_CLASSES)
			return fail("%s: label %d of %s image %zu, at byte %zu, is not one of %d "
				    "classes",
				name_labels(path, dir, part), data->labels[i], part, i,
				LABELS_HEADER + i, DATA_CLASSES);
	}
	return 0;
}

int data_read(struct data **out, const char *dir, const char *part)
{
	struct idx images = { 0 }, labels = { 0 };
	struct data *data = NULL;
	char path[PATH_MAX];
	*out = NULL;
	int err = read_idx(&images, dir, file_of(part, 0), 3);
	if (!err)
		err = read_idx(&labels, dir, file_of(part, 1), 1);
	if (!err && images.dimensions[0] != labels.dimensions[0])
		err = fail("%s: there are %u %s images, but %u labels, at byte 4",
			name_labels(path, dir, part), images.dimensions[0], part,
			labels.dimensions[0]);
	if (!err && !(data = calloc(1, sizeof(*data))))
		err = fail("out of memory");
	if (err)
		goto out;
	*data = (struct data){ images.dimensions[0], images.dimensions[1], images.dimensions[2],
		images.bytes, labels.bytes };
	images.bytes = labels.bytes = NULL;
	err = check_labels(data, dir, part);
	if (err)
		data_destroy(data);
	else
		*out = data;
out:
	free(images.bytes);
	free(labels.bytes);
	return err;
}

int data_find(bool *found, const char *dir)
{
	char path[PATH_MAX], missing[256] = "";
	int count = 0;
	*found = false;
	for (int i = 0; i < 4; i++) {
		size_t length = strlen(missing);
		int err = find_file(path, dir, data_files[i]);
		if (err)
			return err;
		count += path[0] != '\0';
		if (!path[0])
			snprintf(missing + length, sizeof(missing) - length, "%s%s",
				length ? ", " : "", data_files[i]);
	}
	*found = count == 4;
	if (count > 0 && count < 4)
		return fail("%s: holds %d of the 4 files of a data set, and lacks %s (or .gz): add "
			    "what is missing, or give another directory with --data",
			dir, count, missing);
	return 0;
}

bool data_present(const char *dir)
{
	bool found;
	return !data_find(&found, dir) && found;
}

/* ---- Writing ---- */

static int write_idx(const char *dir, const char *name, const uint8_t *bytes,
	const size_t *dimensions, int dimension_count)
{
	char path[PATH_MAX];
	size_t size = 1;
	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return fail("%s: the name is too long", dir);
	FILE *file = fopen(path, "wb");
	if (!file)
		return fail("%s: %s", path, strerror(errno));
	fwrite((unsigned char[]){ 0, 0, 8, dimension_count }, 1, 4, file);
	for (int i = 0; i < dimension_count; i++) {
		size_t n = dimensions[i];
		fwrite((unsigned char[]){ n >> 24, n >> 16, n >> 8, n }, 1, 4, file);
		size *= n;
	}
	fwrite(bytes, 1, size, file);
	int broken = ferror(file);
	if (fclose(file) || broken)
		return fail("%s: %s", path, strerror(errno));
	return 0;
}

int data_write(const struct data *data, const char *dir, const char *part)
{
	size_t dimensions[] = { data->count, data->rows, data->columns };
	int err = write_idx(dir, file_of(part, 0), data->images, dimensions, 3);
	return err ? err : write_idx(dir, file_of(part, 1), data->labels, dimensions, 1);
}

/* ---- Use ---- */

void data_gather(const struct data *data, const uint32_t *picks, size_t count, float *images,
	int32_t *labels)
{
	size_t pixels = data->rows * data->columns;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *image = data->images + picks[i] * pixels;
		for (size_t p = 0; p < pixels; p++)
			images[i * pixels + p] = (float)image[p] * (1.0f / 255.0f);
		labels[i] = data->labels[picks[i]];
	}
}
