/* ctest label: threads */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- Reasons that are kept ------------------------------------------------------------------- */

/* Reasons that are kept. */

Test(reason, replaces_the_one_before_which_may_be_a_part_of_it)
{
	char *reason = NULL;

	cr_expect_str_eq(rd_reason_text(reason), "no memory for the reason");
	rd_reason_set(&reason, "rank %d died", 3);
	rd_reason_set(&reason, "%s; rank %d saw it", reason, 4);
	cr_expect_str_eq(rd_reason_text(reason), "rank 3 died; rank 4 saw it");
	free(reason);
}

Test(reason, is_cut_as_all_reasons_are)
{
	char text[2 * RD_REASON_SIZE], *reason = NULL;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	rd_reason_set(&reason, "%s", text);
	cr_expect_eq(strlen(rd_reason_text(reason)), RD_REASON_SIZE - 1);
	free(reason);
}
