#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"

/* dlsym() finds functions of the libraries on which this one depends as well. */
static int find_functions(const struct rd_library *library, void *handle)
{
	for (size_t i = 0; i < library->count; i++) {
		void *function = dlsym(handle, library->names[i]);

		if (!function)
			return rd_fail(RONDO_UNSUPPORTED, "%s is too old: it has no %s()",
				library->file, library->names[i]);
		memcpy((char *)library->functions + i * sizeof(function), &function,
			sizeof(function));
	}
	return 0;
}

static int load(const struct rd_library *library)
{
	void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
	int err;

	if (!handle)
		return rd_fail(RONDO_UNSUPPORTED, "%s%s cannot be loaded (%s)%s", library->reason,
			library->file, dlerror(), library->remedy);
	err = find_functions(library, handle);
	if (err) {
		dlclose(handle);
		return err;
	}
	if (library->start)
		library->start();
	return 0;
}

int rd_library_load(struct rd_library *library)
{
	int err = 0;

	rd_fork_lock(&library->lock);
	if (!library->loaded)
		err = load(library);
	library->loaded |= err == 0;
	rd_fork_unlock(&library->lock);
	return err;
}
