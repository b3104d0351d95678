/* The numbers that rondo-bench sends, and its check of what comes back. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "bench/values.h"
#include "exec/mean.h"
#include "exec/parts.h"
#include "exec/reduce.h"

#define COUNT 5000 /* more than one period of the numbers */

/* The sum is exact in the type. */
static void divide(const struct bench_values *values, void *into)
{
	float wide[COUNT];

	if (!rd_type_is_narrow(values->type)) {
		size_t count = COUNT;
		rondo_type part = rd_parts_of(values->type, &count);

		rd_average(into, count, part, values->size);
		return;
	}
	rd_widen(wide, into, COUNT, values->type);
	rd_average(wide, COUNT, RONDO_F32, values->size);
	rd_narrow(into, wide, COUNT, values->type);
}

/* Combines what `size` ranks send, in the order first, first + step, ..., as the library would. */
static void combine(const struct bench_values *values, void *into, int first, int step)
{
	unsigned char other[COUNT * 16];

	bench_values_fill(values, into, COUNT, first, 0);
	for (int i = 1; i < values->size; i++) {
		bench_values_fill(values, other, COUNT, (first + i * step) % values->size, 0);
		rd_reduce(values->type, values->op)(into, into, other, COUNT);
	}
	if (values->op == RONDO_AVG)
		divide(values, into);
}

/* Forwards and backwards: each rank's number meets the others' in another order. */
static void expect_right(const struct bench_values *values)
{
	unsigned char result[COUNT * 16];
	int last = values->size - 1;

	combine(values, result, 0, 1);
	cr_assert_eq(bench_values_wrong(values, result, COUNT, BENCH_REDUCED, 0), 0,
		"%s %s over %d ranks", rondo_type_name(values->type), rondo_op_name(values->op),
		values->size);
	combine(values, result, last, last);
	cr_assert_eq(bench_values_wrong(values, result, COUNT, BENCH_REDUCED, 0), 0,
		"%s %s over %d ranks, backwards", rondo_type_name(values->type),
		rondo_op_name(values->op), values->size);
}

Test(bench_values, a_right_result_is_right_in_any_order)
{
	static const int sizes[] = { 1, 2, 3, 8 };

	for (int type = 0; type < RONDO_TYPE_COUNT; type++) {
		for (int op = 0; op < RONDO_OP_COUNT; op++) {
			for (size_t i = 0;
				i < sizeof(sizes) / sizeof(*sizes) && rondo_op_applies(op, type);
				i++)
				expect_right(&(struct bench_values){ type, op, sizes[i], 7 });
		}
	}
}

Test(bench_values, more_ranks_than_a_narrow_type_can_count_still_give_exact_results)
{
	for (int op = 0; op < RONDO_OP_COUNT; op++) {
		expect_right(&(struct bench_values){ RONDO_I8, op, 300, 7 });
		if (rondo_op_applies(op, RONDO_BF16))
			expect_right(&(struct bench_values){ RONDO_BF16, op, 300, 7 });
	}
}

Test(bench_values, a_single_flipped_bit_is_found_wherever_it_is)
{
	struct bench_values values = { RONDO_F32, RONDO_SUM, 4, 1 };
	unsigned char result[COUNT * 16];
	static const size_t places[] = { 0, 1, 4098, 4099, COUNT - 1 };

	bench_values_fill(&values, result, COUNT, BENCH_REDUCED, 3);
	cr_assert_eq(bench_values_wrong(&values, result, COUNT, BENCH_REDUCED, 3), 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		result[places[i] * 4] ^= 1;
		cr_assert_eq(bench_values_wrong(&values, result, COUNT, BENCH_REDUCED, 3), 1,
			"at %zu", places[i]);
		result[places[i] * 4] ^= 1;
	}
}

Test(bench_values, a_rank_left_out_or_counted_twice_is_found)
{
	struct bench_values values = { RONDO_BF16, RONDO_SUM, 3, 1 };
	unsigned char result[COUNT * 16], other[COUNT * 16];

	bench_values_fill(&values, result, COUNT, 0, 0);
	bench_values_fill(&values, other, COUNT, 1, 0);
	rd_reduce(RONDO_BF16, RONDO_SUM)(result, result, other, COUNT);
	cr_assert_gt(bench_values_wrong(&values, result, COUNT, BENCH_REDUCED, 0), COUNT / 2);
	rd_reduce(RONDO_BF16, RONDO_SUM)(result, result, other, COUNT);
	cr_assert_gt(bench_values_wrong(&values, result, COUNT, BENCH_REDUCED, 0), COUNT / 2);
}

Test(bench_values, another_ranks_block_or_an_earlier_rounds_data_is_found)
{
	struct bench_values values = { RONDO_I32, RONDO_MAX, 4, 1 },
			    later = { RONDO_I32, RONDO_MAX, 4, 2 };
	unsigned char block[COUNT * 16];

	bench_values_fill(&values, block, COUNT, 2, 1024);
	cr_assert_eq(bench_values_wrong(&values, block, COUNT, 2, 1024), 0);
	cr_assert_gt(bench_values_wrong(&values, block, COUNT, 1, 1024), COUNT * 9 / 10);
	cr_assert_gt(bench_values_wrong(&values, block, COUNT, 2, 2048), COUNT * 9 / 10);
	cr_assert_gt(bench_values_wrong(&later, block, COUNT, 2, 1024), COUNT * 9 / 10);
}

Test(bench_values, a_fill_from_the_middle_is_a_part_of_the_whole)
{
	struct bench_values values = { RONDO_F16, RONDO_PROD, 4, 1 };
	uint16_t whole[COUNT], part[100];

	bench_values_fill(&values, whole, COUNT, 1, 0);
	bench_values_fill(&values, part, 100, 1, 4050);
	cr_assert_arr_eq(part, whole + 4050, sizeof(part));
}

Test(bench_values, neutral_numbers_survive_any_number_of_reductions)
{
	unsigned char first[64 * 16], again[64 * 16];

	for (int type = 0; type < RONDO_TYPE_COUNT; type++) {
		for (int op = 0; op < RONDO_OP_COUNT; op++) {
			size_t size = 64 * rondo_type_size(type);

			if (!rondo_op_applies(op, type))
				continue;
			bench_values_fill_neutral(type, op, first, 64);
			memcpy(again, first, size);
			rd_reduce(type, op)(again, again, first, 64);
			cr_assert_arr_eq(again, first, size, "%s %s", rondo_type_name(type),
				rondo_op_name(op));
		}
	}
}
