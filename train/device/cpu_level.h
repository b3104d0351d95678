/*
 * The width of the processor's vectors, by which loops of the CPU have variants. The widest that
 * the processor has is chosen once, before main().
 */
#ifndef TRAIN_DEVICE_CPU_LEVEL_H
#define TRAIN_DEVICE_CPU_LEVEL_H

#include <stdbool.h>

enum cpu_level {
	CPU_PLAIN, /* what the compiler may assume */
	CPU_AVX2, /* with FMA */
	CPU_AVX512, /* F, BW, DQ, VL */
	CPU_LEVELS
};

/* By level: "plain", "avx2", "avx512". */
extern const char *const cpu_level_names[CPU_LEVELS];

enum cpu_level cpu_level(void);
/* Chooses another. For tests. Returns whether the processor has it. */
bool cpu_level_choose(enum cpu_level level);

#endif
