#include "topo/place.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/sysfs.h"

static void name_host(char name[RD_HOST_SIZE])
{
	/*
	 * gethostname() may leave out the terminator of a name that it cuts; `name` is zero at
	 * first.
	 */
	if (gethostname(name, RD_HOST_SIZE - 1) || !name[0])
		strcpy(name, "localhost");
}

/* 0: there is none. */
static ino_t inode_of(const char *path)
{
	struct stat found;

	return stat(path, &found) ? 0 : found.st_ino;
}

/*
 * The boot id identifies a kernel. Host names do not: people copy them. The network namespace
 * identifies a container of that kernel: abstract sockets, which pass shared memory to peers, end
 * at it. Without /proc, the machine id or the name replaces both.
 */
static void identify_host(char id[RD_HOST_SIZE], const char *name)
{
	char kernel[40]; /* a boot id has 36 characters, a machine id 32 */

	if (!rd_sysfs_line(kernel, sizeof(kernel), "", "proc/sys/kernel/random/boot_id") &&
		!rd_sysfs_line(kernel, sizeof(kernel), "", "etc/machine-id"))
		snprintf(kernel, sizeof(kernel), "%s", name);
	snprintf(id, RD_HOST_SIZE, "%s/%llu", kernel,
		(unsigned long long)inode_of("/proc/self/ns/net"));
}

void rd_place_identify(struct rd_place *place)
{
	name_host(place->host_name);
	identify_host(place->host_id, place->host_name);
}

uint32_t rd_pid_space(void)
{
	return (uint32_t)inode_of("/proc/self/ns/pid");
}
