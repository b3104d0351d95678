/*
 * Reads sysfs and procfs below a root: "" for this machine, or a directory of an emulated one.
 * Formats make the path below the root. No function logs or records a reason: the caller decides
 * about missing files.
 */
#ifndef RD_SYSFS_H
#define RD_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

#define RD_SYSFS_NAME_SIZE 64
#define RD_SYSFS_PATH_SIZE 512

/* Reads the first line, without its end; false if there is none, or an empty one. */
bool rd_sysfs_line(char *line, size_t size, const char *root, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Returns the whole number at the start of the first line (decimal, or hexadecimal after 0x), or
 * else the fallback.
 */
long rd_sysfs_number(long fallback, const char *root, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

bool rd_sysfs_exists(const char *root, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reads the target of a link, behind ".../sys/devices/". False for another target, or none. */
bool rd_sysfs_device(char device[RD_SYSFS_PATH_SIZE], const char *root, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Lists the names in a directory, in the order of the numbers in them (eth2 before eth10). The
 * caller frees *names. Returns their number; 0 if the directory is missing. Leaves out names that
 * are too long.
 */
int rd_sysfs_list(char (**names)[RD_SYSFS_NAME_SIZE], const char *root, const char *directory);

#endif
