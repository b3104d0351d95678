/*
 * The ports of RDMA devices that a rank uses, its rails: found in sysfs, without opening a device.
 */
#ifndef RD_VERBS_PORT_H
#define RD_VERBS_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "topo/sysfs.h"
#include "transports/verbs/gid.h"

#define RD_VERBS_RAILS_MAX 8

struct rd_verbs_port {
	char device[RD_SYSFS_NAME_SIZE]; /* "mlx5_0" */
	int number; /* from 1 */
	bool active;
	bool ethernet; /* RoCE; else InfiniBand */
	int speed_mbps; /* 0: not known */
	uint16_t lid; /* InfiniBand; 0: none */
	int gid_index;
	struct rd_verbs_gid gid;
};

struct rd_verbs_ports {
	int count;
	struct rd_verbs_port at[RD_VERBS_RAILS_MAX];
};

/* Returns whether there is an RDMA device below the root ("" for this machine). */
bool rd_verbs_devices_exist(const char *root);

/*
 * Chooses ports, and a GID for each. Those that RONDO_IB_DEVICE names, in that order: "mlx5_0" is
 * all active ports of a device, "mlx5_0:1" one port. Without it the active ports of `nearest`, if
 * that is an RDMA device, else all active ones.
 *
 * RONDO_SETTING, with a reason that lists the devices there are, where RONDO_IB_DEVICE names
 * another, or a port that is not active, or RONDO_IB_GID_INDEX an index without a GID.
 * RONDO_UNSUPPORTED where there is no device, or no active port with a GID.
 */
int rd_verbs_ports_choose(struct rd_verbs_ports *ports, const char *root, const char *nearest,
	const struct rd_settings *settings);

#endif
