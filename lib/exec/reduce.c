#include "exec/reduce.h"

#include <stdbool.h>
#include <string.h>

#include "exec/copy.h"
#include "exec/reduce_variant.h"

#if defined(__x86_64__)
#include <cpuid.h>

static bool has_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && has_f16c();
}

static bool has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl");
}
#endif

static bool has_plain(void)
{
	return true;
}

/* The best first. */
static const struct {
	const struct rd_reduce_variant *variant;
	bool (*runs_here)(void);
} variants[] = {
#if defined(__x86_64__)
	{ &rd_reduce_avx512, has_avx512 },
	{ &rd_reduce_avx2, has_avx2 },
#endif
	{ &rd_reduce_plain, has_plain },
};

#define VARIANT_COUNT (sizeof(variants) / sizeof(variants[0]))

/* Chosen once, before main() and any thread; plain for constructors that run before ours. */
static const struct rd_reduce_variant *chosen = &rd_reduce_plain;

__attribute__((constructor)) static void choose(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
#endif
	for (size_t i = VARIANT_COUNT; i-- > 0;)
		if (variants[i].runs_here())
			chosen = variants[i].variant;
}

rd_reduce_function rd_reduce(rondo_type type, rondo_op op)
{
	return chosen->reduce[type][op];
}

void rd_average(void *into, size_t count, rondo_type type, int by)
{
	chosen->average[type](into, count, by);
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
		if (!strcmp(variants[i].variant->name, instructions) && variants[i].runs_here())
			return variants[i].variant->reduce[type][op];
	return NULL;
}
