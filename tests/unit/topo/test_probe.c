/*
 * Probes emulated machines: trees like those of sysfs and procfs, and fake libraries for NVML and
 * CUDA's driver (tests/support/fake). No GPU is used.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "topo/probe.h"
#include "text.h"
#include "file_tree.h"
#include "topo/sysfs.h"
#include "topo/probes.h"
#include "topo/topology_file.h"

/* ---- Trees ---- */

static struct rd_host host;

/* A link below the root to a device, which is a folder of sys/devices. `sys`: as the link names
   that folder, from its own place, or "sys" for a link from the root. */
static void put_link(const char *link, const char *sys, const char *device)
{
	char target[PATH_MAX];

	tree_put("", "sys/devices/%s/uevent", device);
	snprintf(target, sizeof(target), "%s/devices/%s", sys, device);
	tree_link(link, target);
}

/* A device of PCI, by its path; its address is the last 12 characters. */
static void put_pci(const char *path, const char *numa)
{
	char link[64];
	const char *address = path + strlen(path) - 12;

	snprintf(link, sizeof(link), "sys/bus/pci/devices/%s", address);
	put_link(link, "../../..", path);
	tree_put(numa, "sys/devices/%s/numa_node", path);
}

static void put_interface(const char *name, const char *device, const char *state)
{
	char link[128], path[256];

	snprintf(path, sizeof(path), "%s/net/%s", device, name);
	snprintf(link, sizeof(link), "sys/class/net/%s", name);
	put_link(link, "../..", path);
	tree_put("1", "sys/devices/%s/type", path);
	tree_put("0x1003", "sys/devices/%s/flags", path);
	tree_put("9000", "sys/devices/%s/mtu", path);
	tree_put("100000", "sys/devices/%s/speed", path);
	tree_put(state, "sys/devices/%s/operstate", path);
}

static void put_rdma(const char *name, const char *device, const char *state, const char *rate)
{
	char link[128], path[256];

	snprintf(path, sizeof(path), "%s/infiniband/%s", device, name);
	snprintf(link, sizeof(link), "sys/class/infiniband/%s", name);
	put_link(link, "sys", path);
	if (state)
		tree_put(state, "sys/devices/%s/ports/1/state", path);
	tree_put(rate, "sys/devices/%s/ports/1/rate", path);
	tree_put("InfiniBand", "sys/devices/%s/ports/1/link_layer", path);
}

TestSuite(probe, .init = tree_begin, .fini = tree_end);

#define SWITCH "pci0000:16/0000:16:00.0/0000:a0:00.0"

/* Two packages of two cores with two threads; a switch with a GPU and an HCA, and a GPU elsewhere.
 */
