/*
 * Reading sysfs and procfs, below a root: "" for this machine, or a directory that holds a made-up
 * one. Formats make the path below the root. Nothing here complains: what is missing is the
 * caller's to judge.
 */
#ifndef RD_SYSFS_H
#define RD_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

#define RD_SYSFS_NAME_SIZE 64
#define RD_SYSFS_PATH_SIZE 512

/* The first line, without its end; false where there is none, or an empty one. */
bool rd_sysfs_line(char *line, size_t size, const char *root, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The whole number at the start of the first line (decimal, or hexadecimal after 0x), or else the
 * fallback. */
long rd_sysfs_number(long fallback, const char *root, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

bool rd_sysfs_exists(const char *root, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Where a link leads: what follows ".../sys/devices/". False where it leads elsewhere, or nowhere.
 */
bool rd_sysfs_device(char device[RD_SYSFS_PATH_SIZE], const char *root, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Names in a directory, in the order of the numbers in them (eth2 before eth10); *names is the
   caller's to free. Returns how many; 0 where there is no such directory. Names that are too long
   are left out. */
int rd_sysfs_list(char (**names)[RD_SYSFS_NAME_SIZE], const char *root, const char *directory);

#endif
