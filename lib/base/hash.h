/* FNV-1a, 64 bits, as in Fowler, Noll and Vo's draft-eastlake-fnv. For equality checks alone. */
#ifndef RD_HASH_H
#define RD_HASH_H

#include <stddef.h>
#include <stdint.h>

#define RD_HASH_INIT UINT64_C(0xcbf29ce484222325)

static inline uint64_t rd_hash(uint64_t hash, const void *bytes, size_t size)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ at[i]) * 0x100000001b3;
	return hash;
}

#endif
