/* ctest label: instructions */
/* The instructions of this processor as the kernel lists them, and the build's limit. */
#include "base/instructions.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "exec/reduce.h"

/* Whether the first processor in /proc/cpuinfo has a flag. */
static bool has_flag(const char *flag)
{
	char *line = NULL, name[32];
	size_t room = 0;
	bool has = false, ends = false;
	FILE *file = fopen("/proc/cpuinfo", "r");

	cr_assert(file);
	snprintf(name, sizeof(name), " %s ", flag);
	while (!ends && getline(&line, &room, file) > 0) {
		ends = strncmp(line, "flags", 5) == 0;
		if (ends) {
			line[strcspn(line, "\n")] = ' ';
			has = strstr(line, name) != NULL;
		}
	}
	free(line);
	fclose(file);
	return has;
}

static const struct {
	enum rd_instructions level;
	const char *flags[5]; /* of Linux, beside those of the level before */
} levels[] = {
	{ RD_SSE42, { "sse4_2", "pclmulqdq" } },
	{ RD_AVX2, { "avx2", "fma", "f16c" } },
	{ RD_AVX512, { "avx512f", "avx512bw", "avx512dq", "avx512vl" } },
	{ RD_VPCLMUL, { "vpclmulqdq" } },
};

Test(instructions, are_the_processors_up_to_the_builds_limit)
{
	bool has = true;

	cr_assert(rd_has_instructions(RD_PLAIN));
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		for (int f = 0; f < 5 && levels[i].flags[f]; f++)
			has &= has_flag(levels[i].flags[f]);
		if (!strcmp(RONDO_INSTRUCTIONS, "none") ||
			(!strcmp(RONDO_INSTRUCTIONS, "avx2") && levels[i].level > RD_AVX2))
			has = false;
		cr_expect_eq(rd_has_instructions(levels[i].level), has, "%s", levels[i].flags[0]);
	}
}

Test(instructions, choose_the_kernels)
{
	cr_expect_eq(rd_has_instructions(RD_SSE42), rd_crc32c_variant("sse4.2") != NULL);
	cr_expect_eq(rd_has_instructions(RD_VPCLMUL), rd_crc32c_variant("avx512") != NULL);
	cr_expect_str_eq(rd_reduce_instructions(), rd_has_instructions(RD_AVX512) ? "avx512"
						   : rd_has_instructions(RD_AVX2) ? "avx2"
										  : "plain");
}
