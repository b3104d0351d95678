/* Powers of two, for algorithms of partners at distances that double. */
#ifndef RD_POWER_H
#define RD_POWER_H

/* The largest power of two up to `size`, which is at least 1. */
static inline int rd_largest_power(int size)
{
	int power = 1;

	while (2 * power <= size)
		power *= 2;
	return power;
}

#endif
