/* LeakSanitizer, in tests that Criterion runs. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

const char *__lsan_default_suppressions(void);

/*
 * Criterion's runner sometimes leaks what it keeps of a test's timeout. That is not ours to mend;
 * but in the processes that run the tests nothing is excused.
 */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	/* Set for those processes by the library that makes them. */
	return getenv("BXFI_MAP") ? "" : "leak:libcriterion.so";
}

#define NO_ATEXIT UINT64_C(0x80000) /* OPENSSL_INIT_NO_ATEXIT: OpenSSL may not be installed */

/*
 * Criterion initializes OpenSSL, by libgit2, and OpenSSL then cleans up as the process exits. A
 * thread of ours that ends behind that leaks its random generators: rank 0's of a comm that it
 * left, say. Before main(), this has OpenSSL leave that out, as Rondo does where it comes first.
 */
__attribute__((constructor)) static void omit_cleanup(void)
{
	int (*init)(uint64_t, const void *) =
		(int (*)(uint64_t, const void *))dlsym(RTLD_DEFAULT, "OPENSSL_init_crypto");

	if (init)
		init(NO_ATEXIT, NULL);
}
