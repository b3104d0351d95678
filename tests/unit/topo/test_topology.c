/* Distances and links of topologies that are loaded from files (tests/support/topologies). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "topo/topology.h"
#include "topo/topology_file.h"

#define FIXTURE(name) RONDO_TOPOLOGIES "/" name ".json"

static const char *const fixtures[] = { FIXTURE("dgx"), FIXTURE("workstation"),
	FIXTURE("two_nodes"), FIXTURE("vm") };

#define FIXTURE_COUNT (sizeof(fixtures) / sizeof(*fixtures))

static struct rd_topology loaded(const char *path)
{
	struct rd_topology topology;

	cr_assert_eq(rd_topology_load(&topology, path), 0, "%s", rondo_last_error());
	return topology;
}

static int parse(struct rd_topology *topology, const char *text)
{
	return rd_topology_parse(topology, "text", text, strlen(text));
}

static char *written(const struct rd_topology *topology)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	rd_topology_write(topology, out);
	fclose(out);
	return text;
}

/* ---- Sets of CPUs, and PCI ---- */

Test(topology, sets_of_cpus_are_read_and_written)
{
	struct rd_cpus cpus;
	char text[64];

	cr_assert(rd_cpus_read(&cpus, "0-2,5,62-65"));
	cr_assert_eq(rd_cpus_count(&cpus), 8);
	cr_assert(rd_cpus_has(&cpus, 64));
	cr_assert_not(rd_cpus_has(&cpus, 3));
	cr_assert_not(rd_cpus_has(&cpus, -1));
	cr_assert_not(rd_cpus_has(&cpus, RD_CPU_MAX));
	cr_assert_eq(rd_cpus_at(&cpus, 3), 5);
	cr_assert_eq(rd_cpus_at(&cpus, 8), -1);
	cr_assert_eq(rd_cpus_before(&cpus, 64), 6);
	rd_cpus_text(&cpus, text, sizeof(text));
	cr_assert_str_eq(text, "0-2,5,62-65");
	rd_cpus_text(&cpus, text, 9);
	cr_assert_str_eq(text, "0-2,5...");
	cr_assert(rd_cpus_read(&cpus, ""));
	cr_assert_eq(rd_cpus_count(&cpus), 0);
}

/* Every third CPU is left out: no list is longer. */
static void longest_list(struct rd_cpus *cpus)
{
	memset(cpus, 0, sizeof(*cpus));
	for (int cpu = 0; cpu < RD_CPU_MAX; cpu++)
		if (cpu % 3 != 2)
			rd_cpus_add(cpus, cpu);
}

Test(topology, the_longest_list_of_cpus_is_written_whole)
{
	struct rd_topology topology, again;
	struct rd_cpus cpus;

	longest_list(&cpus);
	cr_assert_eq(rd_topology_init(&topology, 1), 0);
	struct rd_host *host = &topology.hosts[0];
	strcpy(host->name, "a");
	host->numa_count = 1;
	host->numa[0].cpus = cpus;
	cr_assert_eq(rd_host_settle(host), 0);
	char *text = written(&topology);
	cr_assert_eq(rd_topology_parse(&again, "again", text, strlen(text)), 0, "%s",
		rondo_last_error());
	cr_assert_arr_eq(&again.hosts[0].numa[0].cpus, &cpus, sizeof(cpus));
	cr_assert_arr_eq(&again.hosts[0].numa[0].cores, &cpus, sizeof(cpus));
	free(text);
	rd_topology_finish(&topology);
	rd_topology_finish(&again);
}

Test(topology, what_is_no_set_of_cpus_is_refused)
{
	static const char *const texts[] = { ",", "1,", "-1", "2-1", "1-", "a", "1 ", "0x1", "4096",
		"99999999999", "1--2" };
	struct rd_cpus cpus;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		cr_assert_not(rd_cpus_read(&cpus, texts[i]), "%s", texts[i]);
		cr_assert_eq(rd_cpus_count(&cpus), 0);
	}
	cr_assert(rd_cpus_read(&cpus, "4095"));
}

