/*
 * Where a rank is. Ranks exchange places at rendezvous; transports answer from two places whether
 * they reach. Fixed size and plain bytes: it travels as it is (little endian).
 */
#ifndef RD_PLACE_H
#define RD_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "settings.h"

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
	char nic[RD_NIC_SIZE]; /* the RDMA device or interface nearest; "": not known */
};

/* The place of the calling process. settings->host, where set, replaces both host fields. */
void rd_place_here(struct rd_place *place, const struct rd_settings *settings);

bool rd_place_same_host(const struct rd_place *a, const struct rd_place *b);

/* False where a string is not terminated: bytes off a wire are not trusted. */
bool rd_place_sound(const struct rd_place *place);

#endif
