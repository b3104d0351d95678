#include "trace.h"

#include <stdio.h>

void trace_print(uint64_t event, uint64_t now_ns, int rank, const char *format, va_list args)
{
	printf("%6llu %11.3f ms  ", (unsigned long long)event, (double)now_ns / 1e6);
	if (rank >= 0)
		printf("rank %d: ", rank);
	vprintf(format, args);
	putchar('\n');
}