Test(topology, pci_addresses_are_read_and_written)
{
	uint32_t address;
	char text[RD_PCI_TEXT_SIZE];

	cr_assert(rd_pci_read(&address, "0002:3B:1f.7"));
	cr_assert_eq(address, 2 << 16 | 0x3b << 8 | 0x1f << 3 | 7);
	rd_pci_text(text, address);
	cr_assert_str_eq(text, "0002:3b:1f.7");
	cr_assert(rd_pci_read(&address, "00000002:3b:1f.7")); /* as NVML has it */
	cr_assert_eq(address, 2 << 16 | 0x3b << 8 | 0x1f << 3 | 7);
}

Test(topology, what_is_no_pci_address_is_refused)
{
	static const char *const texts[] = { "", "0000", "3b:00.0", "0000:3b:20.0", "0000:3b:00.8",
		"0000:3b:00.0 ", "10000:3b:00.0", "00010000:3b:00.0", "000g:3b:00.0",
		"0000:3b:00" };
	uint32_t address;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert_not(rd_pci_read(&address, texts[i]), "%s", texts[i]);
}

Test(topology, a_path_ends_where_pci_does)
{
	struct rd_pci_path path;
	const char *rest;
	char text[RD_PCI_PATH_TEXT_SIZE];

	cr_assert(rd_pci_path_read(&path, "pci0000:00/0000:00:03.0/virtio2/net/eth0", &rest));
	cr_assert_str_eq(rest, "/virtio2/net/eth0");
	cr_assert_eq(path.bridge_count, 0);
	cr_assert(rd_pci_path_read(&path, "pci0000:17/0000:17:00.0/0000:18:00.0", &rest));
	cr_assert_str_eq(rest, "");
	cr_assert_eq(path.bridge_count, 1);
	cr_assert_eq(path.root, 0x1700);
	rd_pci_path_text(&path, text);
	cr_assert_str_eq(text, "pci0000:17/0000:17:00.0/0000:18:00.0");
	cr_assert_not(rd_pci_path_read(&path, "pci0000:17", NULL));
	cr_assert_not(rd_pci_path_read(&path, "platform/serial", NULL));
}

Test(topology, a_path_of_too_many_bridges_is_not_known)
{
	char text[RD_PCI_PATH_TEXT_SIZE * 2] = "pci0000:00";
	struct rd_pci_path path;

	for (int i = 0; i <= RD_BRIDGE_MAX; i++)
		strcat(text, "/0000:00:01.0");
	cr_assert(rd_pci_path_read(&path, text, NULL));
	cr_assert_eq(path.bridge_count, RD_BRIDGE_MAX);
	strcat(text, "/0000:00:01.0");
	cr_assert_not(rd_pci_path_read(&path, text, NULL));
	cr_assert_not(path.known);
}

/* ---- Distances ---- */

/* The class between two devices at these paths and NUMA nodes, on a host with nodes 0 and 1. */
static enum rd_distance distance(const char *a, int numa_a, const char *b, int numa_b)
{
	static struct rd_host host;
	struct rd_device first = { .numa = numa_a }, second = { .numa = numa_b };

	host.numa_count = 2;
	host.numa[1].number = 1;
	rd_pci_path_read(&first.path, a, NULL);
	rd_pci_path_read(&second.path, b, NULL);
	enum rd_distance there = rd_device_distance(&host, &first, &second);
	cr_assert_eq(there, rd_device_distance(&host, &second, &first), "both ways alike");
	return there;
}

#define ROOT_PORT "pci0000:17/0000:17:00.0"
#define SWITCH ROOT_PORT "/0000:18:00.0"

