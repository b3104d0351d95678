#include "base/host_name.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"

void rd_host_name(char name[RD_HOST_NAME_SIZE])
{
	const char *given = rd_environment("RONDO_HOST");

	/* gethostname() may leave out the end of a name that it cuts. */
	memset(name, 0, RD_HOST_NAME_SIZE);
	if (given)
		snprintf(name, RD_HOST_NAME_SIZE, "%s", given);
	else if (gethostname(name, RD_HOST_NAME_SIZE - 1) || !name[0])
		strcpy(name, "localhost");
	rd_disarm(name, strlen(name));
}
