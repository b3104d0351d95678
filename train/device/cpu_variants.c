#include "train/device/cpu_variants.h"

#include <string.h>

bool cpu_variant_choose(const struct cpu_variant *variants, const char *name, const void **chosen)
{
	for (; variants->name; variants++)
		if ((!name || !strcmp(variants->name, name)) &&
			rd_has_instructions(variants->needs)) {
			*chosen = variants->table;
			return true;
		}
	return false;
}