Test(topology, the_class_of_a_distance_comes_from_the_bridges)
{
	/* two cards in one switch; two functions of one card; a switch behind a switch */
	cr_assert_eq(distance(SWITCH "/0000:19:00.0/0000:1a:00.0", 0,
			     SWITCH "/0000:19:01.0/0000:1b:00.0", 0),
		RD_PIX);
	cr_assert_eq(distance(ROOT_PORT "/0000:18:00.0", 0, ROOT_PORT "/0000:18:00.1", 0), RD_PIX);
	cr_assert_eq(distance(SWITCH "/0000:19:00.0/0000:1a:00.0", 0,
			     SWITCH "/0000:19:01.0/0000:1b:00.0/0000:1c:00.0/0000:1d:00.0", 0),
		RD_PXB);
	/* two cards behind one bridge that is no switch */
	cr_assert_eq(distance(ROOT_PORT "/0000:18:00.0", 0, ROOT_PORT "/0000:18:01.0", 0), RD_PIX);
	/* two root ports of one host bridge; two host bridges of one node; two nodes */
	cr_assert_eq(
		distance(ROOT_PORT "/0000:18:00.0", 0, "pci0000:17/0000:17:01.0/0000:20:00.0", 0),
		RD_PHB);
	cr_assert_eq(
		distance(ROOT_PORT "/0000:18:00.0", 1, "pci0000:3a/0000:3a:00.0/0000:3b:00.0", 1),
		RD_NODE);
	cr_assert_eq(
		distance(ROOT_PORT "/0000:18:00.0", 0, "pci0000:3a/0000:3a:00.0/0000:3b:00.0", 1),
		RD_SYS);
}

Test(topology, without_a_path_the_numa_node_decides)
{
	cr_assert_eq(distance("", 1, "", 1), RD_NODE);
	cr_assert_eq(distance("", 0, ROOT_PORT "/0000:18:00.0", 0), RD_NODE);
	cr_assert_eq(distance("", 0, "", 1), RD_SYS);
	cr_assert_eq(distance("", -1, "", -1), RD_SYS, "nobody knows: the worst");
}

static enum rd_distance between(const struct rd_host *host, const char *a, const char *b)
{
	const struct rd_device *found[2] = { NULL, NULL };

	for (int i = 0; i < host->nic_count; i++) {
		found[0] = strcmp(host->nics[i]->name, a) ? found[0] : host->nics[i];
		found[1] = strcmp(host->nics[i]->name, b) ? found[1] : host->nics[i];
	}
	for (int i = 0; i < host->gpu_count; i++) {
		const struct rd_device *gpu = &host->gpus[i].device;
		found[0] = strcmp(gpu->name, a) ? found[0] : gpu;
		found[1] = strcmp(gpu->name, b) ? found[1] : gpu;
	}
	cr_assert(found[0] && found[1], "%s or %s is missing", a, b);
	return rd_device_distance(host, found[0], found[1]);
}

Test(topology, a_dgx_has_a_nic_beside_each_gpu_and_nvlinks_between_all)
{
	struct rd_topology topology = loaded(FIXTURE("dgx"));
	const struct rd_host *host = topology.hosts;
	int links;

	cr_assert_eq(host->gpu_count, 8);
	cr_assert_eq(host->nic_count, 11, "the faces of RDMA devices, docker0 and lo are none");
	for (int a = 0; a < 8; a++) {
		for (int b = 0; b < 8; b++) {
			cr_assert_eq(
				rd_gpu_distance(host, a, b, &links), a == b ? RD_SAME : RD_NVLINK);
			cr_assert_eq(links, a == b ? 0 : 18);
		}
	}
	cr_assert_eq(between(host, "gpu0", "mlx5_0"), RD_PIX);
	cr_assert_eq(between(host, "gpu0", "mlx5_1"), RD_NODE);
	cr_assert_eq(between(host, "gpu7", "mlx5_9"), RD_PIX);
	cr_assert_eq(between(host, "gpu3", "gpu4"), RD_SYS);
	rd_topology_finish(&topology);
}

/* ---- Places ---- */

static void assert_place(const struct rd_place *place, const char *host, int gpu, int numa,
	int core, int slot, const char *nic)
{
	cr_assert_str_eq(place->host_name, host);
	cr_assert_eq(place->gpu, gpu);
	cr_assert_eq(place->numa_node, numa);
	cr_assert_eq(place->core, core);
	cr_assert_eq(place->slot, slot);
	cr_assert_str_eq(place->nic, nic);
}

