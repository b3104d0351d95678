#include "secure/openssl.h"

#include "base/library.h"

struct rd_openssl rd_openssl;

#define NAME(function) #function,
static const char *const names[] = { RD_OPENSSL_FUNCTIONS(NAME) };
#undef NAME

/*
 * Where nobody has used OpenSSL before, it would free its tables in an exit handler. Handlers that
 * run later may use a comm, threads of ours still do, and a forked child that calls exit() could
 * wait for a lock of a thread that it does not have. A program that used it first has chosen.
 */
static void omit_cleanup(void)
{
	rd_openssl.OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

/* libcrypto, on which it depends, has some of the functions. */
static struct rd_library library = {
	.file = OPENSSL_VERSION_NUMBER >= 0x30000000L ? "libssl.so.3" : "libssl.so.1.1",
	.reason = "",
	.remedy = "",
	.names = names,
	.functions = &rd_openssl,
	.count = sizeof(names) / sizeof(names[0]),
	.start = omit_cleanup,
	.lock = RD_FORK_LOCK(RD_FORK_LEAF),
};

int rd_openssl_load(void)
{
	return rd_library_load(&library);
}