static void put_server(void)
{
	tree_put("server", "proc/sys/kernel/hostname");
	tree_put("0a1b", "proc/sys/kernel/random/boot_id");
	tree_put("0-1,4-5", "sys/devices/system/node/node0/cpulist");
	tree_put("2-3,6-7", "sys/devices/system/node/node1/cpulist");
	tree_put("Node 0 MemTotal:       2097152 kB", "sys/devices/system/node/node0/meminfo");
	tree_put("0-1", "sys/devices/system/node/online");
	for (int cpu = 0; cpu < 8; cpu++) {
		char threads[16];
		snprintf(threads, sizeof(threads), "%d,%d", cpu % 4, cpu % 4 + 4);
		tree_put(
			threads, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
		tree_put(cpu % 4 < 2 ? "0" : "1",
			"sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
	}
	tree_put("NVRM version", "proc/driver/nvidia/version");
	put_pci(SWITCH "/0000:a1:00.0/0000:17:00.0", "0");
	put_pci(SWITCH "/0000:a1:01.0/0000:18:00.0", "0");
	put_pci(SWITCH "/0000:a1:02.0/0000:19:00.0", "0");
	put_pci("pci0000:84/0000:84:00.0/0000:85:00.0", "1");
	put_pci("pci0000:00/0000:00:03.0", "-1");
	put_rdma("mlx5_0", SWITCH "/0000:a1:02.0/0000:19:00.0", "4: ACTIVE", "200 Gb/sec (4X HDR)");
	put_interface("ib0", SWITCH "/0000:a1:02.0/0000:19:00.0", "up");
	put_interface("eth0", "pci0000:00/0000:00:03.0/virtio0", "down");
	put_interface("docker0", "virtual", "up");
	tree_put("", "sys/class/net/bonding_masters");
}

static const struct rd_probe made_up = {
	.root = tree_root, .nvml = FAKE_NVML, .cuda = FAKE_CUDA, .cores = true
};

/* Probes the tree; returns the log. */
static const char *probe(const struct rd_probe *how)
{
	const char *text;
	int err;

	rd_log_set(RD_INFO, 1u << RD_PROBE);
	captured_stderr_begin();
	err = rd_probe_host(&host, how);
	text = captured_stderr_end();
	cr_assert_eq(err, 0, "%s", rondo_last_error());
	return text;
}

static void assert_logged(const char *log, const char *line)
{
	cr_assert(strstr(log, line), "no \"%s\" in:\n%s", line, log);
}

static void assert_cpus(const struct rd_cpus *cpus, const char *wanted)
{
	char text[256];

	rd_cpus_text(cpus, text, sizeof(text));
	cr_assert_str_eq(text, wanted);
}

/* ---- A machine in order ---- */

Test(probe, packages_numa_nodes_and_cores_are_read)
{
	put_server();
	probe(&made_up);
	cr_assert_str_eq(host.name, "server");
	cr_assert_str_eq(host.id, "0a1b");
	cr_assert_eq(host.numa_count, 2);
	cr_assert_eq(host.numa[0].package, 0);
	cr_assert_eq(host.numa[1].package, 1);
	cr_assert_eq(host.numa[0].memory_mib, 2048);
	assert_cpus(&host.numa[0].cpus, "0-1,4-5");
	assert_cpus(&host.numa[0].cores, "0-1");
	assert_cpus(&host.numa[1].cpus, "2-3,6-7");
	assert_cpus(&host.numa[1].cores, "2-3");
}

Test(probe, gpus_come_by_address_with_their_links)
{
	put_server();
	probe(&made_up);
	cr_assert_eq(host.gpu_count, 3);
	cr_assert_eq(host.gpus[0].device.path.address, 0x1700);
	cr_assert_eq(host.gpus[1].device.path.address, 0x1800);
	cr_assert_eq(host.gpus[2].device.path.address, 0x8500);
	cr_assert_str_eq(host.gpus[0].device.name, "gpu0");
	cr_assert_str_eq(host.gpus[0].model, "Fake 1");
	cr_assert(!strncmp(host.gpus[0].uuid, "GPU-00000001-", 13));
	cr_assert_eq(host.gpus[0].memory_mib, 40 << 10);
	cr_assert_eq(host.gpus[0].memory_numa, 9);
	cr_assert_eq(host.gpus[1].memory_numa, -1);
	cr_assert_eq(host.gpus[2].device.numa, 1);
	cr_assert_eq(host.gpus[0].nvlinks[2], 2);
	cr_assert_eq(host.gpus[2].nvlinks[0], 2);
	cr_assert_eq(host.gpus[0].nvswitch_links, 4);
	cr_assert_eq(host.gpus[1].nvswitch_links, 0, "a link to a CPU is none to a switch");
	int links;
	cr_assert_eq(rd_gpu_distance(&host, 0, 2, &links), RD_NVLINK);
	cr_assert_eq(links, 6);
	cr_assert_eq(rd_gpu_distance(&host, 0, 1, NULL), RD_PIX);
	cr_assert_eq(rd_gpu_distance(&host, 1, 2, NULL), RD_SYS);
}

static const struct rd_host_interface *interface_named(const char *name)
{
	for (int i = 0; i < host.interface_count; i++)
		if (!strcmp(host.interfaces[i].device.name, name))
			return &host.interfaces[i];
	cr_assert_fail("no interface %s", name);
	return NULL;
}

Test(probe, network_devices_are_read)
{
	put_server();
	probe(&made_up);
	cr_assert_eq(host.rdma_count, 1);
	cr_assert_eq(host.rdma[0].port_count, 1);
	cr_assert_eq(host.rdma[0].ports[0].speed_mbps, 200000);
	cr_assert(host.rdma[0].ports[0].active);
	cr_assert_not(host.rdma[0].ports[0].ethernet);
	cr_assert_eq(rd_device_distance(&host, &host.gpus[0].device, &host.rdma[0].device), RD_PIX);
	cr_assert_eq(host.interface_count, 3, "bonding_masters is none");
	cr_assert(interface_named("ib0")->up);
	cr_assert_eq(interface_named("ib0")->mtu, 9000);
	cr_assert_eq(interface_named("ib0")->speed_mbps, 100000);
	cr_assert_not(interface_named("eth0")->up);
	cr_assert_eq(interface_named("eth0")->device.path.address, 3 << 3);
	cr_assert_not(interface_named("docker0")->hardware);
	cr_assert_eq(host.nic_count, 2, "mlx5_0, of which ib0 is another face, and eth0");
}

Test(probe, names_that_a_file_refuses_are_left_out_and_that_of_the_host_is_replaced)
{
	struct rd_topology one = { .host_count = 1, .hosts = &host }, again;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	put_server();
	tree_put("caf\xc3\xa9", "proc/sys/kernel/hostname");
	put_interface("caf\xc3\xa9", "virtual", "up");
	put_rdma("bell\a", SWITCH "/0000:a1:02.0/0000:19:00.0", "4: ACTIVE", "200 Gb/sec (4X HDR)");
	const char *log = probe(&made_up);
	assert_logged(log, "the name bell? has other characters");
	assert_logged(log, "the name caf\xc3\xa9 has other characters");
	cr_assert_str_eq(host.name, "caf??");
	cr_assert_eq(host.interface_count, 3);
	cr_assert_eq(host.rdma_count, 1);
	rd_topology_write(&one, out);
	fclose(out);
	cr_assert_eq(rd_topology_parse(&again, "again", text, size), 0, "%s", rondo_last_error());
	rd_topology_finish(&again);
	free(text);
}

Test(probe, threads_of_cores_are_read_on_demand_only)
{
	struct rd_probe quick = made_up;

	quick.cores = false;
	put_server();
	probe(&quick);
	assert_cpus(&host.numa[0].cores, "0-1,4-5");
}

/* ---- Missing parts ---- */

Test(probe, a_machine_without_any_file_has_a_cpu)
{
	const char *log = probe(&made_up);

	cr_assert_eq(host.numa_count, 1);
	assert_cpus(&host.numa[0].cpus, "0");
	cr_assert_eq(host.gpu_count + host.rdma_count + host.interface_count, 0);
	assert_logged(log,
		"no NUMA node with CPUs in /sys/devices/system/node: all CPUs count as one node");
	assert_logged(log, "no GPUs: no driver of NVIDIA's is loaded");
	assert_logged(log, "no RDMA devices");
	assert_logged(log, "no network interfaces");
	cr_assert_str_eq(host.name, "localhost");
}

Test(probe, without_numa_nodes_all_cpus_are_one)
{
	tree_put("0-3", "sys/devices/system/cpu/online");
	probe(&made_up);
	assert_cpus(&host.numa[0].cpus, "0-3");
	assert_cpus(&host.numa[0].cores, "0-3");
}

Test(probe, libraries_that_are_missing_cost_a_line_each)
{
	struct rd_probe bare = made_up;

	bare.nvml = "librondo-none.so.1";
	bare.cuda = "librondo-none.so.2";
	bare.hwloc = "librondo-none.so.3";
	put_server();
	const char *log = probe(&bare);
	assert_logged(log, "no NVML (librondo-none.so.1)");
	assert_logged(log, "no driver of CUDA (librondo-none.so.2)");
	assert_logged(log, "hwloc (librondo-none.so.3)");
	cr_assert_eq(host.gpu_count, 0);
	cr_assert_eq(host.numa_count, 2);
}

Test(probe, libraries_that_are_others_count_as_missing)
{
	struct rd_probe wrong = made_up;

	wrong.nvml = wrong.cuda = wrong.hwloc = "libm.so.6";
	put_server();
	const char *log = probe(&wrong);
	assert_logged(log, "no NVML (libm.so.6)");
	assert_logged(log, "no driver of CUDA (libm.so.6)");
	assert_logged(log, "hwloc (libm.so.6)");
	cr_assert_eq(host.gpu_count, 0);
}

Test(probe, cuda_is_queried_where_nvml_fails)
{
	setenv("FAKE_NVML", "silent", 1);
	put_server();
	const char *log = probe(&made_up);
	assert_logged(log, "asking CUDA's driver, which tells no NVLinks");
	cr_assert_eq(host.gpu_count, 2);
	cr_assert(host.gpus_visible_alone);
	cr_assert_eq(host.gpus[0].device.path.address, 0x1700);
	cr_assert_str_eq(host.gpus[0].model, "Fake CUDA 11");
	cr_assert_str_eq(host.gpus[1].uuid, "GPU-0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a");
	cr_assert_eq(host.gpus[1].memory_mib, 8 << 10);
	cr_assert_eq(rd_gpu_distance(&host, 0, 1, NULL), RD_SYS);
}

Test(probe, a_gpu_that_nvml_does_not_list_is_left_out)
{
	setenv("FAKE_NVML", "lame", 1);
	put_server();
	const char *log = probe(&made_up);
	assert_logged(log, "NVML does not tell of GPU 2: left out");
	cr_assert_eq(host.gpu_count, 2);
	cr_assert_eq(host.gpus[1].nvlinks[0], 2);
}

/* ---- Contradictions ---- */

Test(probe, a_gpu_that_sysfs_does_not_show_keeps_its_address)
{
	tree_put("NVRM version", "proc/driver/nvidia/version");
	const char *log = probe(&made_up);
	assert_logged(log, "the GPU at 0000:17:00.0 is not in sysfs");
	cr_assert_eq(host.gpu_count, 3);
	cr_assert_eq(host.gpus[0].device.path.address, 0x1700);
	cr_assert_eq(host.gpus[0].device.numa, -1);
}

Test(probe, numa_nodes_that_claim_the_same_cpus_share_none)
{
	put_server();
	tree_put("1-3,6-7", "sys/devices/system/node/node1/cpulist");
	const char *log = probe(&made_up);
	assert_logged(log, "NUMA nodes 0 and 1 claim the same CPUs: node 0 has them");
	assert_cpus(&host.numa[0].cpus, "0-1,4-5");
	assert_cpus(&host.numa[1].cpus, "2-3,6-7");
}

Test(probe, a_numa_node_without_a_sound_list_is_left_out)
{
	put_server();
	tree_put("2-3,banana", "sys/devices/system/node/node1/cpulist");
	tree_put("1", "sys/devices/system/node/node2/distance");
	const char *log = probe(&made_up);
	assert_logged(log, "NUMA node 1 has no list of its CPUs: it is left out");
	assert_logged(log, "NUMA node 2 has no list of its CPUs: it is left out");
	assert_logged(
		log, "gpu2 is said to be at NUMA node 1, which is not there: taken as not known");
	cr_assert_eq(host.numa_count, 1);
	cr_assert_eq(host.gpus[2].device.numa, -1);
}

Test(probe, a_node_of_memory_alone_is_a_node)
{
	put_server();
	tree_put("", "sys/devices/system/node/node2/cpulist");
	probe(&made_up);
	cr_assert_eq(host.numa_count, 3);
}

Test(probe, a_port_without_a_state_is_left_out)
{
	put_rdma("mlx5_9", "pci0000:84/0000:84:00.0/0000:86:00.0", NULL, "?");
	const char *log = probe(&made_up);
	assert_logged(log, "mlx5_9 tells no state of its port 1: left out");
	cr_assert_eq(host.rdma_count, 1);
	cr_assert_eq(host.rdma[0].port_count, 0);
	cr_assert_not(rd_nic_up(&host, &host.rdma[0].device));
}

Test(probe, files_of_random_bytes_are_survived)
{
	put_server();
	tree_put("?", "sys/devices/system/cpu/cpu0/topology/physical_package_id");
	tree_put("9999999999999999999", "sys/devices/system/cpu/cpu2/topology/physical_package_id");
	tree_put("7-1", "sys/devices/system/cpu/cpu1/topology/thread_siblings_list");
	tree_put("99999999999", "sys/class/net/ib0/mtu");
	tree_put("-1", "sys/class/net/ib0/speed");
	tree_put("fast", "sys/class/infiniband/mlx5_0/ports/1/rate");
	tree_put("x", "sys/class/infiniband/mlx5_0/ports/many/state");
	probe(&made_up);
	cr_assert_eq(host.numa_count, 2);
	cr_assert_eq(interface_named("ib0")->speed_mbps, 0);
	cr_assert_eq(interface_named("ib0")->mtu, 0);
	cr_assert_eq(host.rdma[0].ports[0].speed_mbps, 0);
	cr_assert_eq(host.rdma[0].port_count, 1);
}

Test(probe, a_tree_in_which_a_bridge_has_two_ways_loses_its_paths)
{
	put_server();
	put_interface("eth9", "pci0000:ff/0000:16:00.0/0000:99:00.0", "up");
	put_pci("pci0000:ff/0000:16:00.0/0000:99:00.0", "0");
	const char *log = probe(&made_up);
	assert_logged(log, "disagree on the PCI bridges");
	assert_logged(log, "going on without the paths of PCI");
	cr_assert_eq(host.gpu_count, 3);
	cr_assert_not(host.gpus[0].device.path.known);
	cr_assert_eq(rd_gpu_distance(&host, 0, 1, NULL), RD_NODE);
}

Test(probe, more_than_there_is_room_for_is_left_out)
{
	char name[32], path[64];

	for (int i = 0; i < RD_INTERFACE_MAX + 2; i++) {
		snprintf(name, sizeof(name), "veth%d", i);
		put_interface(name, "virtual", "up");
	}
	for (int i = 0; i < RD_RDMA_MAX + 1; i++) {
		snprintf(name, sizeof(name), "mlx5_%d", i);
		snprintf(path, sizeof(path), "pci0000:00/0000:00:%02x.0", i % 32);
		put_rdma(name, path, "4: ACTIVE", "1");
	}
	for (int i = 0; i < RD_NUMA_MAX + 1; i++) {
		snprintf(name, sizeof(name), "%d", i);
		tree_put(name, "sys/devices/system/node/node%d/cpulist", i);
	}
	put_interface("eth0", "pci0000:00/0000:00:03.0", "up");
	const char *log = probe(&made_up);
	assert_logged(log, "veth64 is one too many: left out");
	assert_logged(log, "mlx5_32 is one too many: left out");
	assert_logged(log, "NUMA node 32 is one too many: left out");
	cr_assert_eq(host.interface_count, RD_INTERFACE_MAX);
	cr_assert(interface_named("eth0")->hardware, "hardware comes first");
	cr_assert_eq(host.rdma_count, RD_RDMA_MAX);
	cr_assert_eq(host.numa_count, RD_NUMA_MAX);
}

/* ---- This machine ---- */

Test(probe, hwloc_and_sysfs_agree_on_this_machine)
{
	struct rd_host *by_hwloc = calloc(1, sizeof(*by_hwloc));

	if (!rd_probe_hwloc(by_hwloc, &rd_probe_full)) {
		free(by_hwloc);
		cr_skip_test("no hwloc here");
	}
	rd_probe_cpus(&host, &rd_probe_full);
	cr_assert_eq(host.numa_count, by_hwloc->numa_count);
	for (int i = 0; i < host.numa_count; i++) {
		cr_assert_eq(host.numa[i].number, by_hwloc->numa[i].number);
		cr_assert_eq(host.numa[i].package, by_hwloc->numa[i].package);
		cr_assert_eq(
			memcmp(&host.numa[i].cpus, &by_hwloc->numa[i].cpus, sizeof(struct rd_cpus)),
			0);
		cr_assert_eq(memcmp(&host.numa[i].cores, &by_hwloc->numa[i].cores,
				     sizeof(struct rd_cpus)),
			0);
	}
	free(by_hwloc);
}

Test(probe, this_machine_has_a_loopback_with_an_address)
{
	probe(&rd_probe_quick);
	const struct rd_host_interface *lo = interface_named("lo");
	cr_assert(lo->loopback);
	cr_assert_not(lo->hardware);
	cr_assert_gt(lo->mtu, 0);
	if (!lo->up)
		cr_skip_test("the loopback is down, and may have no address");
	cr_assert_gt(lo->address_count, 0);
	cr_assert_str_eq(lo->addresses[0], "127.0.0.1");
}
