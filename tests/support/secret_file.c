#include "secret_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "secure/tls.h"

static char path[64];

void secret_file_use(void)
{
	if (rd_tls_load())
		return;
	snprintf(path, sizeof(path), "/tmp/rondo-test-secret-%ld", (long)getpid());
	unlink(path);
	setenv("RONDO_SECRET_FILE", path, 1);
}

void secret_file_remove(void)
{
	unlink(path);
}
