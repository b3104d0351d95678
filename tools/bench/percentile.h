/* Percentiles of measured values. */
#ifndef BENCH_PERCENTILE_H
#define BENCH_PERCENTILE_H

#include <stddef.h>

/* Sorts the values, the least first. */
void bench_sort(double *values, size_t count);

/* The smallest of `count` sorted values that `percent` of 100 of them do not exceed. */
double bench_percentile(const double *sorted, size_t count, int percent);

#endif
