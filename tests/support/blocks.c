#include "blocks.h"

#include <string.h>

size_t pattern_length(enum pattern pattern, int size, int from, int to)
{
	int k = from * 3 + to * 5;

	switch (pattern) {
	case NOTHING:
		return 0;
	case RISING:
		return from + to;
	case ONE_ALONE:
		return from == size - 1 && to == size - 1 ? 1001 : 0;
	case ODD:
		return k % 4 == 0 ? 0 : 2 * (k * 977 % 3000) + 1;
	default:
		return from == size / 2 ? 70001 : (size_t)k % 7;
	}
}

int32_t block_value(int from, int to, size_t i)
{
	uint64_t x = ((uint64_t)from << 48 ^ (uint64_t)to << 40 ^ i) * UINT64_C(0x9e3779b97f4a7c15);

	return (int32_t)(x >> 32);
}

void i32_put(char *at, size_t i, int32_t number)
{
	memcpy(at + 4 * i, &number, 4);
}

bool i32_is(const char *at, size_t i, int32_t number)
{
	return memcmp(at + 4 * i, &number, 4) == 0;
}
