/*
 * Where a rank is. Ranks exchange places at rendezvous; transports answer from two places whether
 * they reach. Fixed size and plain bytes: it travels as it is (little endian).
 */
#ifndef RONDO_PLACE_H
#define RONDO_PLACE_H

#include <stdint.h>

#define RD_HOST_SIZE 64
#define RD_NIC_SIZE 16

struct rd_place {
	char host_name[RD_HOST_SIZE]; /* for people */
	char host_id[RD_HOST_SIZE];   /* equal: one kernel, one network namespace */
	int64_t pid;
	uint32_t uid;
	int32_t numa_node; /* -1: not known */
	int32_t core; /* the first it may run on; -1: not known */
	int32_t slot; /* its place in its host's order (topology.h): ranks that follow each other are near */
	int32_t gpu; /* by PCI address, from 0, as NVML counts: not CUDA's ordinal; -1: none */
	uint32_t gpu_pci; /* domain << 16 | bus << 8 | device << 3 | function */
	int32_t device; /* whose memory its calls may use; -1: host memory alone */
	uint32_t device_pci; /* as gpu_pci: equal on one host means one and the same device */
	char nic[RD_NIC_SIZE]; /* the RDMA device or interface nearest; "": not known */
};

#endif
