#include "report.h"

#include <stdio.h>
#include <string.h>

#define NAMED_MAX 32

unsigned named_ranks(const char *text, int *first)
{
	unsigned named = 0;

	*first = -1;
	for (const char *at = strstr(text, "rank"); at; at = strstr(at + 1, "rank")) {
		const char *list = at + 4 + (at[4] == 's');
		int number, used;

		while (sscanf(list, "%*[ ,and]%n%d", &used, &number) == 1 && number < NAMED_MAX) {
			if (*first < 0)
				*first = number;
			named |= 1u << number;
			list += used + 1;
		}
	}
	return named;
}

void trace_print(uint64_t event, uint64_t now_ns, int rank, const char *format, va_list args)
{
	printf("%6llu %11.3f ms  ", (unsigned long long)event, (double)now_ns / 1e6);
	if (rank >= 0)
		printf("rank %d: ", rank);
	vprintf(format, args);
	putchar('\n');
}
