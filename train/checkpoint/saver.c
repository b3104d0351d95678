#include "train/checkpoint/saver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"

struct saver {
	const char *path;
	pthread_t thread;
	bool busy; /* the thread was started, and not joined */
	atomic_bool ended;
	struct stored stored;
	int err; /* of the save, and its reason */
	char reason[CHECKPOINT_REASON];
};

int saver_create(struct saver **out, const char *path)
{
	struct saver *saver = calloc(1, sizeof(*saver));
	*out = saver;
	if (!saver)
		return fail("out of memory");
	saver->path = path;
	return 0;
}

void saver_destroy(struct saver *saver)
{
	if (!saver)
		return;
	saver_wait(saver);
	free(saver);
}

static void *save(void *argument)
{
	struct saver *saver = argument;
	saver->err = checkpoint_save(saver->path, &saver->stored);
	if (saver->err)
		snprintf(saver->reason, sizeof(saver->reason), "%s", failure());
	atomic_store(&saver->ended, true);
	return NULL;
}

int saver_start(struct saver *saver, struct stored *stored)
{
	saver->stored = *stored;
	stored_init(stored);
	atomic_store(&saver->ended, false);
	int error = pthread_create(&saver->thread, NULL, save, saver);
	if (error) {
		stored_finish(&saver->stored);
		return fail(
			"%s: cannot start a thread to save it: %s", saver->path, strerror(error));
	}
	saver->busy = true;
	return 0;
}

bool saver_ended(struct saver *saver)
{
	return saver->busy && atomic_load(&saver->ended);
}

bool saver_busy(const struct saver *saver)
{
	return saver->busy;
}

int saver_wait(struct saver *saver)
{
	if (!saver->busy)
		return 0;
	pthread_join(saver->thread, NULL);
	saver->busy = false;
	stored_finish(&saver->stored);
	return saver->err ? fail("%s", saver->reason) : 0;
}