Test(topology, each_rank_of_a_dgx_has_a_gpu_and_the_nic_beside_it)
{
	static const char *const nics[] = { "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_6",
		"mlx5_7", "mlx5_8", "mlx5_9" };
	struct rd_topology topology = loaded(FIXTURE("dgx"));
	struct rd_place places[16];

	rd_topology_places(&topology, 16, places);
	for (int rank = 0; rank < 16; rank++) {
		int gpu = rank % 8;
		assert_place(&places[rank], "dgx0", gpu, gpu / 4, gpu / 4 * 56, gpu, nics[gpu]);
	}
	cr_assert_eq(places[1].gpu_pci, 0x4300);
	rd_topology_finish(&topology);
}

Test(topology, ranks_fill_one_node_after_the_other)
{
	struct rd_topology topology = loaded(FIXTURE("two_nodes"));
	struct rd_place places[8];

	rd_topology_places(&topology, 8, places);
	for (int rank = 0; rank < 8; rank++)
		assert_place(&places[rank], rank < 4 ? "node0" : "node1", rank % 4, rank % 4 / 2,
			rank % 4 / 2 * 16, rank % 4, "eth0");
	cr_assert(rd_place_same_host(&places[0], &places[3]));
	cr_assert_not(rd_place_same_host(&places[3], &places[4]));
	rd_topology_places(&topology, 5, places);
	cr_assert_str_eq(places[2].host_name, "node0", "the first node has one more");
	cr_assert_str_eq(places[3].host_name, "node1");
	rd_topology_finish(&topology);
}

Test(topology, ranks_without_gpus_are_spread_over_the_cores)
{
	struct rd_topology topology = loaded(FIXTURE("vm"));
	struct rd_place places[8];

	rd_topology_places(&topology, 2, places);
	assert_place(&places[0], "vm-7c9f", -1, 0, 0, 0, "ens4");
	assert_place(&places[1], "vm-7c9f", -1, 0, 4, 4, "ens4");
	rd_topology_places(&topology, 8, places);
	for (int rank = 0; rank < 8; rank++)
		cr_assert_eq(places[rank].core, rank / 2 * 2, "two ranks a core, threads unused");
	rd_topology_finish(&topology);
}

#define HOST(rest) "{\"rondo_topology\": 1, \"hosts\": [{\"name\": \"a\", " rest "}]}"
#define NUMA "\"numa\": [{\"number\": 0, \"cpus\": \"0-3\"}]"

Test(topology, slots_follow_packages_before_numbers)
{
	struct rd_topology topology;
	struct rd_place places[4];

	/* Nodes 0 and 2 are in package 0, as some BIOSes number them. */
	cr_assert_eq(parse(&topology, HOST("\"numa\": ["
					   "{\"number\": 0, \"package\": 0, \"cpus\": \"0\"}, "
					   "{\"number\": 1, \"package\": 1, \"cpus\": \"1\"}, "
					   "{\"number\": 2, \"package\": 0, \"cpus\": \"2\"}, "
					   "{\"number\": 3, \"package\": 1, \"cpus\": \"3\"}]")),
		0, "%s", rondo_last_error());
	rd_topology_places(&topology, 4, places);
	static const int cores[] = { 0, 2, 1, 3 };
	for (int rank = 0; rank < 4; rank++)
		assert_place(&places[rank], "a", -1, cores[rank], cores[rank], rank, "");
	rd_topology_finish(&topology);
}

/* Four GPUs at one host bridge, with the NVLinks of the lists. */
#define GPU(bus, links) \
	"{\"path\": \"pci0000:00/0000:00:0" bus ".0/0000:0" bus ":00.0\", \"numa\": 0, " \
	"\"nvlinks\": [" links "]}"

