/* Pinned host memory: allocated by the driver, or registered. */
#include "state.h"

#define PINNED_MAX 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char *at;
	size_t size;
} pinned[PINNED_MAX];

CUresult pinned_add(void *memory, size_t size)
{
	CUresult result = CUDA_SUCCESS;
	const char *at = memory;
	int free_place = -1;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < PINNED_MAX; i++)
		if (!pinned[i].at)
			free_place = i;
		else if (at < pinned[i].at + pinned[i].size && pinned[i].at < at + size)
			result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (!result && free_place < 0)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (!result) {
		pinned[free_place].at = memory;
		pinned[free_place].size = size;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult pinned_remove(void *memory)
{
	CUresult result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < PINNED_MAX && result; i++) {
		if (pinned[i].at != memory)
			continue;
		pinned[i].at = NULL;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

bool is_pinned(const void *at)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < PINNED_MAX && !found; i++)
		found = pinned[i].at && (const char *)at >= pinned[i].at &&
			(const char *)at < pinned[i].at + pinned[i].size;
	pthread_mutex_unlock(&lock);
	return found;
}
