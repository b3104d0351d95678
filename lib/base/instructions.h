/*
 * Vector instructions of the processor. All code of Rondo that chooses between kernels at run time
 * asks here. So a build for tests can use fewer than the processor has (CMake: RONDO_INSTRUCTIONS).
 */
#ifndef RD_INSTRUCTIONS_H
#define RD_INSTRUCTIONS_H

#include <stdbool.h>

/* Those of x86-64 each with those before it. */
enum rd_instructions {
	RD_PLAIN, /* those of the whole build: SSE2 on x86-64 */
	RD_SSE42, /* SSE4.2, PCLMUL */
	RD_AVX2, /* AVX2, FMA, F16C */
	RD_AVX512, /* AVX-512 F, BW, DQ, VL */
	RD_VPCLMUL, /* VPCLMULQDQ */
	RD_NEON, /* of aarch64, beside all of these */
};

/* Whether kernels may use them here. Can be called before main(). */
bool rd_has_instructions(enum rd_instructions needed);

#endif
