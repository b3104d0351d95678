#include "secure/openssl.h"

#include <dlfcn.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/fork_lock.h"

struct rd_openssl rd_openssl;

static struct rd_fork_lock lock = RD_FORK_LOCK(RD_FORK_LEAF);
static bool loaded;

/* dlsym() finds the functions of libcrypto, on which libssl depends, as well. */
static int find_functions(void *library, const char *name)
{
#define FIND(function) \
	rd_openssl.function = (__typeof__(rd_openssl.function))dlsym(library, #function); \
	if (!rd_openssl.function) \
		return rd_fail(RONDO_UNSUPPORTED, "%s has no %s()", name, #function);
	RD_OPENSSL_FUNCTIONS(FIND)
#undef FIND
	return 0;
}

static int load(void)
{
	static const char *const name =
		OPENSSL_VERSION_NUMBER >= 0x30000000L ? "libssl.so.3" : "libssl.so.1.1";
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	int err;

	if (!library)
		return rd_fail(RONDO_UNSUPPORTED, "%s cannot be loaded (%s)", name, dlerror());
	err = find_functions(library, name);
	if (err)
		dlclose(library);
	return err;
}

int rd_openssl_load(void)
{
	int err = 0;

	rd_fork_lock(&lock);
	if (!loaded)
		err = load();
	loaded |= err == 0;
	rd_fork_unlock(&lock);
	return err;
}
