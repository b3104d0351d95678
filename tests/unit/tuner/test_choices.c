/* A picker keeps the choices of the size classes in use, and no table of all. */
#include <criterion/criterion.h>
#include <malloc.h>

#include "tuner/pick.h"

/* The linker has the library call these in this program: CMakeLists.txt. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

static int64_t held; /* bytes */

void *__wrap_malloc(size_t size)
{
	void *memory = __real_malloc(size);

	held += (int64_t)malloc_usable_size(memory);
	return memory;
}

void *__wrap_calloc(size_t count, size_t size)
{
	void *memory = __real_calloc(count, size);

	held += (int64_t)malloc_usable_size(memory);
	return memory;
}

void *__wrap_realloc(void *memory, size_t size)
{
	size_t before = malloc_usable_size(memory);
	void *grown = __real_realloc(memory, size);

	held += (int64_t)malloc_usable_size(grown) - (int64_t)before;
	return grown;
}

void __wrap_free(void *memory)
{
	held -= (int64_t)malloc_usable_size(memory);
	__real_free(memory);
}

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

Test(choices, take_little_memory_before_the_first_and_for_each)
{
	struct rd_picker *picker = picker_of(2);
	int64_t first;

	cr_assert_leq(held, 512, "%lld bytes before the first choice", (long long)held);
	choose(picker, 8, false);
	first = held;
	cr_assert_leq(first, 12 << 10, "%lld bytes after it", (long long)first);
	for (int bit = 4; bit < 24; bit++)
		choose(picker, UINT64_C(1) << bit, false);
	cr_assert_leq(held - first, 20 * 192, "%lld bytes for 20 more", (long long)(held - first));
	for (int bit = 4; bit < 24; bit++)
		choose(picker, UINT64_C(1) << bit, false);
	cr_assert_leq(
		held - first, 20 * 192, "%lld bytes once they repeat", (long long)(held - first));
	rd_picker_destroy(picker);
	cr_assert_eq(held, 0, "%lld bytes are lost", (long long)held);
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
	cr_assert_eq(choice->exchange_pays, other->exchange_pays);
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
