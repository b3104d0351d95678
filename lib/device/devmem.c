#include "device/devmem.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"

struct devmem {
	struct devmem *next;
	void *memory;
	const struct rd_device_ops *ops;
	int holders;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct devmem *all_devmem;

static struct devmem **find(const void *memory)
{
	struct devmem **at = &all_devmem;

	while (*at && (*at)->memory != memory)
		at = &(*at)->next;
	return at;
}

int rd_devmem_create(const struct rd_device_ops *ops, int device, size_t size, void **memory)
{
	struct devmem *devmem = malloc(sizeof(*devmem));
	int err = devmem ? ops->alloc(device, size, memory)
			 : rd_fail(RONDO_MEMORY, "no memory to note what is held");

	if (err) {
		*memory = NULL;
		free(devmem);
		return err;
	}
	pthread_mutex_lock(&lock);
	*devmem = (struct devmem){ all_devmem, *memory, ops, 1 };
	all_devmem = devmem;
	pthread_mutex_unlock(&lock);
	return 0;
}

bool rd_devmem_get(void *memory)
{
	struct devmem *devmem;

	pthread_mutex_lock(&lock);
	devmem = *find(memory);
	if (devmem)
		devmem->holders++;
	pthread_mutex_unlock(&lock);
	if (!devmem)
		rd_fail(RONDO_BROKEN, "its rank has given up already");
	return devmem != NULL;
}

void rd_devmem_put(void *memory)
{
	struct devmem **at, *gone = NULL;

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
