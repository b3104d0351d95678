#include "train/checkpoint/version1.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/checkpoint/checkpoint.h"

#define MAGIC 0x6b63656863444e52u /* "RNDCheck" */
#define VERSION 1
#define TENSORS_MAX 32

struct header {
	uint64_t magic;
	uint32_t version;
	uint32_t tensor_count;
	uint64_t epochs; /* epochs done */
	uint64_t seed;
	uint64_t global_batch;
	double learning_rate;
	double bucket_mb;
	uint64_t counts[TENSORS_MAX]; /* [tensor_count], elements of each tensor */
	int32_t order[TENSORS_MAX]; /* [tensor_count], of gradients; unused */
};

bool version1_is(FILE *file)
{
	uint64_t magic = 0;
	size_t read = fread(&magic, sizeof(magic), 1, file);
	rewind(file);
	return read == 1 && magic == MAGIC;
}

bool version1_is_stored(const struct stored *stored)
{
	const char *version = stored_get(stored, CHECKPOINT_VERSION_KEY);
	return version && !strcmp(version, "1");
}

static int read_header(const char *path, FILE *file, struct header *header)
{
	if (fread(header, sizeof(*header), 1, file) != 1)
		return fail("%s: is too short for a checkpoint", path);
	if (header->version != VERSION)
		return fail(
			"%s: is of version %u, this program reads 1 and 2", path, header->version);
	if (header->tensor_count > TENSORS_MAX)
		return fail("%s: is damaged: it claims %u tensors", path, header->tensor_count);
	/* NaN must fail, too. */
	if (!header->global_batch || header->global_batch > CHECKPOINT_BATCH_MAX ||
		!(header->learning_rate > 0) || !(header->bucket_mb > 0))
		return fail("%s: is damaged: its settings make no sense", path);
	return 0;
}

/* The parameters in all tensors, which the file's size bounds. */
static int count_parameters(
	const char *path, FILE *file, const struct header *header, size_t *count)
{
	struct stat about;
	if (fstat(fileno(file), &about))
		return fail("%s: %s", path, strerror(errno));
	uint64_t most = about.st_size / sizeof(float);
	*count = 0;
	for (uint32_t t = 0; t < header->tensor_count; t++) {
		if (header->counts[t] > most - *count)
			return fail("%s: is cut off", path);
		*count += header->counts[t];
	}
	return 0;
}

static int read_values(
	const char *path, FILE *file, const struct header *header, struct stored *stored)
{
	size_t count = 0;
	uint64_t hash, right = hash_bytes(HASH_START, header, sizeof(*header));
	int err = count_parameters(path, file, header, &count);
	if (err)
		return err;
	stored->memory = malloc(count * sizeof(float) + 1);
	if (!stored->memory)
		return fail("%s: out of memory for %zu parameters", path, count);
	if (fread(stored->memory, sizeof(float), count, file) != count ||
		fread(&hash, sizeof(hash), 1, file) != 1)
		return fail("%s: is cut off", path);
	right = hash_bytes(right, stored->memory, count * sizeof(float));
	if (hash != right || fgetc(file) != EOF)
		return fail("%s: is damaged: its checksum is wrong", path);
	return 0;
}

static int add_tensors(const struct header *header, struct stored *stored)
{
	float *values = stored->memory;
	int err = 0;
	for (uint32_t t = 0; !err && t < header->tensor_count; t++) {
		const struct tensor tensor = { .dims = 1, .split = -1, .count = header->counts[t] };
		err = stored_add(stored, "", &tensor, values);
		values += tensor.count;
	}
	return err;
}

/* A text of one number, as printf() writes it. */
#define SET(key, format, number) \
	(snprintf(text, sizeof(text), format, number), \
		err = err ? err : stored_set(stored, key, text))

static int add_texts(const struct header *header, struct stored *stored)
{
	char text[64];
	int err = 0;
	SET(CHECKPOINT_VERSION_KEY, "%d", VERSION);
	SET(CHECKPOINT_EPOCHS_KEY, "%" PRIu64, header->epochs);
	SET("option.seed", "%" PRIu64, header->seed);
	SET("option.global-batch", "%" PRIu64, header->global_batch);
	SET("option.lr", "%.17g", header->learning_rate);
	SET("option.bucket-mb", "%.17g", header->bucket_mb);
	return err;
}

int version1_read(const char *path, FILE *file, struct stored *stored)
{
	struct header header;
	int err = read_header(path, file, &header);
	if (!err)
		err = read_values(path, file, &header, stored);
	if (!err)
		err = add_tensors(&header, stored);
	return err ? err : add_texts(&header, stored);
}
