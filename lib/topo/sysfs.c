#include "topo/sysfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"

/* Writes root and the formatted path; false if they are too long. */
static bool make_path(char path[PATH_MAX], const char *root, const char *format, va_list args)
{
	int length = snprintf(path, PATH_MAX, "%s/", root);

	if (length >= PATH_MAX)
		return false;
	return vsnprintf(path + length, (size_t)(PATH_MAX - length), format, args) <
	       PATH_MAX - length;
}

static bool read_line(char *line, size_t size, const char *path)
{
	int fd = rd_above_stderr(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	size_t length = 0;
	ssize_t got;

	if (fd < 0)
		return false;
	/* A read returns at most a page, and a list of CPUs may be longer. */
	do {
		got = read(fd, line + length, size - 1 - length);
		length += got > 0 ? (size_t)got : 0;
	} while (got > 0 && line[length - 1] != '\n' && length < size - 1);
	close(fd);
	line[length] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return line[0] != '\0';
}

bool rd_sysfs_line(char *line, size_t size, const char *root, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;

	va_start(args, format);
	bool fits = make_path(path, root, format, args);
	va_end(args);
	return fits && read_line(line, size, path);
}

long rd_sysfs_number(long fallback, const char *root, const char *format, ...)
{
	char path[PATH_MAX], line[64], *end;
	va_list args;

	va_start(args, format);
	bool fits = make_path(path, root, format, args);
	va_end(args);
	if (!fits || !read_line(line, sizeof(line), path))
		return fallback;
	long number = strtol(line, &end, strncmp(line, "0x", 2) ? 10 : 16);
	return end == line ? fallback : number;
}

bool rd_sysfs_exists(const char *root, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;

	va_start(args, format);
	bool fits = make_path(path, root, format, args);
	va_end(args);
	return fits && access(path, F_OK) == 0;
}

/*
 * The part of a link's target behind ".../sys/devices/"; NULL: it is another target. The kernel's
 * own links go there straight: "../../devices/...". For others realpath() makes a system call for
 * each part of the path.
 */
static const char *find_target(const char *path, char target[PATH_MAX])
{
	static const char straight[] = "../devices/", devices[] = "/sys/devices/";
	ssize_t length = readlink(path, target, PATH_MAX - 1);
	const char *found;

	target[length > 0 ? length : 0] = '\0';
	found = target + strspn(target, "./");
	if (length > 0 && found - target >= 3 && !strncmp(found - 3, straight, strlen(straight)))
		return found - 3 + strlen(straight);
	found = realpath(path, target) ? strstr(target, devices) : NULL;
	return found ? found + strlen(devices) : NULL;
}

bool rd_sysfs_device(char device[RD_SYSFS_PATH_SIZE], const char *root, const char *format, ...)
{
	char path[PATH_MAX], target[PATH_MAX];
	va_list args;

	va_start(args, format);
	bool fits = make_path(path, root, format, args);
	va_end(args);
	const char *found = fits ? find_target(path, target) : NULL;
	if (!found || strlen(found) >= RD_SYSFS_PATH_SIZE)
		return false;
	strcpy(device, found);
	return true;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strlen(entry->d_name) < RD_SYSFS_NAME_SIZE;
}

int rd_sysfs_list(char (**names)[RD_SYSFS_NAME_SIZE], const char *root, const char *directory)
{
	char path[PATH_MAX];
	struct dirent **entries = NULL;
	int count = 0;

	*names = NULL;
	if (snprintf(path, sizeof(path), "%s/%s", root, directory) < (int)sizeof(path))
		count = scandir(path, &entries, is_visible, versionsort);
	if (count > 0)
		*names = calloc((size_t)count, sizeof(**names));
	for (int i = 0; i < count; i++) {
		if (*names)
			strcpy((*names)[i], entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return *names ? count : 0;
}
