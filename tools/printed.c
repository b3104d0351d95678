#include "printed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool printed_all(const char *tool)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	/* An earlier write may have failed, for a reason that is not known any more. */
	fprintf(stderr, "%s: cannot write standard output%s%s\n", tool, errno ? ": " : "",
		errno ? strerror(errno) : "");
	return false;
}
