#include "train/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/base/hash.h"

static uint64_t hash_of(const struct checkpoint *checkpoint, const float *parameters, size_t count)
{
	uint64_t hash = hash_bytes(HASH_START, checkpoint, sizeof(*checkpoint));
	return hash_bytes(hash, parameters, count * sizeof(float));
}

/* ---- Saving ---- */

static int write_draft(const char *path, FILE *file, const struct checkpoint *checkpoint,
	const float *parameters, size_t count)
{
	uint64_t hash = hash_of(checkpoint, parameters, count);
	if (fwrite(checkpoint, sizeof(*checkpoint), 1, file) != 1 ||
		fwrite(parameters, sizeof(float), count, file) != count ||
		fwrite(&hash, sizeof(hash), 1, file) != 1 || fflush(file) || fsync(fileno(file)))
		return fail("%s: cannot write: %s", path, strerror(errno));
	return 0;
}

/* A rename is durable once its directory is synced. */
static void sync_directory(const char *path)
{
	char copy[PATH_MAX];
	snprintf(copy, sizeof(copy), "%s", path);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

static int open_draft(const char *path, char draft[PATH_MAX], FILE **file)
{
	if (snprintf(draft, PATH_MAX, "%s.draft", path) >= PATH_MAX)
		return fail("%s: the name is too long", path);
	*file = fopen(draft, "wb");
	return *file ? 0 : fail("%s: cannot write: %s", path, strerror(errno));
}

int checkpoint_writable(const char *path)
{
	char draft[PATH_MAX];
	FILE *file;
	int err = open_draft(path, draft, &file);
	if (err)
		return err;
	fclose(file);
	unlink(draft);
	return 0;
}

/* Writes the whole file, or leaves the old one. */
static int write_file(const char *path, const struct checkpoint *checkpoint,
	const float *parameters, size_t count)
{
	char draft[PATH_MAX];
	FILE *file;
	int err = open_draft(path, draft, &file);
	if (err)
		return err;
	err = write_draft(path, file, checkpoint, parameters, count);
	if (fclose(file) && !err)
		err = fail("%s: cannot write: %s", path, strerror(errno));
	if (!err && rename(draft, path))
		err = fail("%s: cannot write: %s", path, strerror(errno));
	if (err)
		unlink(draft);
	else
		sync_directory(path);
	return err;
}

/* Moves the tensors together, without the room between them. */
static void pack(const struct model *model, float *values)
{
	float *to = values, *from = values;
	for (int t = 0; t < model->parameters.count; t++) {
		const struct tensor *tensor = &model->parameters.list[t];
		memmove(to, from, tensor->count * sizeof(*to));
		to += tensor->count;
		from += tensor_span(tensor);
	}
}

int checkpoint_save(const char *path, struct checkpoint *checkpoint, const struct model *model)
{
	size_t elements = model->parameters.elements;
	float *parameters = malloc(elements * sizeof(float));
	checkpoint->magic = CHECKPOINT_MAGIC;
	checkpoint->version = CHECKPOINT_VERSION;
	checkpoint->tensor_count = model->parameters.count;
	for (int t = 0; t < model->parameters.count; t++)
		checkpoint->counts[t] = model->parameters.list[t].count;
	int err = parameters ? model_read(model, &model->parameters, parameters)
			     : fail("%s: out of memory for %zu parameters", path, elements);
	if (!err) {
		pack(model, parameters);
		err = write_file(path, checkpoint, parameters, model_parameter_count(model));
	}
	free(parameters);
	return err;
}

/* ---- Loading ---- */

/* The number of parameters in the file; its header and its size must agree. */
static int count_parameters(
	const char *path, FILE *file, const struct checkpoint *checkpoint, size_t *count)
{
	struct stat about;
	if (fstat(fileno(file), &about))
		return fail("%s: %s", path, strerror(errno));
	uint64_t most = about.st_size / sizeof(float);
	*count = 0;
	for (uint32_t t = 0; t < checkpoint->tensor_count; t++) {
		if (checkpoint->counts[t] > most - *count)
			return fail("%s: is cut off", path);
		*count += checkpoint->counts[t];
	}
	return 0;
}

static int read_header(const char *path, FILE *file, struct checkpoint *checkpoint)
{
	if (fread(checkpoint, sizeof(*checkpoint), 1, file) != 1)
		return fail("%s: is too short for a checkpoint", path);
	if (checkpoint->magic != CHECKPOINT_MAGIC)
		return fail("%s: is not a checkpoint of this program", path);
	if (checkpoint->version != CHECKPOINT_VERSION)
		return fail("%s: is of version %u, this program reads %d", path,
			checkpoint->version, CHECKPOINT_VERSION);
	if (checkpoint->tensor_count > CHECKPOINT_TENSORS_MAX)
		return fail("%s: is damaged: it claims %u tensors", path, checkpoint->tensor_count);
	/* NaN must fail, too. */
	if (!checkpoint->global_batch || checkpoint->global_batch > CHECKPOINT_BATCH_MAX ||
		!(checkpoint->learning_rate > 0) || !(checkpoint->bucket_mb > 0))
		return fail("%s: is damaged: its settings make no sense", path);
	return 0;
}

static int read_file(
	const char *path, FILE *file, struct checkpoint *checkpoint, float **parameters)
{
	uint64_t hash;
	size_t count = 0;
	int err = read_header(path, file, checkpoint);
	if (!err)
		err = count_parameters(path, file, checkpoint, &count);
	if (err)
		return err;
	*parameters = malloc(count * sizeof(float));
	if (count && !*parameters)
		return fail("%s: out of memory for %zu parameters", path, count);
	if (fread(*parameters, sizeof(float), count, file) != count ||
		fread(&hash, sizeof(hash), 1, file) != 1)
		return fail("%s: is cut off", path);
	if (hash != hash_of(checkpoint, *parameters, count) || fgetc(file) != EOF)
		return fail("%s: is damaged: its checksum is wrong", path);
	return 0;
}

int checkpoint_load(const char *path, struct checkpoint *checkpoint, float **parameters)
{
	*parameters = NULL;
	FILE *file = fopen(path, "rb");
	if (!file)
		return fail("%s: %s", path, strerror(errno));
	int err = read_file(path, file, checkpoint, parameters);
	fclose(file);
	if (err) {
		free(*parameters);
		*parameters = NULL;
	}
	return err;
}

int checkpoint_restore(const char *path, const struct checkpoint *checkpoint,
	const float *parameters, struct model *model)
{
	bool same = checkpoint->tensor_count == (uint32_t)model->parameters.count;
	for (int t = 0; same && t < model->parameters.count; t++)
		same = checkpoint->counts[t] == model->parameters.list[t].count;
	if (!same)
		return fail("%s: is of another model", path);
	for (int t = 0; t < model->parameters.count; t++) {
		const struct tensor *tensor = &model->parameters.list[t];
		size_t size = tensor->count * sizeof(float);
		model->device->ops->put(model->device, tensor->value, parameters, size);
		parameters += tensor->count;
	}
	return 0;
}
