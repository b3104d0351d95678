#include "train/entropy.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

double entropy_of_bytes(const char *path)
{
	FILE *file = fopen(path, "r");
	double counts[256] = { 0 }, all = 0, entropy = 0;
	cr_assert_not_null(file, "%s", path);
	for (int byte; (byte = getc(file)) != EOF; all++)
		counts[byte]++;
	fclose(file);
	for (int byte = 0; byte < 256; byte++)
		entropy -= counts[byte] ? counts[byte] / all * log(counts[byte] / all) : 0;
	return entropy;
}
