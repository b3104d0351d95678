#include "place.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "places travel in little endian");
_Static_assert(sizeof(struct rd_place) == 2 * RD_HOST_SIZE + 8 + 8 * 4 + RD_NIC_SIZE, "no padding to leak");

/* The first line of a small file; false where there is none. */
static bool read_line(char *line, size_t size, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t got = read(fd, line, size - 1);
	close(fd);
	line[got > 0 ? got : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return line[0] != '\0';
}

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

	if (!read_line(kernel, sizeof(kernel), "/proc/sys/kernel/random/boot_id") &&
		!read_line(kernel, sizeof(kernel), "/etc/machine-id"))
		snprintf(kernel, sizeof(kernel), "%s", name);
	if (stat("/proc/self/ns/net", &space))
		space.st_ino = 0;
	snprintf(id, RD_HOST_SIZE, "%s/%llu", kernel, (unsigned long long)space.st_ino);
}

/* Of the core that runs us now: a rank that is to stay near it is bound there by its launcher. */
static int32_t current_numa_node(void)
{
	unsigned node;

	return getcpu(NULL, &node) ? -1 : (int32_t)node;
}

void rd_place_here(struct rd_place *place, const struct rd_settings *settings)
{
	memset(place, 0, sizeof(*place));
	if (settings->host[0]) {
		snprintf(place->host_name, RD_HOST_SIZE, "%.*s", RD_HOST_SIZE - 1, settings->host);
		memcpy(place->host_id, place->host_name, RD_HOST_SIZE);
	} else {
		name_host(place->host_name);
		identify_host(place->host_id, place->host_name);
	}
	place->pid = getpid();
	place->uid = getuid();
	place->numa_node = current_numa_node();
	place->core = place->gpu = place->device = -1;
}

bool rd_place_same_host(const struct rd_place *a, const struct rd_place *b)
{
	return strncmp(a->host_id, b->host_id, RD_HOST_SIZE) == 0;
}

bool rd_place_sound(const struct rd_place *place)
{
	return memchr(place->host_name, '\0', RD_HOST_SIZE) &&
	       memchr(place->host_id, '\0', RD_HOST_SIZE) &&
	       memchr(place->nic, '\0', RD_NIC_SIZE);
}
