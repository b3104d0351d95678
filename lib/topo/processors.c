#include "topo/processors.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/launch/launch.h"
#include "topo/cpus.h"
#include "topo/sysfs.h"

#define CGROUPS "sys/fs/cgroup"

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* The whole processors in a quota of time; INT_MAX: there is none. */
static int whole(long quota, long period)
{
	if (quota <= 0 || period <= 0 || quota / period >= INT_MAX)
		return INT_MAX;
	return quota < period ? 1 : (int)(quota / period);
}

/* Version 2: "max 100000", or "150000 100000". */
static int quota_of_group(const char *root, const char *path)
{
	char line[64], *end;

	if (!rd_sysfs_line(line, sizeof(line), root, CGROUPS "%s/cpu.max", path))
		return INT_MAX;
	long quota = strtol(line, &end, 10);
	return whole(quota, end == line ? 0 : strtol(end, NULL, 10));
}

static int quota_of_old_group(const char *root, const char *path)
{
	return whole(rd_sysfs_number(-1, root, CGROUPS "/cpu%s/cpu.cfs_quota_us", path),
		rd_sysfs_number(-1, root, CGROUPS "/cpu%s/cpu.cfs_period_us", path));
}

/*
 * The least quota of a group and those above it. In a container the path may be the host's, and the
 * mounted tree begins at the container's group: missing files on the way are no limits.
 */
static int least_quota(const char *root, char *path, int (*read)(const char *, const char *))
{
	int quota = INT_MAX;
	char *slash;

	do {
		slash = strrchr(path, '/');
		if (slash && !slash[1])
			*slash = '\0';
		quota = least(quota, read(root, path));
		if (slash)
			*slash = '\0';
	} while (slash);
	return quota;
}

/* Whether "cpu" is one of the controllers, "cpu,cpuacct". */
static bool has_cpu(char *controllers)
{
	char *rest;

	for (char *name = strtok_r(controllers, ",", &rest); name;
		name = strtok_r(NULL, ",", &rest))
		if (strcmp(name, "cpu") == 0)
			return true;
	return false;
}

/* "0::/path" is the group of version 2, and "4:cpu,cpuacct:/path" one of version 1. */
static int quota_of_line(const char *root, char *line)
{
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path)
		return INT_MAX;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	if (!*++controllers)
		return least_quota(root, path, quota_of_group);
	return has_cpu(controllers) ? least_quota(root, path, quota_of_old_group) : INT_MAX;
}

static int quota_of_process(const char *root)
{
	char path[PATH_MAX], *line = NULL;
	size_t room = 0;
	int quota = INT_MAX;

	if (snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) >= (int)sizeof(path))
		return quota;
	FILE *file = fopen(path, "re");
	if (!file)
		return quota;
	while (getline(&line, &room, file) > 0)
		quota = least(quota, quota_of_line(root, line));
	free(line);
	fclose(file);
	return quota;
}

int rd_processors(const struct rd_cpus *allowed, const char *root)
{
	int count = least(rd_cpus_count(allowed), quota_of_process(root));
	int task = rd_slurm_cpus_per_task();

	if (task > 0)
		count = least(count, task);
	return count > 0 ? count : 1;
}

int rd_processors_here(void)
{
	struct rd_cpus allowed;

	rd_cpus_allowed(&allowed);
	return rd_processors(&allowed, "");
}

/* Whether each rank is a task of Slurm: not where one task is a launcher, which starts them. */
static bool are_tasks(const struct rd_launch *launch)
{
	return launch->launcher != RD_LAUNCHER_NONE && launch->launcher != RD_LAUNCHER_TORCHRUN &&
	       rd_slurm_cpus_per_task() > 0;
}

struct rd_processors rd_processors_of_launch(const struct rd_launch *launch)
{
	return (struct rd_processors){ rd_processors_here(), are_tasks(launch) };
}
