#include "train/data/loader.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train/base/fail.h"

/* Longer than any disk takes that still works. */
#define GATHER_MAX_S 60

/* Batches that the caller may still read: that of the last call, and the one before. */
#define TAKEN 2

struct slot {
	struct batch batch;
	uint32_t *picks; /* [sampler_batch_max()] */
	uint64_t gathered; /* the position whose batch it holds, + 1; 0: none */
};

/*
 * Position p is the p-th batch that the caller takes, in slot p % slot_count. Its step, counted
 * over all epochs, is p + offset: a jump to another step changes the offset.
 *
 * Lock order: picking, then lock. The caller takes `lock` alone, so it never waits for a shuffle.
 * A worker holds `picking` while it waits for a position, so that positions are picked in order.
 */
struct loader {
	struct loader_options options;
	uint64_t steps; /* of an epoch */
	struct slot *slots; /* [slot_count] */
	int slot_count;
	pthread_t threads[LOADER_WORKERS_MAX];
	int thread_count;

	pthread_mutex_t picking; /* the sampler, and the next field */
	uint64_t shuffled_epoch; /* of the sampler's order; UINT64_MAX: none yet */

	pthread_mutex_t lock; /* all below, and slots' gathered */
	pthread_cond_t free; /* for workers: a position may be assigned, or they stop */
	pthread_cond_t done; /* for the caller: a batch is gathered */
	uint64_t next; /* the position to assign next */
	uint64_t wanted; /* the position that the caller takes next */
	uint64_t offset;
	int busy; /* workers with a position */
	bool paused; /* no position is assigned */
	bool stopping;
};

int loader_batch_count(int workers)
{
	return TAKEN + workers;
}

/* ---- Gathering ---- */

/* Picks the samples of a step. */
static void pick(struct loader *loader, struct slot *slot, uint64_t step)
{
	const struct loader_options *options = &loader->options;
	uint64_t epoch = step / loader->steps;
	if (options->shuffled && loader->shuffled_epoch != epoch) {
		sampler_shuffle(options->sampler, options->seed, epoch);
		loader->shuffled_epoch = epoch;
	}
	slot->batch.count = sampler_pick(options->sampler, step % loader->steps);
	memcpy(slot->picks, options->sampler->picks, slot->batch.count * sizeof(*slot->picks));
}

static void gather(const struct loader *loader, struct slot *slot)
{
	data_gather(loader->options.data, slot->picks, slot->batch.count, slot->batch.inputs,
		slot->batch.labels);
}

static struct slot *slot_of(const struct loader *loader, uint64_t position)
{
	return &loader->slots[position % loader->slot_count];
}

/* ---- Workers ---- */

/* Waits for a position, and picks its samples. False: the worker ends. */
static bool assign(struct loader *loader, uint64_t *position)
{
	pthread_mutex_lock(&loader->picking);
	pthread_mutex_lock(&loader->lock);
	while (!loader->stopping &&
		(loader->paused || loader->next >= loader->wanted + loader->slot_count - TAKEN))
		pthread_cond_wait(&loader->free, &loader->lock);
	bool stopping = loader->stopping;
	uint64_t step = loader->next + loader->offset;
	if (!stopping) {
		*position = loader->next++;
		loader->busy++;
	}
	pthread_mutex_unlock(&loader->lock);
	if (!stopping)
		pick(loader, slot_of(loader, *position), step);
	pthread_mutex_unlock(&loader->picking);
	return !stopping;
}

static void *work(void *argument)
{
	struct loader *loader = argument;
	uint64_t position;
	while (assign(loader, &position)) {
		struct slot *slot = slot_of(loader, position);
		gather(loader, slot);
		pthread_mutex_lock(&loader->lock);
		slot->gathered = position + 1;
		loader->busy--;
		pthread_cond_signal(&loader->done);
		pthread_mutex_unlock(&loader->lock);
	}
	return NULL;
}

/* Workers take no signals but those of their own faults (content.h handles one). */
static int start_workers(struct loader *loader)
{
	sigset_t blocked, before;
	int error = 0;
	sigfillset(&blocked);
	sigdelset(&blocked, SIGBUS);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGILL);
	sigdelset(&blocked, SIGFPE);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	while (!error && loader->thread_count < loader->options.workers) {
		error = pthread_create(&loader->threads[loader->thread_count], NULL, work, loader);
		loader->thread_count += !error;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error ? fail("cannot start worker %d of %d: %s", loader->thread_count + 1,
			       loader->options.workers, strerror(error))
		     : 0;
}

static void stop_workers(struct loader *loader)
{
	pthread_mutex_lock(&loader->lock);
	loader->stopping = true;
	pthread_cond_broadcast(&loader->free);
	pthread_mutex_unlock(&loader->lock);
	for (int i = 0; i < loader->thread_count; i++)
		pthread_join(loader->threads[i], NULL);
}

/* ---- The caller ---- */

