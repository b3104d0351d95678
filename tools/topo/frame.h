/*
 * The positions of all parts in the picture of a host. A host is a row of sections, one for each
 * NUMA node, and one for devices without a known node. Each section holds a PCI tree, with its
 * devices in one row at the bottom: neighbours in the tree are side by side.
 */
#ifndef TOPO_FRAME_H
#define TOPO_FRAME_H

#include "paths.h"

#define FRAME_DEVICES_MAX (RD_GPU_MAX + RD_NIC_MAX)
#define FRAME_SECTIONS_MAX (RD_NUMA_MAX + 1)
/* Joints: host bridges, and the bridges at which the tree parts. */
#define FRAME_JOINTS_MAX (2 * FRAME_DEVICES_MAX)

struct frame_joint {
	bool host_bridge; /* else a switch, or bridge */
	uint32_t address; /* of the bridge; its bus for a host bridge */
	int above; /* joint; -1: the NUMA node itself */
	int level; /* from 0 */
	double x; /* its middle */
};

struct frame_device {
	int index; /* as topo_matrix_device() counts */
	int above; /* joint; -1: the NUMA node itself */
	double x, width; /* x: its middle */
};

struct frame_section {
	const struct rd_numa *numa; /* NULL: not known */
	double x, width;
	double core_x, core_width; /* of the first core, and of each */
	int first_device, device_count; /* in frame->devices */
};

struct frame {
	const struct rd_host *host;
	double x, width;
	int levels; /* of joints */
	int section_count, device_count, joint_count;
	struct frame_section sections[FRAME_SECTIONS_MAX];
	struct frame_device devices[FRAME_DEVICES_MAX];
	struct frame_joint joints[FRAME_JOINTS_MAX];
};

/* Lays out hosts[index], from x on. paths (may be NULL) determines the room for its ranks. */
void frame_init(struct frame *frame, const struct rd_topology *topology, int index,
	const struct topo_paths *paths, double x);

/* Returns the middle of the rank's column; *room is its width. */
double frame_column(
	const struct frame *frame, const struct topo_paths *paths, int rank, double *room);

#endif