Test(topology, the_order_of_gpus_follows_the_nvlinks)
{
	struct rd_topology topology;
	struct rd_place places[4];
	int links;

	/* 0 = 2, 1 = 3 by four links, 2 - 3 by one: the line 0 2 3 1. */
	cr_assert_eq(parse(&topology, HOST(NUMA ", \"gpus\": [" GPU("1", "0, 0, 4") ", " GPU(
					      "2", "0, 0, 0, 4") ", " GPU("3",
					      "4, 0, 0, 1") ", " GPU("4", "0, 4, 1, 0") "]")),
		0, "%s", rondo_last_error());
	cr_assert_eq(rd_gpu_distance(topology.hosts, 3, 1, &links), RD_NVLINK);
	cr_assert_eq(links, 4);
	cr_assert_eq(rd_gpu_distance(topology.hosts, 0, 1, NULL), RD_PHB);
	static const int slots[] = { 0, 3, 1, 2 };
	rd_topology_places(&topology, 4, places);
	int turn = places[0].slot == 0 ? 0 : 3; /* a line has no direction */
	for (int rank = 0; rank < 4; rank++)
		cr_assert_eq(places[rank].slot, turn ? turn - slots[rank] : slots[rank]);
	rd_topology_finish(&topology);
}

#define NIC(name, bus, speed, up) \
	"{\"name\": \"" name "\", \"hardware\": true, \"numa\": 0, \"up\": " up \
	", \"speed_mbps\": " speed ", \"path\": \"pci0000:" bus "/0000:" bus ":01.0\"}"

Test(topology, the_nic_of_a_rank_is_up_and_fast_before_it_is_near)
{
	struct rd_topology topology;
	struct rd_place places[3];

	cr_assert_eq(
		parse(&topology,
			HOST(NUMA ", \"gpus\": [{\"path\": \"pci0000:00/0000:00:02.0\"}], "
				  "\"interfaces\": [" NIC("down", "00", "400000", "false") ", " NIC(
					  "slow", "00", "1000", "true") ", " NIC("far0", "20",
					  "100000",
					  "true") ", " NIC("far1", "30", "100000", "true") "]")),
		0, "%s", rondo_last_error());
	rd_topology_places(&topology, 1, places);
	cr_assert_str_eq(places[0].nic, "far0");
	const struct rd_device *next = rd_host_nic(topology.hosts, NULL, 0, 1);
	cr_assert_str_eq(next->name, "far1", "equals take turns");
	rd_topology_finish(&topology);
}

/* ---- Files ---- */

Test(topology, what_is_written_is_loaded_as_it_was)
{
	for (size_t i = 0; i < FIXTURE_COUNT; i++) {
		struct rd_topology first = loaded(fixtures[i]), second;
		char *text = written(&first);
		cr_assert_eq(rd_topology_parse(&second, "again", text, strlen(text)), 0, "%s",
			rondo_last_error());
		char *again = written(&second);
		cr_assert_str_eq(again, text);
		cr_assert_eq(first.host_count, second.host_count);
		for (int h = 0; h < first.host_count; h++)
			cr_assert_eq(memcmp(first.hosts[h].gpus, second.hosts[h].gpus,
					     sizeof(first.hosts[h].gpus)),
				0);
		free(text);
		free(again);
		rd_topology_finish(&first);
		rd_topology_finish(&second);
	}
}

