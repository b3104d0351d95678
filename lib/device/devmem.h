/*
 * Device memory of a rank that other ranks write to: device flags (work.h) and fifos (steps.h).
 * Reference counted among the ranks of a process: after a failure a rank's comm may be gone while
 * another's kernel still writes there. The last put frees it. Another process maps the memory by a
 * handle instead. Any thread may call these.
 */
#ifndef RD_DEVMEM_H
#define RD_DEVMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

/* Zeroed, with one reference. 0, or an error with the reason; *memory is NULL then. */
int rd_devmem_create(const struct rd_device_ops *ops, int device, size_t size, void **memory);
/* A reference to memory of another rank of this process. False, with the reason: it is gone. */
bool rd_devmem_get(void *memory);
/* Drops a reference. */
void rd_devmem_put(void *memory);

#endif
