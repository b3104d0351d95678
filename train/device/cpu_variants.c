#include "train/device/cpu_variants.h"

#include <stddef.h>
#include <string.h>

const void *cpu_variant_find(const struct cpu_variant *variants, const char *name)
{
	for (; variants->name; variants++)
		if ((!name || !strcmp(variants->name, name)) &&
			rd_has_instructions(variants->needs))
			return variants->table;
	return NULL;
}