static int create_slots(struct loader *loader)
{
	const struct loader_options *options = &loader->options;
	size_t batch_max = sampler_batch_max(options->sampler);
	loader->slots = calloc(loader->slot_count, sizeof(*loader->slots));
	if (!loader->slots)
		return fail("out of memory");
	for (int i = 0; i < loader->slot_count; i++) {
		loader->slots[i].batch = options->batches[i];
		loader->slots[i].picks = calloc(batch_max, sizeof(uint32_t));
		if (!loader->slots[i].picks)
			return fail("out of memory for a batch of %zu", batch_max);
	}
	return 0;
}

int loader_create(struct loader **out, const struct loader_options *options)
{
	struct loader *loader = calloc(1, sizeof(*loader));
	pthread_condattr_t monotonic;
	*out = NULL;
	if (!loader)
		return fail("out of memory");
	loader->options = *options;
	loader->steps = sampler_steps(options->sampler);
	loader->slot_count = loader_batch_count(options->workers);
	loader->shuffled_epoch = UINT64_MAX;
	pthread_mutex_init(&loader->picking, NULL);
	pthread_mutex_init(&loader->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&loader->free, NULL);
	pthread_cond_init(&loader->done, &monotonic);
	pthread_condattr_destroy(&monotonic);
	int err = create_slots(loader);
	if (!err)
		err = start_workers(loader);
	if (err)
		loader_destroy(loader);
	else
		*out = loader;
	return err;
}

void loader_destroy(struct loader *loader)
{
	if (!loader)
		return;
	stop_workers(loader);
	for (int i = 0; loader->slots && i < loader->slot_count; i++)
		free(loader->slots[i].picks);
	free(loader->slots);
	pthread_cond_destroy(&loader->free);
	pthread_cond_destroy(&loader->done);
	pthread_mutex_destroy(&loader->picking);
	pthread_mutex_destroy(&loader->lock);
	free(loader);
}

/* Waits until a batch is gathered. With the lock held. */
static int wait_done(struct loader *loader, const struct timespec *deadline)
{
	if (pthread_cond_timedwait(&loader->done, &loader->lock, deadline) != ETIMEDOUT)
		return 0;
	return fail("%s: a batch was not read within %d s: its disk may be gone",
		loader->options.data->contents[0].path, GATHER_MAX_S);
}

/* Makes `step` that of the position wanted; what workers gathered ahead is dropped. */
static int jump(struct loader *loader, uint64_t step, const struct timespec *deadline)
{
	int err = 0;
	loader->paused = true;
	while (!err && loader->busy)
		err = wait_done(loader, deadline);
	loader->paused = false;
	if (err)
		return err;
	for (int i = 0; i < loader->slot_count; i++)
		loader->slots[i].gathered = 0;
	loader->next = loader->wanted;
	loader->offset = step - loader->wanted;
	return 0;
}

/* Has a worker gather the batch, if none did so already. */
static int await(struct loader *loader, uint64_t step, struct slot **slot)
{
	struct timespec deadline;
	int err = 0;
	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += GATHER_MAX_S;
	pthread_mutex_lock(&loader->lock);
	if (step != loader->wanted + loader->offset)
		err = jump(loader, step, &deadline);
	uint64_t position = loader->wanted++;
	*slot = slot_of(loader, position);
	pthread_cond_signal(&loader->free);
	while (!err && (*slot)->gathered != position + 1)
		err = wait_done(loader, &deadline);
	pthread_mutex_unlock(&loader->lock);
	return err;
}

int loader_take(struct loader *loader, uint64_t epoch, size_t step, struct batch *batch)
{
	uint64_t number = epoch * loader->steps + step;
	struct slot *slot;
	if (loader->thread_count) {
		int err = await(loader, number, &slot);
		if (err)
			return err;
	} else {
		slot = slot_of(loader, loader->wanted++);
		pick(loader, slot, number);
		gather(loader, slot);
	}
	*batch = slot->batch;
	return data_check(loader->options.data);
}

/* ---- Memory of batches ---- */

static int allocate(struct device *device, void **memory, size_t size)
{
	if (device->number < 0)
		return device->ops->alloc(device, memory, size);
	*memory = malloc(size);
	return *memory ? 0 : fail("out of memory for a batch of %zu bytes", size);
}

int batches_create(struct batch **out, int count, struct device *device, const struct data *data,
	size_t samples)
{
	struct batch *batches = calloc(count, sizeof(*batches));
	size_t inputs_size = samples * data->input_count * sizeof(float);
	size_t labels_size = samples * data->label_count * sizeof(int32_t);
	int err = batches ? 0 : fail("out of memory");
	*out = NULL;
	for (int i = 0; !err && i < count; i++) {
		err = allocate(device, &batches[i].inputs, inputs_size);
		if (!err)
			err = allocate(device, (void **)&batches[i].labels, labels_size);
	}
	if (err)
		batches_destroy(batches, count, device);
	else
		*out = batches;
	return err;
}

void batches_destroy(struct batch *batches, int count, struct device *device)
{
	bool host = device->number < 0;
	for (int i = 0; batches && i < count; i++) {
		if (host) {
			device->ops->free(device, batches[i].inputs);
			device->ops->free(device, batches[i].labels);
		} else {
			free(batches[i].inputs);
			free(batches[i].labels);
		}
	}
	free(batches);
}
