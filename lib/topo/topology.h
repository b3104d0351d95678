/*
 * Hardware of one or several hosts, and the distance of two devices. A topology is probed
 * (probe.h), or loaded from a file (topology_file.h), so that tests cover machines that are not
 * here.
 *
 * Arrays are of fixed size. Hardware beyond that size is left out, with a line of log.
 */
#ifndef RD_TOPOLOGY_H
#define RD_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "topo/cpus.h"
#include "topo/pci.h"
#include "topo/place.h"

#define RD_NUMA_MAX 32
#define RD_GPU_MAX 32
#define RD_RDMA_MAX 32
#define RD_INTERFACE_MAX 64
#define RD_NIC_MAX (RD_RDMA_MAX + RD_INTERFACE_MAX)
#define RD_PORT_MAX 4
#define RD_ADDRESS_MAX 4
#define RD_TOPOLOGY_HOSTS_MAX 1024
#define RD_NAME_SIZE 64

/*
 * Distance of two devices, from near to far; X(name, text, meaning). The texts are those of
 * `nvidia-smi topo -m`, and NET for devices on different hosts.
 */
#define RD_DISTANCES(X) \
	X(RD_SAME, "X", "the device itself") \
	X(RD_NVLINK, "NV#", "a bonded set of # NVLinks") \
	X(RD_PIX, "PIX", "at most one PCIe bridge or switch") \
	X(RD_PXB, "PXB", "several PCIe bridges or switches, but no host bridge") \
	X(RD_PHB, "PHB", "a PCIe host bridge, as a rule the CPU") \
	X(RD_NODE, "NODE", "the interconnect between host bridges within a NUMA node") \
	X(RD_SYS, "SYS", "the interconnect between NUMA nodes, say UPI") \
	X(RD_NETWORK, "NET", "the network between hosts")

enum rd_distance {
#define RD_DISTANCE_ENUM(name, text, meaning) name,
	RD_DISTANCES(RD_DISTANCE_ENUM)
#undef RD_DISTANCE_ENUM
		RD_DISTANCE_COUNT
};

/* Common part of all devices. */
struct rd_device {
	char name[RD_NAME_SIZE]; /* "gpu0", "mlx5_0", "eth0": unique on its host */
	int numa; /* number of the NUMA node; -1: not known */
	struct rd_pci_path path;
};

struct rd_numa {
	int number; /* as the kernel counts */
	int package;
	uint64_t memory_mib; /* 0: not known */
	struct rd_cpus cpus; /* logical CPUs */
	struct rd_cpus cores; /* the first of each core; all CPUs where that is not known */
};

struct rd_host_gpu {
	struct rd_device device; /* its name is "gpu" and its number: by PCI address, from 0 */
	char model[RD_NAME_SIZE]; /* "NVIDIA H100 80GB HBM3"; "": not known */
	char uuid[RD_NAME_SIZE]; /* "GPU-..."; "": not known */
	uint64_t memory_mib;
	int memory_numa; /* the NUMA node that its memory is; -1: none, or not known */
	int nvlinks[RD_GPU_MAX]; /* to the other GPUs of the host, directly */
	int nvswitch_links; /* to NVSwitches, over which it reaches all GPUs that have some, too */
};

struct rd_port {
	int number; /* from 1 */
	int speed_mbps; /* 0: not known */
	bool active;
	bool ethernet; /* RoCE; else InfiniBand */
};

struct rd_rdma {
	struct rd_device device;
	int port_count;
	struct rd_port ports[RD_PORT_MAX];
};

struct rd_host_interface {
	struct rd_device device;
	int speed_mbps; /* 0: not known */
	int mtu;
	bool up;
	bool loopback;
	bool hardware; /* false: made by software (bridge, veth, tunnel) */
	int address_count;
	char addresses[RD_ADDRESS_MAX][48]; /* "192.0.2.7", "2001:db8::7" */
};

