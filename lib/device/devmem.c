#include "device/devmem.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"

struct held {
	struct held *next;
	void *memory;
	const struct rd_device_ops *ops;
	int holders;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct held *all_held;

static struct held **find(const void *memory)
{
	struct held **at = &all_held;

	while (*at && (*at)->memory != memory)
		at = &(*at)->next;
	return at;
}

int rd_held_create(const struct rd_device_ops *ops, int device, size_t size, void **memory)
{
	struct held *held = malloc(sizeof(*held));
	int err = held ? ops->alloc(device, size, memory)
		       : rd_fail(RONDO_MEMORY, "no memory to note what is held");

	if (err) {
		*memory = NULL;
		free(held);
		return err;
	}
	pthread_mutex_lock(&lock);
	*held = (struct held){ all_held, *memory, ops, 1 };
	all_held = held;
	pthread_mutex_unlock(&lock);
	return 0;
}

bool rd_held_hold(void *memory)
{
	struct held *held;

	pthread_mutex_lock(&lock);
	held = *find(memory);
	if (held)
		held->holders++;
	pthread_mutex_unlock(&lock);
	if (!held)
		rd_fail(RONDO_BROKEN, "its rank has given up already");
	return held != NULL;
}

void rd_held_release(void *memory)
{
	struct held **at, *gone = NULL;

	pthread_mutex_lock(&lock);
	at = find(memory);
	if (--(*at)->holders == 0) {
		gone = *at;
		*at = gone->next;
	}
	pthread_mutex_unlock(&lock);
	if (gone)
		gone->ops->free(memory);
	free(gone);
}
