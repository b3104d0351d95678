#include "bootstrap/inherited.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/hash.h"
#include "bootstrap/status.h"

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
	return rd_hash(hash, &number, sizeof(number));
}

/* Ranks that a rank launches have another name of the job, another port, or another PMI. */
static uint64_t identify(const struct rd_settings *settings)
{
	uint64_t hash = rd_hash(RD_HASH_INIT, settings->job, strlen(settings->job) + 1);
	struct stat pmi = { 0 };

	hash = rd_hash(hash, settings->address, strlen(settings->address) + 1);
	hash = hash_number(hash, (uint64_t)settings->port);
	hash = hash_number(hash, (uint64_t)settings->rank);
	hash = hash_number(hash, (uint64_t)settings->size);
	if (settings->pmi_fd >= 0 && fstat(settings->pmi_fd, &pmi) == 0)
		hash = hash_number(hash, pmi.st_ino);
	return hash;
}

/* 0: there is none, or it cannot be seen. */
static int parent_of(int pid)
{
	char path[32], line[512] = "", *name_end;
	int parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = rd_fopen(path, O_RDONLY | O_NONBLOCK);
	if (!file)
		return 0;
	/* "pid (name) state parent ...", with any bytes in the name. */
	name_end = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	if (!name_end || sscanf(name_end, ") %*c %d", &parent) != 1)
		parent = 0;
	fclose(file);
	return parent;
}

static bool is_above(int pid)
{
	int at = getppid();

	while (at > 0 && at != pid)
		at = parent_of(at);
	return at > 0;
}

/* The process of this user that listens at the name; 0: there is none. Others may choose their
   sockets' names, but the kernel tells who they are. */
static int listener_at(const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = rd_above_stderr(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	memcpy(at.sun_path + 1, name, strlen(name));
	if (fd < 0 ||
		connect(fd, (struct sockaddr *)&at,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != geteuid())
		peer.pid = 0;
	if (fd >= 0)
		close(fd);
	return peer.pid;
}

/* The process above this one whose socket has the launch in its name; 0: there is none. */
static int find_holder(uint64_t launch_id)
{
	FILE *file = rd_fopen(RD_STATUS_SOCKETS, O_RDONLY | O_NONBLOCK);
	char line[512], name[64], wanted[32];
	int holder = 0;

	snprintf(wanted, sizeof(wanted), ".%016" PRIx64, launch_id);
	while (file && !holder && fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, " @" RD_STATUS_NAME ".");

		if (!at || sscanf(at, " @%63s", name) != 1 || !strstr(name, wanted))
			continue;
		holder = listener_at(name);
		if (holder && !is_above(holder))
			holder = 0;
	}
	if (file)
		fclose(file);
	return holder;
}

int rd_refuse_inherited_rank(struct rd_settings *settings)
{
	int holder;

	settings->launch_id = identify(settings);
	holder = settings->size > 1 ? find_holder(settings->launch_id) : 0;
	if (!holder)
		return 0;
	return rd_fail(RONDO_SETTING,
		"this program was started inside rank %d of a running job, process %d, whose place "
		"it would take: set RANK=0 WORLD_SIZE=1 for it, start it with rondo-run, or destroy "
		"the rank's communicators first",
		settings->rank, holder);
}
