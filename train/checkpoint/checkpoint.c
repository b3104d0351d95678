#include "train/checkpoint/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "train/base/draft.h"
#include "train/base/fail.h"

int checkpoint_writable(const char *path)
{
	return draft_check(path);
}

/* Beside the file that a link stands for: a rename stays within one file system. */
static int name_previous(char previous[PATH_MAX], const char *path)
{
	char target[PATH_MAX];
	int err = draft_target(target, path);
	if (err)
		return err;
	return snprintf(previous, PATH_MAX, "%s.previous", target) < PATH_MAX
		       ? 0
		       : fail("%s: the name is too long", path);
}

int checkpoint_save(const char *path, const struct stored *stored)
{
	char previous[PATH_MAX];
	struct draft draft;
	int err = name_previous(previous, path);
	if (!err)
		err = draft_open(&draft, path);
	if (err)
		return err;
	err = safetensors_write(path, draft.file, stored);
	if (!err)
		return draft_finish(&draft, previous);
	draft_discard(&draft);
	return err;
}

/* ---- Loading ---- */

static int check_version(const char *path, const struct stored *stored)
{
	const char *version = stored_get(stored, CHECKPOINT_VERSION_KEY);
	if (!version)
		return fail("%s: is not a checkpoint of this program", path);
	if (strcmp(version, CHECKPOINT_VERSION))
		return fail("%s: is of version %s, this program reads " CHECKPOINT_VERSION, path,
			version);
	return stored_get(stored, "checksum") ? 0 : fail("%s: is damaged: no checksum", path);
}

static int load(const char *path, struct stored *stored)
{
	stored_init(stored);
	FILE *file = rd_fopen(path, O_RDONLY);
	if (!file)
		return fail("%s: %s", path, strerror(errno));
	int err = safetensors_read(path, file, stored);
	if (!err)
		err = check_version(path, stored);
	fclose(file);
	if (err)
		stored_finish(stored);
	return err;
}

bool checkpoint_exists(const char *path)
{
	char previous[PATH_MAX];
	return access(path, F_OK) == 0 ||
	       (!name_previous(previous, path) && access(previous, F_OK) == 0);
}

int checkpoint_load(const char *path, struct stored *stored, char damage[CHECKPOINT_REASON])
{
	char previous[PATH_MAX];
	*damage = 0;
	int err = load(path, stored);
	if (!err)
		return 0;
	snprintf(damage, CHECKPOINT_REASON, "%s", failure());
	if (name_previous(previous, path) || load(previous, stored))
		return fail("%s", damage);
	return 0;
}

int checkpoint_number(const char *path, const struct stored *stored, const char *key, int64_t low,
	int64_t high, int64_t *number)
{
	const char *text = stored_get(stored, key);
	char *end;
	if (!text)
		return fail("%s: is damaged: it has no %s", path, key);
	errno = 0;
	*number = strtoll(text, &end, 10);
	if (errno || end == text || *end || *number < low || *number > high)
		return fail("%s: is damaged: %s is %.32s", path, key, text);
	return 0;
}

/* ---- Restoring ---- */

static void print_shape(char *text, size_t size, int dims, const int *shape)
{
	int length = snprintf(text, size, "[");
	for (int d = 0; d < dims; d++)
		length += snprintf(text + length, size - length, "%s%d", d ? ", " : "", shape[d]);
	snprintf(text + length, size - length, "]");
}

static bool fits(const struct stored_tensor *found, const struct tensor *tensor)
{
	return found->dims == tensor->dims &&
	       !memcmp(found->shape, tensor->shape, tensor->dims * sizeof(*tensor->shape));
}

int checkpoint_restore(const char *path, const struct stored *stored, const char *prefix,
	const struct tensors *tensors, float *values)
{
	char its[64], ours[64];
	memset(values, 0, tensors->elements * sizeof(*values));
	for (int t = 0; t < tensors->count; t++) {
		const struct tensor *tensor = &tensors->list[t];
		const struct stored_tensor *found = stored_find_like(stored, prefix, tensor);
		if (!found)
			return fail("%s: is of another model: it has no tensor %s%s", path, prefix,
				tensor->name);
		print_shape(its, sizeof(its), found->dims, found->shape);
		print_shape(ours, sizeof(ours), tensor->dims, tensor->shape);
		if (!fits(found, tensor))
			return fail("%s: is of another model: its tensor %s%s is %s, this model's "
				    "is %s",
				path, prefix, tensor->name, its, ours);
		memcpy(values, found->values, tensor->count * sizeof(*values));
		values += tensor_span(tensor);
	}
	return 0;
}