Test(topology, a_file_that_contradicts_itself_is_refused_in_one_line)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{ "[]", "text:1: a topology is an object" },
		{ "{}", "\"rondo_topology\" must be 1" },
		{ "{\"rondo_topology\": 2, \"hosts\": []}", "another version" },
		{ "{\"rondo_topology\": 1}", "\"hosts\" is missing" },
		{ "{\"rondo_topology\": 1, \"hosts\": []}", "1 to 1024 hosts" },
		{ HOST(NUMA ", \"gpu\": []"), "\"gpu\" is nothing that is known here" },
		{ HOST(NUMA ", \"id\": \"x\", \"id\": \"y\""), "\"id\" is here twice" },
		{ HOST("\"id\": \"x\""), "\"numa\" is missing" },
		{ HOST("\"numa\": []"), "host a has no CPU" },
		{ HOST("\"numa\": [{\"number\": 0}]"), "\"cpus\" is missing" },
		{ HOST("\"numa\": [{\"cpus\": \"3-1\"}]"), "no list of CPUs" },
		{ HOST("\"numa\": [{\"cpus\": 3}]"), "cpus is a number" },
		{ HOST("\"numa\": [{\"number\": -1, \"cpus\": \"0\"}]"), "number must be" },
		{ HOST("\"numa\": [{\"number\": 0, \"cpus\": \"0\"}, {\"number\": 0, \"cpus\": "
		       "\"1\"}]"),
			"NUMA node 0 twice" },
		{ HOST("\"numa\": [{\"number\": 0, \"cpus\": \"0-3\"}, {\"number\": 1, \"cpus\": "
		       "\"3\"}]"),
			"in both NUMA node 0 and NUMA node 1" },
		{ HOST("\"numa\": [{\"cpus\": \"0-3\", \"cores\": \"4\"}]"), "none of its CPUs" },
		{ HOST(NUMA ", \"gpus\": [{\"numa\": 1}]"),
			"gpu0 is at NUMA node 1, which the host does not have" },
		{ HOST(NUMA ", \"gpus\": [{\"path\": \"0000:01:00.0\"}]"), "no path of PCI" },
		{ HOST(NUMA ", \"gpus\": [{\"path\": \"pci0000:00/0000:01:00.0/x\"}]"),
			"no path of PCI" },
		{ HOST(NUMA ", \"gpus\": [" GPU("2", "") ", " GPU("1", "") "]"),
			"not in the order of their PCI addresses" },
		{ HOST(NUMA ", \"gpus\": [" GPU("1", "") ", " GPU("1", "") "]"),
			"not in the order of their PCI addresses" },
		{ HOST(NUMA ", \"gpus\": [" GPU("1", "0, 2") ", " GPU("2", "1, 0") "]"),
			"GPU 0 has 2 NVLinks to GPU 1, which has 1 back" },
		{ HOST(NUMA ", \"gpus\": [" GPU("1", "1") "]"), "NVLinks to itself" },
		{ HOST(NUMA ", \"gpus\": [" GPU("1", "0, 1") "]"), "NVLinks to GPU 1 of 1" },
		{ HOST(NUMA ", \"gpus\": [{\"nvlinks\": [-1]}]"), "an element must be" },
		{ HOST(NUMA ", \"gpus\": [{\"path\": \"pci0000:00/0000:00:01.0/0000:01:00.0\"}, "
			    "{\"path\": \"pci0000:40/0000:00:01.0/0000:02:00.0\"}]"),
			"gpu0 and gpu1 disagree on the PCI bridges" },
		{ HOST(NUMA ", \"interfaces\": [{\"mtu\": 1500}]"), "\"name\" is missing" },
		{ HOST(NUMA ", \"interfaces\": [{\"name\": \"\"}]"), "1 to 63 characters" },
		{ HOST(NUMA ", \"interfaces\": [{\"name\": \"\\u001b[2J\"}]"), "ASCII" },
		{ HOST(NUMA ", \"interfaces\": [{\"name\": \"x\"}, {\"name\": \"x\"}]"),
			"two devices named x" },
		{ HOST(NUMA ", \"interfaces\": [{\"name\": \"x\", \"up\": 1}]"),
			"up is a number: give true or false" },
		{ HOST(NUMA ", \"rdma\": [{\"name\": \"x\", \"ports\": [{},{},{},{},{}]}]"),
			"ports has 5 elements, and may have 4" },
		{ HOST(NUMA) "x", "something follows the end" },
	};
	struct rd_topology topology;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		cr_assert_eq(parse(&topology, cases[i].text), RONDO_INVALID, "%s", cases[i].text);
		cr_assert(strstr(rondo_last_error(), cases[i].reason), "\"%s\" is not in: %s",
			cases[i].reason, rondo_last_error());
		cr_assert_null(strchr(rondo_last_error(), '\n'));
		cr_assert_eq(topology.host_count, 0);
	}
}

