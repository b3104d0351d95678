#include "topo/identity.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/sysfs.h"

static void name_host(char name[RD_HOST_SIZE])
{
	/* gethostname() need not terminate a name that it cuts; `name` is zero at first. */
	if (gethostname(name, RD_HOST_SIZE - 1) || !name[0])
		strcpy(name, "localhost");
}

/*
 * The boot id tells kernels apart, better than host names, which people copy. The network namespace
 * tells containers of one kernel apart: abstract sockets, over which shared memory is handed, end
 * at it. Where /proc is missing, the installation or the name has to do.
 */
static void identify_host(char id[RD_HOST_SIZE], const char *name)
{
	char kernel[40]; /* a boot id has 36 characters, a machine id 32 */
	struct stat space;

	if (!rd_sysfs_line(kernel, sizeof(kernel), "", "proc/sys/kernel/random/boot_id") &&
		!rd_sysfs_line(kernel, sizeof(kernel), "", "etc/machine-id"))
		snprintf(kernel, sizeof(kernel), "%s", name);
	if (stat("/proc/self/ns/net", &space))
		space.st_ino = 0;
	snprintf(id, RD_HOST_SIZE, "%s/%llu", kernel, (unsigned long long)space.st_ino);
}

void rd_place_identify(struct rd_place *place)
{
	name_host(place->host_name);
	identify_host(place->host_id, place->host_name);
}
