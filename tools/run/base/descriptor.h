/*
 * Descriptors as members; -1: there is none.
 */
#ifndef RUN_BASE_DESCRIPTOR_H
#define RUN_BASE_DESCRIPTOR_H

#include <unistd.h>

/* Closes it if there is one, and then there is none. */
static inline void descriptor_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

#endif
