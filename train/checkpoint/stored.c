/* The contents of a file in memory (safetensors.h). */
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/checkpoint/safetensors.h"

void stored_init(struct stored *stored)
{
	*stored = (struct stored){ 0 };
}

void stored_finish(struct stored *stored)
{
	for (int i = 0; i < stored->text_count; i++)
		free(stored->texts[i].value);
	free(stored->texts);
	stored_finish_tensors(stored);
	stored_init(stored);
}

void stored_finish_tensors(struct stored *stored)
{
	free(stored->tensors);
	free(stored->memory);
	stored->tensors = NULL;
	stored->memory = NULL;
	stored->tensor_count = 0;
}

/* Room for one more: lists grow to the next power of two. */
static void *grow(void *list, int count, size_t size)
{
	if (count & (count - 1))
		return list;
	return realloc(list, (count ? 2 * (size_t)count : 1) * size);
}

/* Its length; STORED_NAME or more: it has no room. */
static int name_of(char name[STORED_NAME], const char *prefix, const struct tensor *tensor)
{
	char rows[32] = "";
	if (tensor->split >= 0)
		snprintf(rows, sizeof(rows), "[%d:%d]", tensor->first,
			tensor->first + tensor->shape[tensor->split]);
	return snprintf(name, STORED_NAME, "%s%s%s", prefix, tensor->name, rows);
}

int stored_add(struct stored *stored, const char *prefix, const struct tensor *like, float *values)
{
	struct stored_tensor *tensors =
		grow(stored->tensors, stored->tensor_count, sizeof(*tensors));
	if (!tensors)
		return fail("out of memory for the names of tensors");
	stored->tensors = tensors;
	struct stored_tensor *tensor = &tensors[stored->tensor_count];
	*tensor = (struct stored_tensor){
		.dims = like->dims, .count = like->count, .values = values
	};
	memcpy(tensor->shape, like->shape, sizeof(tensor->shape));
	if (name_of(tensor->name, prefix, like) >= STORED_NAME)
		return fail("the name of tensor %s%s is too long", prefix, like->name);
	stored->tensor_count++;
	return 0;
}

int stored_set(struct stored *stored, const char *key, const char *value)
{
	struct stored_text *texts = grow(stored->texts, stored->text_count, sizeof(*texts));
	if (!texts)
		return fail("out of memory for texts");
	stored->texts = texts;
	struct stored_text *text = &texts[stored->text_count];
	if (snprintf(text->key, sizeof(text->key), "%s", key) >= (int)sizeof(text->key))
		return fail("the name %s is too long", key);
	text->value = strdup(value);
	if (!text->value)
		return fail("out of memory for texts");
	stored->text_count++;
	return 0;
}

const char *stored_get(const struct stored *stored, const char *key)
{
	for (int i = 0; i < stored->text_count; i++)
		if (!strcmp(stored->texts[i].key, key))
			return stored->texts[i].value;
	return NULL;
}

const struct stored_tensor *stored_find(
	const struct stored *stored, const char *prefix, const char *name)
{
	size_t length = strlen(prefix);
	for (int t = 0; t < stored->tensor_count; t++) {
		const char *its = stored->tensors[t].name;
		if (!strncmp(its, prefix, length) && !strcmp(its + length, name))
			return &stored->tensors[t];
	}
	return NULL;
}

const struct stored_tensor *stored_find_like(
	const struct stored *stored, const char *prefix, const struct tensor *like)
{
	char name[STORED_NAME];
	return name_of(name, prefix, like) < STORED_NAME ? stored_find(stored, "", name) : NULL;
}
