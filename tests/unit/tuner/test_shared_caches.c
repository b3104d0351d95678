/* The costs beyond the caches that cores share, as text and as measured. */
#include <criterion/criterion.h>

#include <string.h>

#include "tuner/cost.h"

#include "comm/calibrate_memory.h"

static struct rd_costs some_costs(void)
{
	struct rd_costs costs;

	rd_costs_default(&costs);
	costs.memory_copy_ps = 70;
	costs.memory_reduce_ps[RD_WHOLE] = 110;
	costs.memory_reduce_ps[RD_HALF] = 260;
	costs.beyond_copy_ps = 71;
	costs.beyond_reduce_ps[RD_WHOLE] = 111;
	costs.beyond_reduce_ps[RD_HALF] = 261;
	costs.shared_cache_bytes = 1 << 25;
	return costs;
}

static struct rd_costs read_from(const char *text)
{
	struct rd_costs read = { 0 };
	char wrong[120];
	int line;

	cr_assert(rd_costs_read(&read, text, &line, wrong, sizeof(wrong)), "%s", wrong);
	return read;
}

Test(shared_caches, are_read_as_they_were_printed)
{
	struct rd_costs costs = some_costs(), read;
	char text[2048];

	cr_assert_lt(rd_costs_print(&costs, text, sizeof(text)), (int)sizeof(text));
	read = read_from(text);
	cr_expect_eq(memcmp(&read, &costs, sizeof(costs)), 0, "%s", text);
}

Test(shared_caches, of_which_older_files_have_no_lines_are_unknown)
{
	struct rd_costs costs = some_costs(), read;
	char text[2048];

	rd_costs_print(&costs, text, sizeof(text));
	*strstr(text, "beyond_copy_ps") = '\0';
	read = read_from(text);
	cr_expect_eq(read.shared_cache_bytes, 0);
	cr_expect_eq(read.beyond_copy_ps, 70);
	cr_expect_eq(read.beyond_reduce_ps[RD_HALF], 260);
}

Test(shared_caches, memory_beyond_them_never_costs_less)
{
	struct rd_costs costs = some_costs();

	costs.beyond_copy_ps = costs.beyond_reduce_ps[RD_WHOLE] = 1;
	rd_costs_bound(&costs);
	cr_expect_eq(costs.beyond_copy_ps, 70);
	cr_expect_eq(costs.beyond_reduce_ps[RD_WHOLE], 110);
}

#ifdef __x86_64__
Test(shared_caches, memory_beyond_them_is_measured)
{
	struct rd_costs costs;

	rd_costs_default(&costs);
	costs.beyond_copy_ps = costs.beyond_reduce_ps[RD_WHOLE] = 0;
	rd_calibrate_memory(&costs);
	if (costs.shared_cache_bytes == 0)
		cr_skip("the size of this machine's shared caches is unknown");
	/* Lines that are in no cache take longer than those of a block in the first one. */
	cr_expect_gt(costs.beyond_copy_ps, costs.copy_ps);
	cr_expect_gt(costs.beyond_reduce_ps[RD_WHOLE], costs.reduce_ps[RD_WHOLE]);
}
#endif
