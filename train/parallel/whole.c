#include "train/parallel/whole.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"

/* A message: for each tensor its description, then its values. */
static size_t message_size(const struct tensors *parts)
{
	size_t size = 0;
	for (int t = 0; t < parts->count; t++)
		size += sizeof(struct tensor) + parts->list[t].count * sizeof(float);
	return size;
}

static void pack(const struct tensors *parts, const float *values, char *message)
{
	for (int t = 0; t < parts->count; t++) {
		const struct tensor *tensor = &parts->list[t];
		memcpy(message, tensor, sizeof(*tensor));
		message += sizeof(*tensor);
		memcpy(message, values, tensor->count * sizeof(*values));
		message += tensor->count * sizeof(*values);
		values += tensor_span(tensor);
	}
}

/* NULL: there is none. *values: where its values lie. */
static const struct tensor *find(const struct tensors *whole, const char *name, float **values)
{
	float *at = whole->values;
	for (int t = 0; t < whole->count; t++) {
		if (!strcmp(whole->list[t].name, name)) {
			*values = at;
			return &whole->list[t];
		}
		if (at)
			at += tensor_span(&whole->list[t]);
	}
	return NULL;
}

static int add_whole(struct tensors *whole, const struct tensor *part)
{
	struct tensor added = *part;
	float *unused;
	int number;
	if (find(whole, part->name, &unused))
		return 0;
	if (part->split >= 0)
		added.shape[part->split] = part->whole;
	added.split = -1;
	added.value = added.grad = NULL;
	return tensors_add(whole, &added, &number);
}

/* First the list, then, where there are values, the places of the parts. */
static int unpack(const char *message, size_t size, struct tensors *whole)
{
	const char *end = message + size;
	int err = 0;
	while (!err && message < end) {
		struct tensor part;
		float *place;
		memcpy(&part, message, sizeof(part));
		message += sizeof(part);
		if (!whole->values)
			err = add_whole(whole, &part);
		else if (find(whole, part.name, &place))
			tensor_to_whole(&part, (const float *)message, place);
		message += part.count * sizeof(float);
	}
	return err;
}

static int put_together(const char *messages, size_t size, struct tensors *whole)
{
	int err = unpack(messages, size, whole);
	if (err || !whole->elements)
		return err;
	whole->values = calloc(whole->elements, sizeof(*whole->values));
	return whole->values ? unpack(messages, size, whole)
			     : fail("out of memory for %zu parameters", whole->elements);
}

static int gather(const struct train_world *replica, const char *message, size_t size, void **all,
	size_t *sizes)
{
	if (replica->comm) {
		int err = rondo_gather_bytes(replica->comm, message, size, all, sizes, 0);
		return err ? fail_comm(err, "gather of a model's parts") : 0;
	}
	*sizes = size;
	*all = malloc(size + 1);
	if (!*all)
		return fail("out of memory for %zu bytes", size);
	memcpy(*all, message, size);
	return 0;
}

int whole_gather(const struct train_world *replica, const struct tensors *parts,
	const float *values, struct tensors *whole)
{
	size_t size = message_size(parts), total = 0;
	size_t *sizes = calloc(replica->size, sizeof(*sizes));
	char *message = malloc(size + 1);
	void *all = NULL;
	int err = 0;
	*whole = (struct tensors){ .count = 0 };
	if (!sizes || !message)
		err = fail("out of memory for %zu bytes", size);
	if (!err) {
		pack(parts, values, message);
		err = gather(replica, message, size, &all, sizes);
	}
	for (int rank = 0; !err && rank < replica->size && !replica->rank; rank++)
		total += sizes[rank];
	if (!err && !replica->rank)
		err = put_together(all, total, whole);
	free(sizes);
	free(message);
	free(all);
	if (err)
		whole_finish(whole);
	return err;
}

void whole_finish(struct tensors *whole)
{
	free(whole->list);
	free(whole->values);
	*whole = (struct tensors){ .count = 0 };
}

bool whole_is_divided(const struct train_world *replica, const struct tensors *parts)
{
	for (int t = 0; t < parts->count; t++)
		if (parts->list[t].split >= 0)
			return true;
	return replica->size > 1;
}
