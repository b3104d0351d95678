#include "named.h"

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
