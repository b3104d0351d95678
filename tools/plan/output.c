#include "output.h"

#include <stdbool.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/error.h"

FILE *plan_output_open(const char *name)
{
	FILE *file = strcmp(name, "-") == 0 ? stdout : rd_fopen(name, O_WRONLY | O_CREAT | O_TRUNC);

	if (!file)
		rd_fail_errno("cannot write %s", name);
	return file;
}

int plan_output_close(FILE *file, const char *name)
{
	bool named = file != stdout;
	int failed = ferror(file);

	/* A full disk shows here at the latest. */
	failed |= named ? fclose(file) : fflush(file);
	return failed ? rd_fail_errno("cannot write %s", named ? name : "standard output") : 0;
}
