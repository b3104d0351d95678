/* Variants of code for the processor's vectors: AVX-512, AVX2, or plain C. */
#ifndef TRAIN_DEVICE_CPU_VARIANTS_H
#define TRAIN_DEVICE_CPU_VARIANTS_H

#include "base/instructions.h"

struct cpu_variant {
	const char *name; /* NULL ends a list */
	const void *table; /* its functions, for the caller */
	enum rd_instructions needs;
};

/* The table of the first variant that this processor can run, and that has this name (NULL: any).
   NULL: there is none. Can be called before main(). */
const void *cpu_variant_find(const struct cpu_variant *variants, const char *name);

#endif
