/* Variants of code for the processor's vectors: AVX-512, AVX2, or plain C. */
#ifndef TRAIN_DEVICE_CPU_VARIANTS_H
#define TRAIN_DEVICE_CPU_VARIANTS_H

#include <stdbool.h>

#include "base/instructions.h"

struct cpu_variant {
	const char *name; /* NULL ends a list */
	const void *table; /* its functions, for the caller */
	enum rd_instructions needs;
};

/* Sets *chosen to the table of the first variant that this processor can run, and has this name
   (NULL: any). False: there is none, and *chosen stays. Can be called before main(). */
bool cpu_variant_choose(const struct cpu_variant *variants, const char *name, const void **chosen);

#endif
