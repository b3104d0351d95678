/* Other processes' memory that is mapped here. A handle that is opened again gives the same
   address, and is closed as often. */
#include <stdlib.h>
#include <string.h>

#include "allocations.h"
#include "state.h"

struct opened {
	struct opened *next;
	CUipcMemHandle handle;
	int device, count;
	void *at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *all;

static CUresult open_first(int device, const CUipcMemHandle *handle, struct opened **made)
{
	struct opened *opened = calloc(1, sizeof(*opened));

	if (!opened)
		return CUDA_ERROR_OUT_OF_MEMORY;
	opened->at = allocation_import(device, handle);
	if (!opened->at) {
		free(opened);
		return CUDA_ERROR_INVALID_VALUE;
	}
	opened->handle = *handle;
	opened->device = device;
	opened->next = all;
	all = *made = opened;
	return CUDA_SUCCESS;
}

CUresult ipc_open(int device, const CUipcMemHandle *handle, void **at)
{
	struct opened *found;
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	for (found = all; found; found = found->next)
		if (found->device == device && !memcmp(&found->handle, handle, sizeof(*handle)))
			break;
	if (!found)
		result = open_first(device, handle, &found);
	if (!result) {
		found->count++;
		*at = found->at;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult ipc_close(int device, void *at)
{
	struct opened **place = &all, *found;

	pthread_mutex_lock(&lock);
	while (*place && ((*place)->device != device || (*place)->at != at))
		place = &(*place)->next;
	found = *place;
	if (found && --found->count == 0) {
		*place = found->next;
		allocation_drop(at);
		free(found);
	}
	pthread_mutex_unlock(&lock);
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
