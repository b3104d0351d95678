/* A picker keeps the choices of the size classes in use, and no table of all. */
#include <criterion/criterion.h>
#include <malloc.h>

#include "tuner/pick.h"

static struct rd_picker *picker_of(int size)
{
	struct rd_tuner_config config = {
		.size = size,
		.channels = 2,
		.piece_size = 128 << 10,
		.exchange_size = 32,
		.algo = "",
	};
	struct rd_picker *picker;

	rd_costs_default(&config.costs);
	picker = rd_picker_create(&config);
	cr_assert_not_null(picker);
	return picker;
}

static struct rd_choice *choose(struct rd_picker *picker, uint64_t bytes, bool peers_mapped)
{
	struct rd_choice *choice;

	cr_assert_eq(
		rd_picker_choose(picker, RD_ALL_REDUCE, bytes, RD_WHOLE, peers_mapped, &choice), 0,
		"%s", rondo_last_error());
	return choice;
}

/* Chunks that are kept for reuse count, too: those of a first picker hide what a second one frees
   at once. */
static size_t heap(void)
{
	return mallinfo2().uordblks;
}

struct memory {
	size_t before_the_first, first, twenty_more;
};

static struct memory measure(void)
{
	size_t start = heap(), before, first;
	struct rd_picker *picker = picker_of(2);
	struct memory memory;

	before = heap();
	choose(picker, 8, false);
	first = heap();
	for (int round = 0; round < 2; round++)
		for (int bit = 4; bit < 24; bit++)
			choose(picker, UINT64_C(1) << bit, false);
	memory = (struct memory){ before - start, first - start, heap() - first };
	rd_picker_destroy(picker);
	return memory;
}

Test(choices, take_little_memory_before_the_first_and_for_each)
{
	struct memory memory;

	if (heap() == 0)
		cr_skip("this allocator does not count");
	measure();
	memory = measure();
	cr_expect_leq(memory.before_the_first, 512, "%zu bytes", memory.before_the_first);
	cr_expect_leq(memory.first, 12 << 10, "%zu bytes after it", memory.first);
	cr_expect_leq(memory.twenty_more, 20 * 192, "%zu bytes for 20 more", memory.twenty_more);
}

#define SIZES 250 /* a class each */

static uint64_t size_of(int class)
{
	return class < 8 ? (uint64_t) class : (4 + (uint64_t) class % 4) << (class / 4 - 1);
}

static void expect_alike(const struct rd_choice *choice, const struct rd_choice *other)
{
	cr_assert_eq(choice->algorithm, other->algorithm);
	cr_assert_eq(choice->channels, other->channels);
	cr_assert_eq(choice->piece_size, other->piece_size);
	cr_assert_eq(choice->predicted_ns, other->predicted_ns);
}

/* As on ranks whose calls of one size differ in the history before them. */
Test(choices, are_the_same_in_every_order_of_calls_and_stay_in_place, .timeout = 60)
{
	struct rd_picker *upward = picker_of(5), *scattered = picker_of(5);
	struct rd_choice *chosen[2][SIZES];

	for (int i = 0; i < SIZES; i++)
		for (int mapped = 0; mapped < 2; mapped++)
			chosen[mapped][i] = choose(upward, size_of(i), mapped);
	for (int mapped = 1; mapped >= 0; mapped--)
		for (int i = 0; i < SIZES; i++) {
			int at = (i * 101 + 7) % SIZES;
			struct rd_choice *choice = choose(scattered, size_of(at), mapped);

			expect_alike(choice, chosen[mapped][at]);
			choice->calls = (uint64_t)(mapped * SIZES + at);
		}
	for (int mapped = 0; mapped < 2; mapped++)
		for (int i = 0; i < SIZES; i++) {
			struct rd_choice *again = choose(scattered, size_of(i), mapped);

			cr_assert_eq(choose(upward, size_of(i), mapped), chosen[mapped][i]);
			cr_assert_eq(again->calls, (uint64_t)(mapped * SIZES + i), "class %d", i);
			again->calls = 0;
		}
	rd_picker_destroy(upward);
	rd_picker_destroy(scattered);
}
