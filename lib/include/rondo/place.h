/*
 * Place of a rank. Ranks exchange places at rendezvous. A transport decides from two places whether
 * it reaches from one to the other. Fixed size and plain bytes: the network carries it unchanged
 * (little endian).
 */
#ifndef RONDO_PLACE_H
#define RONDO_PLACE_H

#include <stdint.h>

#define RD_HOST_SIZE 64
#define RD_NIC_SIZE 16

struct rd_place {
	char host_name[RD_HOST_SIZE]; /* for people */
	char host_id[RD_HOST_SIZE]; /* equal: one kernel, one network namespace */
	int32_t pid;
	uint32_t pid_space; /* inode of the PID namespace in which pid counts; 0: unknown */
	uint32_t uid;
	int32_t numa_node; /* -1: unknown */
	int32_t core; /* first core it may run on; -1: unknown */
	int32_t slot; /* its index in its host's order (topology.h): successive ranks are near */
	int32_t gpu; /* by PCI address, from 0, as NVML counts: not CUDA's ordinal; -1: none */
	uint32_t gpu_pci; /* domain << 16 | bus << 8 | device << 3 | function */
	int32_t device; /* device whose memory its calls may use; -1: host memory alone */
	uint32_t device_pci; /* as gpu_pci: equal on one host means one and the same device */
	char nic[RD_NIC_SIZE]; /* the nearest RDMA device or interface; "": unknown */
};

#endif
