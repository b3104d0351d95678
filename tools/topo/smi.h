/* The text of `nvidia-smi topo -m`: the distances of GPUs and NICs, and a host that has them. */
#ifndef TOPO_SMI_H
#define TOPO_SMI_H

#include <stddef.h>

#include "topo/topology.h"

#define SMI_DEVICES_MAX (RD_GPU_MAX + RD_RDMA_MAX)

struct smi_cell {
	enum rd_distance distance;
	int nvlinks; /* of RD_NVLINK */
};

struct smi_device {
	int line; /* of its row */
	char label[RD_NAME_SIZE]; /* of its row and column */
	char name[RD_NAME_SIZE]; /* by the legend of NICs; "": as the label */
	struct rd_cpus cpus; /* empty: not known */
	int numa, memory_numa; /* -1: not known */
};

struct smi {
	const char *file;
	int count, gpu_count; /* GPUs come first */
	struct smi_device devices[SMI_DEVICES_MAX];
	struct smi_cell cells[SMI_DEVICES_MAX][SMI_DEVICES_MAX]; /* symmetric */
};

/* Reads text[size + 1], which ends with 0 and is changed. RONDO_INVALID, with FILE:LINE. */
int topo_smi_read(struct smi *smi, const char *file, char *text, size_t size);

/*
 * Makes a host with these distances: paths of PCI bridges stand for them. RONDO_INVALID, with
 * FILE:LINE, for distances that no host has together.
 */
int topo_smi_host(const struct smi *smi, struct rd_host *host);

/* A topology of one host, from text[size + 1]. After an error there is nothing to finish. */
int topo_smi_parse(struct rd_topology *topology, const char *file, char *text, size_t size);

#endif