struct rd_host {
	char name[RD_HOST_SIZE];
	char id[RD_HOST_SIZE]; /* as rd_place.host_id */
	int numa_count, gpu_count, rdma_count, interface_count;
	struct rd_numa numa[RD_NUMA_MAX]; /* by package, then number; at least one */
	struct rd_host_gpu gpus[RD_GPU_MAX]; /* by PCI address */
	struct rd_rdma rdma[RD_RDMA_MAX];
	struct rd_host_interface interfaces[RD_INTERFACE_MAX];
	bool gpus_visible_alone; /* from CUDA: GPUs outside CUDA_VISIBLE_DEVICES are missing */
	/* Derived by rd_host_settle(): */
	int gpu_order[RD_GPU_MAX]; /* indices into gpus: a line along which neighbours are near */
	int nic_count;
	/*
	 * Devices for traffic to other hosts: RDMA devices, and hardware interfaces that no RDMA
	 * device represents.
	 */
	const struct rd_device *nics[RD_NIC_MAX];
};

struct rd_topology {
	int host_count;
	struct rd_host *hosts;
};

/* Returns whether a name or a text may have it: they appear on terminals and in pictures. */
static inline bool rd_is_printable(char c)
{
	return c >= ' ' && c <= '~';
}

/* ---- Creation ---- */

/* Allocates `host_count` zeroed hosts; RONDO_MEMORY. rd_topology_finish() frees them. */
int rd_topology_init(struct rd_topology *topology, int host_count);
void rd_topology_finish(struct rd_topology *topology);

/*
 * Checks a host's members against each other, and sets the derived ones. RONDO_INVALID, with a
 * reason that names the contradiction; the host must then not be used.
 */
int rd_host_settle(struct rd_host *host);

/* ---- Queries ---- */

/* Returns the NUMA node of this number; NULL: the host has none. */
const struct rd_numa *rd_host_numa(const struct rd_host *host, int number);

/* Returns the distance of two devices of one host. */
enum rd_distance rd_device_distance(
	const struct rd_host *host, const struct rd_device *a, const struct rd_device *b);

/*
 * Returns the distance of two GPUs of one host, by index; *nvlinks (may be NULL) is the # of NV#,
 * else 0.
 */
enum rd_distance rd_gpu_distance(const struct rd_host *host, int a, int b, int *nvlinks);

/* Writes the text of a distance in the matrix: "PIX", or "NV4". Returns text. */
const char *rd_distance_text(char text[16], enum rd_distance distance, int nvlinks);

/*
 * Returns the NIC nearest to the device, or to the NUMA node if the device is NULL; NULL if there
 * is none. `turn` chooses among equals. One that is down, or has less than half the speed of the
 * fastest, is chosen only if there is no other.
 */
const struct rd_device *rd_host_nic(
	const struct rd_host *host, const struct rd_device *device, int numa, int turn);

/* Return whether a NIC is up (has an active port), and its speed. */
bool rd_nic_up(const struct rd_host *host, const struct rd_device *nic);
int rd_nic_speed_mbps(const struct rd_host *host, const struct rd_device *nic);

/* ---- The places of ranks (topology_places.c) ---- */

/*
 * Sets the places of `size` ranks, spread over the hosts in blocks, as rondo-run does. If that does
 * not come out even, the first hosts have one more. On a host with GPUs, local rank l has GPU l
 * modulo their number. On other hosts ranks are spread over the cores.
 *
 * The slot decides orders: ranks of one host that follow each other by slot (then by rank) are near
 * each other.
 */
void rd_topology_places(const struct rd_topology *topology, int size, struct rd_place *places);

/*
 * Sets the fields of the hardware (core, numa_node, slot, gpu, gpu_pci, nic) for a rank on this
 * host. gpu: index, -1 for none; cpu: the first that it may run on, -1 for unknown.
 */
void rd_host_place(
	const struct rd_host *host, int local_rank, int gpu, int cpu, struct rd_place *place);

#endif
