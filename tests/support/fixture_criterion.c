/* A failed case fails the Criterion test that runs it. */
#include <criterion/criterion.h>

#include "transports/contract/fixture.h"

void case_failed(const char *reason)
{
	cr_assert_fail("%s", reason);
	abort();
}
