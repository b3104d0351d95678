#include "transports/verbs/library.h"

#include <dlfcn.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/fork_lock.h"

#define LIBRARY "libibverbs.so.1"

struct rd_verbs_library rd_verbs;

static struct rd_fork_lock lock = RD_FORK_LOCK(RD_FORK_LEAF);
static bool loaded;

static int find_functions(void *library)
{
#define FIND(name) \
	rd_verbs.name = (__typeof__(rd_verbs.name))dlsym(library, "ibv_" #name); \
	if (!rd_verbs.name) \
		return rd_fail( \
			RONDO_UNSUPPORTED, "%s is too old: it has no ibv_%s()", LIBRARY, #name);
	RD_VERBS_FUNCTIONS(FIND)
#undef FIND
	return 0;
}

static int load(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	int err;

	if (!library)
		return rd_fail(RONDO_UNSUPPORTED,
			"there are RDMA devices, but %s cannot be loaded (%s): install Debian's "
			"package ibverbs-providers, or its like",
			LIBRARY, dlerror());
	err = find_functions(library);
	if (err) {
		dlclose(library);
		return err;
	}
	/* A forked child must not take pages from under the devices. Linux 5.12 and later see to
	   that themselves, and the call then does nothing. */
	rd_verbs.fork_init();
	return 0;
}

int rd_verbs_library_load(void)
{
	int err = 0;

	rd_fork_lock(&lock);
	if (!loaded)
		err = load();
	loaded |= err == 0;
	rd_fork_unlock(&lock);
	return err;
}
