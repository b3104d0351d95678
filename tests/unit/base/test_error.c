/* ctest label: threads */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/error.h"

Test(error, a_failure_records_its_reason_and_returns_its_code)
{
	cr_assert_eq(rd_fail(RONDO_DIED, "rank %d (%s) died", 3, "host b"), RONDO_DIED);
	cr_assert_str_eq(rondo_last_error(), "rank 3 (host b) died");
}

Test(error, a_reason_may_quote_the_one_before)
{
	rd_fail(RONDO_BROKEN, "reset");
	rd_fail(RONDO_BROKEN, "rank 1: %s", rondo_last_error());
	cr_assert_str_eq(rondo_last_error(), "rank 1: reset");
}

Test(error, a_system_error_ends_in_the_text_of_errno)
{
	errno = ENOENT;
	cr_assert_eq(rd_fail_errno("cannot open %s", "x"), RONDO_SYSTEM);
	cr_assert_str_eq(rondo_last_error(), "cannot open x: No such file or directory");
}

Test(error, every_code_has_a_name_and_a_text)
{
	cr_assert_str_eq(rondo_error_name(RONDO_TIMEOUT), "RONDO_TIMEOUT");
	cr_assert_str_eq(rondo_error_text(RONDO_TIMEOUT), "a rank was silent for too long");
	cr_assert_str_eq(rondo_error_text(-9999), "unknown error");
}