Test(topology, two_hosts_of_one_name_are_refused)
{
	struct rd_topology topology;

	cr_assert_eq(parse(&topology, "{\"rondo_topology\": 1, \"hosts\": [{\"name\": \"a\", " NUMA
				      "}, {\"name\": \"a\", " NUMA "}]}"),
		RONDO_INVALID);
	cr_assert(strstr(rondo_last_error(), "two hosts are named a"));
}

Test(topology, broken_files_are_refused_with_their_name_and_line)
{
	static const struct {
		const char *path, *reason;
	} cases[] = {
		{ FIXTURE("broken/cut_short"),
			"broken/cut_short.json:13: a string does not end on its line" },
		{ FIXTURE("broken/node_missing"), "node_missing.json:3: host dgx1: gpu1 is at NUMA "
						  "node 1, which the host does not have" },
		{ FIXTURE("broken/one_sided_links"), "one_sided_links.json:3: host node0: GPU 0 "
						     "has 4 NVLinks to GPU 1, which has 0 back" },
		{ FIXTURE("broken/two_ways"),
			"two_ways.json:3: host node0: gpu0 and eth0 disagree on the PCI bridges" },
		{ FIXTURE("none"), "cannot read the topology" },
		{ RONDO_TOPOLOGIES, "cannot read the topology" },
	};
	struct rd_topology topology;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		cr_assert_lt(rd_topology_load(&topology, cases[i].path), 0);
		cr_assert(strstr(rondo_last_error(), cases[i].reason), "\"%s\" is not in: %s",
			cases[i].reason, rondo_last_error());
	}
}

Test(topology, an_empty_pipe_is_not_waited_for, .timeout = 20)
{
	char directory[] = "/tmp/topology.XXXXXX", path[64];
	struct rd_topology topology;

	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/pipe", directory);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_lt(rd_topology_load(&topology, path), 0);
	unlink(path);
	rmdir(directory);
}

/* ---- Mutated files ---- */

static uint32_t draw(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Changes some bytes, or removes a part, or repeats it. */
static size_t mutate(char *text, size_t size, uint32_t *state)
{
	static const char bytes[] = "{}[]\",:0123456789-.eEtfn\\u /\x00\xff\n";
	size_t from = draw(state) % size, length = draw(state) % 40, to = draw(state) % size;

	length = from + length > size ? size - from : length;
	switch (draw(state) % 4) {
	case 0:
		memmove(text + from, text + from + length, size - from - length);
		return size - length;
	case 1:
		memmove(text + to, text + from, to + length > size ? size - to : length);
		return size;
	case 2:
		return from;
	default:
		for (uint32_t i = 0; i <= draw(state) % 3; i++)
			text[draw(state) % size] = bytes[draw(state) % sizeof(bytes)];
		return size;
	}
}

Test(topology, a_mutated_file_is_loaded_or_refused_in_one_line, .timeout = 120)
{
	uint32_t state = 1;
	int refused = 0, taken = 0;

	for (size_t i = 0; i < FIXTURE_COUNT; i++) {
		struct rd_topology topology = loaded(fixtures[i]);
		char *text = written(&topology);
		size_t size = strlen(text);
		rd_topology_finish(&topology);
		for (int round = 0; round < 500; round++) {
			char *copy =
				malloc(size); /* no terminator: a sanitizer sees reads past it */
			memcpy(copy, text, size);
			size_t left = mutate(copy, size, &state);
			rd_fail(0, "%s", "");
			if (rd_topology_parse(&topology, "text", copy, left) == 0) {
				struct rd_place places[9];
				rd_topology_places(&topology, 9, places);
				rd_topology_finish(&topology);
				taken++;
			} else {
				cr_assert(!strncmp(rondo_last_error(), "text:", 5), "%s",
					rondo_last_error());
				cr_assert_null(strchr(rondo_last_error(), '\n'));
				refused++;
			}
			free(copy);
		}
		free(text);
	}
	cr_assert_gt(refused, 500);
	cr_assert_gt(taken, 50);
}
