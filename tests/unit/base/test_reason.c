/* Reasons that are kept. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

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
