#include "exec/reduce.h"

#include <string.h>

#include "base/instructions.h"
#include "exec/copy.h"
#include "exec/reduce_variant.h"

/* The best first. */
static const struct {
	const struct rd_reduce_variant *variant;
	enum rd_instructions needs;
} variants[] = {
#if defined(__x86_64__)
	{ &rd_reduce_avx512, RD_AVX512 },
	{ &rd_reduce_avx2, RD_AVX2 },
#elif defined(__aarch64__)
	{ &rd_reduce_neon, RD_NEON },
#endif
	{ &rd_reduce_plain, RD_PLAIN },
};

#define VARIANT_COUNT (sizeof(variants) / sizeof(variants[0]))

/* Chosen once, before main() and any thread; plain for constructors that run before ours. */
static const struct rd_reduce_variant *chosen = &rd_reduce_plain;

__attribute__((constructor)) static void choose(void)
{
	for (size_t i = VARIANT_COUNT; i-- > 0;)
		if (rd_has_instructions(variants[i].needs))
			chosen = variants[i].variant;
}

rd_reduce_function rd_reduce(rondo_type type, rondo_op op)
{
	return chosen->reduce[type][op];
}

bool rd_average(void *into, size_t count, rondo_type type, int by)
{
	return chosen->average[type](into, count, by);
}

void rd_add_scaled(void *into, const void *a, const void *b, size_t count, rondo_type type,
	const struct rd_scaled_sum *sum)
{
	chosen->add_scaled[type][sum->by != 0](into, a, b, count, sum);
}

void rd_widen(float *into, const void *from, size_t count, rondo_type type)
{
	chosen->widen[type](into, from, count);
}

void rd_narrow(void *into, const float *from, size_t count, rondo_type type)
{
	chosen->narrow[type](into, from, count);
}

void rd_copy_wide(void *into, const void *from, size_t size)
{
	chosen->copy(into, from, size);
}

const char *rd_reduce_instructions(void)
{
	return chosen->name;
}

rd_reduce_function rd_reduce_variant(const char *instructions, rondo_type type, rondo_op op)
{
	for (size_t i = 0; i < VARIANT_COUNT; i++)
		if (!strcmp(variants[i].variant->name, instructions) &&
			rd_has_instructions(variants[i].needs))
			return variants[i].variant->reduce[type][op];
	return NULL;
}
