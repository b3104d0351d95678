#include "secure/openssl.h"

#include "base/library.h"

struct rd_openssl rd_openssl;

#define NAME(function) #function,
static const char *const names[] = { RD_OPENSSL_FUNCTIONS(NAME) };
#undef NAME

/* libcrypto, on which it depends, has some of the functions. */
static struct rd_library library = {
	.file = OPENSSL_VERSION_NUMBER >= 0x30000000L ? "libssl.so.3" : "libssl.so.1.1",
	.reason = "",
	.remedy = "",
	.names = names,
	.functions = &rd_openssl,
	.count = sizeof(names) / sizeof(names[0]),
	.lock = RD_FORK_LOCK(RD_FORK_LEAF),
};

int rd_openssl_load(void)
{
	return rd_library_load(&library);
}
