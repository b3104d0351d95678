/*
 * RDMA devices that this process has opened. Its endpoints share them: a device has one context,
 * one protection domain, and one registration of each range of memory.
 *
 * Any thread may call these functions. They take a lock: not for hot paths.
 */
#ifndef RD_VERBS_DEVICE_H
#define RD_VERBS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rondo/transport.h"
#include "topo/sysfs.h"
#include "transports/verbs/library.h"

struct rd_verbs_shared;

struct rd_verbs_device {
	char name[RD_SYSFS_NAME_SIZE];
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_device_attr limits;
	/* Its events (event.h) */
	_Atomic unsigned events; /* recorded so far */
	_Atomic uint32_t ports_down; /* bits, by number */
	_Atomic bool fatal; /* it failed, and must be opened anew */

	unsigned references;
	unsigned forks; /* rd_process.forks when it was opened: a forked child opens its own */
	struct rd_verbs_shared *shared; /* registrations of the program's memory */
	struct rd_verbs_device *next;
};

/* Opens a device, or takes a reference to it. RONDO_SYSTEM or RONDO_MEMORY, with a reason. */
int rd_verbs_device_get(const char *name, struct rd_verbs_device **device);
/* Closes it with the last reference. NULL is allowed. */
void rd_verbs_device_put(struct rd_verbs_device *device);
/* In a forked child, in place of put(): closes the descriptors, and nothing else. */
void rd_verbs_device_abandon(struct rd_verbs_device *device);

/* The lock of all devices, for their events. */
void rd_verbs_device_lock(void);
void rd_verbs_device_unlock(void);

/* Registers memory for local and remote writes. RONDO_MEMORY, with a reason. */
int rd_verbs_register(
	struct rd_verbs_device *device, void *memory, size_t size, struct ibv_mr **region);

/*
 * Registers memory of the program, or takes a reference to its registration. From memory that is
 * mapped for reading alone, links can send. RONDO_MEMORY, with a reason.
 */
int rd_verbs_device_share(struct rd_verbs_device *device,
	const struct rd_registration *registration, struct ibv_mr **region, bool *writable);
/* Deregisters it with the last reference. */
void rd_verbs_device_unshare(struct rd_verbs_device *device, struct ibv_mr *region);

#endif
