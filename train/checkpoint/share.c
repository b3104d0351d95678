#include "train/checkpoint/share.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"

/* Keys and values, each with its end. */
static int pack(const struct stored *stored, char **bytes, uint64_t *size)
{
	*size = 0;
	for (int i = 0; i < stored->text_count; i++)
		*size += strlen(stored->texts[i].key) + strlen(stored->texts[i].value) + 2;
	char *next = *bytes = malloc(*size + 1);
	if (!next)
		return fail("out of memory for a checkpoint's settings");
	for (int i = 0; i < stored->text_count; i++) {
		next = stpcpy(next, stored->texts[i].key) + 1;
		next = stpcpy(next, stored->texts[i].value) + 1;
	}
	return 0;
}

static int unpack(struct stored *stored, const char *bytes, uint64_t size)
{
	int err = 0;
	for (const char *key = bytes; !err && key < bytes + size;) {
		const char *value = key + strlen(key) + 1;
		err = stored_set(stored, key, value);
		key = value + strlen(value) + 1;
	}
	return err;
}

int share_texts(const struct train_world *world, struct stored *stored)
{
	char *bytes = NULL;
	uint64_t size = 0;
	int err = 0;
	if (!world->comm)
		return 0;
	if (!world->rank)
		err = pack(stored, &bytes, &size);
	if (!err)
		err = world_broadcast(world, &size, sizeof(size));
	if (!err && world->rank) {
		bytes = malloc(size + 1);
		err = bytes ? 0 : fail("out of memory for a checkpoint's settings");
	}
	if (!err && size)
		err = world_broadcast(world, bytes, size);
	if (!err && world->rank)
		err = unpack(stored, bytes, size);
	free(bytes);
	return err;
}
