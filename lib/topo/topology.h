/*
 * What one or several hosts hold, and how near two devices are to each other. A topology is probed
 * (probe.h), or loaded from a file, so that all that is made from it can be tried for machines that
 * are not here.
 *
 * Arrays are of fixed size: a host that holds more is described as far as they go, with a line of
 * log.
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

/* How far apart two devices are, from near to far; X(name, text, meaning). The texts are those of
   `nvidia-smi topo -m`, but for NET, of devices on different hosts. */
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

/* What all devices have in common. */
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

struct rd_gpu {
	struct rd_device device; /* its name is "gpu" and its number: by PCI address, from 0 */
	char model[RD_NAME_SIZE]; /* "NVIDIA H100 80GB HBM3"; "": not known */
	char uuid[RD_NAME_SIZE]; /* "GPU-..."; "": not known */
	uint64_t memory_mib;
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

struct rd_interface {
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
	struct rd_gpu gpus[RD_GPU_MAX]; /* by PCI address */
	struct rd_rdma rdma[RD_RDMA_MAX];
	struct rd_interface interfaces[RD_INTERFACE_MAX];
	bool gpus_visible_alone; /* told by CUDA: others, of CUDA_VISIBLE_DEVICES, are missing */
	/* Derived by rd_host_settle(): */
	int gpu_order[RD_GPU_MAX]; /* indices into gpus: a line along which neighbours are near */
	int nic_count;
	/* What may carry traffic to other hosts: RDMA devices, and hardware interfaces that are no
	   other face of one of these. */
	const struct rd_device *nics[RD_NIC_MAX];
};

struct rd_topology {
	int host_count;
	struct rd_host *hosts;
};

/* ---- Making one ---- */

/* Hosts that are zero, to be filled in; RONDO_MEMORY. rd_topology_finish() frees them. */
int rd_topology_init(struct rd_topology *topology, int host_count);
void rd_topology_finish(struct rd_topology *topology);

/* Checks what a host says of itself, and derives the rest of it. RONDO_INVALID, with a reason that
   names the contradiction; then the host is not to be used. */
int rd_host_settle(struct rd_host *host);

/*
 * The file format is JSON (docs/rondo-topo.md). A file that cannot be read, is no JSON, lacks
 * something or contradicts itself is refused with a reason that names the file, the place in it and
 * the reason; then there is nothing to finish.
 */
int rd_topology_load(struct rd_topology *topology, const char *path);
int rd_topology_parse(
	struct rd_topology *topology, const char *name, const char *text, size_t size);
void rd_topology_write(const struct rd_topology *topology, FILE *out);
/* All but the end of the document: members may follow. Of these, "derived" is skipped in loading.
 */
void rd_topology_write_open(const struct rd_topology *topology, FILE *out);

/* ---- Asking it ---- */

/* Between two devices of one host. */
enum rd_distance rd_device_distance(
	const struct rd_host *host, const struct rd_device *a, const struct rd_device *b);

/* Between two GPUs of one host, by index; *nvlinks (may be NULL) is the # of NV#, else 0. */
enum rd_distance rd_gpu_distance(const struct rd_host *host, int a, int b, int *nvlinks);

/* "PIX", or "NV4": the text of a cell in the matrix. */
const char *rd_distance_text(char text[16], enum rd_distance distance, int nvlinks);

/* The NIC that is nearest to the device, or to the NUMA node where that is NULL; among equals
   `turn` chooses. One that is down, or has less than half the speed of the fastest, is taken only
   where there is no other. NULL where there is none. */
const struct rd_device *rd_host_nic(
	const struct rd_host *host, const struct rd_device *device, int numa, int turn);

/*
 * The places which `size` ranks would have: ranks are spread over the hosts in blocks, as rondo-run
 * does (the first hosts have one more, where that does not come out even); on a host with GPUs,
 * local rank l has GPU l modulo their number, and elsewhere ranks are spread over the cores. The
 * slot is what orders are made from: of two ranks of one host that follow each other by slot (then
 * by rank), one is near the other.
 */
void rd_topology_places(const struct rd_topology *topology, int size, struct rd_place *places);

/* Of a NIC: whether it is up (has a port that is active), and its speed. */
bool rd_nic_up(const struct rd_host *host, const struct rd_device *nic);
int rd_nic_speed_mbps(const struct rd_host *host, const struct rd_device *nic);

/* Fills in what the hardware says (core, numa_node, slot, gpu, gpu_pci, nic) of a rank on this
   host. gpu: index, -1 for none; cpu: the first that it may run on, -1 for not known. */
void rd_host_place(
	const struct rd_host *host, int local_rank, int gpu, int cpu, struct rd_place *place);

#endif
