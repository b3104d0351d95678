/*
 * Device memory of a rank that other ranks write to: desks (work.h) and fifo (steps.h). Ranks of
 * one process know it by plain pointers, and after a failure a rank's comm may be gone while
 * another's kernel is still writing there: so whoever reaches it holds it, and the last to let go
 * frees it. (Another process's is mapped here, and stays until it is dropped.) Any thread may call
 * these.
 */
#ifndef RD_DEVMEM_H
#define RD_DEVMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

/* Zeroed, and held once. 0, or an error with the reason; *memory is NULL then. */
int rd_devmem_create(const struct rd_device_ops *ops, int device, size_t size, void **memory);
/* That of another rank of this process. False, with the reason: it is gone. */
bool rd_devmem_get(void *memory);
/* By whom it was made, or is held. */
void rd_devmem_put(void *memory);

#endif
