#include "percentile.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void bench_sort(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), ascending);
}

double bench_percentile(const double *sorted, size_t count, int percent)
{
	size_t place = (count * (size_t)percent + 99) / 100; /* rounded up, from 1 */
	return sorted[place > 0 ? place - 1 : 0];
}
