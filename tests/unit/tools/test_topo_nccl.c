/* NCCL's topology as XML: distances, places, and refusals with their line. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rondo.h"
#include "topo/nccl.h"
#include "topo/topology.h"

static struct rd_topology topology;

/* Files are read where expat is there. */
static void need_expat(void)
{
	if (topo_nccl_parse(&topology, "", "", 0) == RONDO_UNSUPPORTED)
		cr_skip_test("rondo-topo was built without expat");
}

TestSuite(topo_nccl, .init = need_expat, .timeout = 60);

static const struct rd_host *read_host(const char *text)
{
	cr_assert_eq(
		topo_nccl_parse(&topology, "f", text, strlen(text)), 0, "%s", rondo_last_error());
	return &topology.hosts[0];
}

static enum rd_distance distance(const struct rd_host *host, int gpu, int other)
{
	return rd_gpu_distance(host, gpu, other, NULL);
}

/* As clouds ship it for NCCL_TOPO_FILE: devices by their class, in domains of their own. */
Test(topo_nccl, devices_are_known_by_their_class_alone)
{
	const struct rd_host *host =
		read_host("<system version=\"1\">"
			  "<cpu numaid=\"0\" affinity=\"0000ffff,0000ffff\">"
			  "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16 GT/s\">"
			  "<pci busid=\"0002:00:00.0\" class=\"0x030200\"/>"
			  "<pci busid=\"0001:00:00.0\" class=\"0x030200\"/>"
			  "<pci busid=\"0101:00:00.0\" class=\"0x020700\"/>"
			  "</pci><pci busid=\"ffff:ff:02.0\" class=\"0x060400\">"
			  "<pci busid=\"0003:00:00.0\" class=\"0x030200\"/>"
			  "</pci></cpu></system>");

	cr_assert_eq(host->gpu_count, 3);
	cr_assert_eq(host->rdma_count, 1);
	cr_expect_str_eq(host->rdma[0].device.name, "0101:00:00.0");
	cr_expect_eq(rd_cpus_count(&host->numa[0].cpus), 32);
	cr_expect(rd_cpus_has(&host->numa[0].cpus, 47) && !rd_cpus_has(&host->numa[0].cpus, 16));
	cr_expect_eq(distance(host, 0, 1), RD_PIX);
	cr_expect_eq(distance(host, 0, 2), RD_PHB);
	cr_expect_eq(
		rd_device_distance(host, &host->gpus[1].device, &host->rdma[0].device), RD_PIX);
	rd_topology_finish(&topology);
}

Test(topo_nccl, switches_in_a_switch_are_several_bridges)
{
	const struct rd_host *host =
		read_host("<system version=\"1\"><cpu numaid=\"0\" affinity=\"1\">"
			  "<pci busid=\"0000:10:00.0\" class=\"0x060400\">"
			  "<pci busid=\"0000:11:00.0\" class=\"0x060400\">"
			  "<pci busid=\"0000:12:00.0\"><gpu/></pci>"
			  "<pci busid=\"0000:13:00.0\"><gpu/></pci></pci>"
			  "<pci busid=\"0000:14:00.0\" class=\"0x060400\">"
			  "<pci busid=\"0000:15:00.0\"><gpu/></pci></pci>"
			  "<pci busid=\"0000:16:00.0\"><gpu/></pci></pci>"
			  "</cpu><cpu numaid=\"1\" affinity=\"2\">"
			  "<pci busid=\"0000:17:00.0\"><gpu/></pci></cpu></system>");

	cr_assert_eq(host->gpu_count, 5);
	cr_expect_eq(distance(host, 0, 1), RD_PIX);
	cr_expect_eq(distance(host, 0, 2), RD_PXB);
	cr_expect_eq(distance(host, 0, 3), RD_PXB);
	cr_expect_eq(distance(host, 0, 4), RD_SYS);
	rd_topology_finish(&topology);
}

Test(topo_nccl, the_first_cpu_has_what_several_claim)
{
	const struct rd_host *host =
		read_host("<system version=\"1\"><cpu numaid=\"0\" affinity=\"3\">"
			  "<pci busid=\"0000:11:00.0\"><gpu/></pci></cpu>"
			  "<cpu numaid=\"1\" affinity=\"6\"/>"
			  "<cpu numaid=\"2\" affinity=\"3\"/></system>");

	cr_assert_eq(host->numa_count, 3);
	cr_expect_eq(rd_cpus_count(&host->numa[0].cpus), 2);
	cr_expect_eq(rd_cpus_count(&host->numa[1].cpus), 1);
	cr_expect(rd_cpus_has(&host->numa[1].cpus, 2));
	cr_expect_eq(rd_cpus_count(&host->numa[2].cpus), 0);
	rd_topology_finish(&topology);
}

#define GPU(bus, links) "<pci busid=\"0000:" bus ":00.0\"><gpu>" links "</gpu></pci>"
#define LINK(bus, count) "<nvlink target=\"0000:" bus ":00.0\" count=\"" count "\"/>"
#define CPU "<cpu numaid=\"0\" affinity=\"f\">"
#define HOST(inside) "<system version=\"1\">" CPU inside "</cpu></system>"

/* A job that sees two of four GPUs. */
Test(topo_nccl, nvlinks_join_gpus_and_those_to_missing_gpus_are_left_out)
{
	int links;
	const struct rd_host *host = read_host(HOST(GPU("c1", LINK("41", "4") LINK("81", "4"))
			GPU("41", LINK("81", "4") "<nvlink target=\"0000:C1:00.0\" count=\"4\" "
						  "tclass=\"0x030200\"/>")));

	cr_assert_eq(host->gpu_count, 2);
	cr_expect_eq(rd_gpu_distance(host, 0, 1, &links), RD_NVLINK);
	cr_expect_eq(links, 4);
	rd_topology_finish(&topology);
}

Test(topo_nccl, a_host_without_numa_nodes_and_cpus_has_one_of_each)
{
	const struct rd_host *host = read_host(
		"<system version=\"1\"><cpu numaid=\"-1\">" GPU("01", "") "</cpu></system>");

	cr_expect_eq(host->numa_count, 1);
	cr_expect_eq(rd_cpus_count(&host->numa[0].cpus), 1);
	cr_expect_eq(host->gpus[0].device.numa, -1);
	rd_topology_finish(&topology);
}

static void expect_refused(const char *text, const char *wanted)
{
	cr_assert_eq(
		topo_nccl_parse(&topology, "f", text, strlen(text)), RONDO_INVALID, "%s", text);
	cr_expect(strstr(rondo_last_error(), wanted), "not %s, but %s", wanted, rondo_last_error());
}

#define PCI "\n<pci busid=\"0000:01:00.0\">"
#define NET(attributes) HOST("<nic>\n<net " attributes "/></nic>")

Test(topo_nccl, a_file_that_no_host_has_is_refused_with_its_line)
{
	static const char *const cases[][2] = {
		{ "<algo/>", "f:1: <algo> has no place here" },
		{ "<!DOCTYPE system>\n<system version=\"1\"/>", "f:1: <!DOCTYPE> has no place" },
		{ "<system version=\"1\">&lots;</system>", "f:1: undefined entity" },
		{ "<system version=\"2\"/>", "f:1: version is a whole number from 1 to 1" },
		{ "<system version=\"1\">\n<gpu/></system>", "f:2: <gpu> has no place here" },
		{ "<system version=\"1\">\n<system version=\"1\"/></system>", "f:2: <system> has" },
		{ HOST("\n<gin/>"), "f:2: <gin> has no place here" },
		{ HOST("</cpu>\n<cpu>"), "f:2: numaid is a whole number" },
		{ HOST("</cpu>\n<cpu numaid=\"0\">"), "f:2: a second <cpu> of NUMA node 0" },
		{ HOST("</cpu>\n<cpu numaid=\"1\" affinity=\"0-3\">"),
			"f:2: affinity: \"0-3\" is no bitmap of CPUs" },
		{ HOST("</cpu>\n<cpu numaid=\"1\" affinity=\"f,\">"), "f:2: affinity: \"f,\"" },
		{ HOST("</cpu>\n<cpu numaid=\"1\" host_hash=\"0x1\">"), "f:2: host_hash: a <cpu>" },
		{ HOST("\n<pci/>"), "f:2: busid is missing" },
		{ HOST("\n<pci busid=\"01.0\"/>"), "f:2: busid: \"01.0\" is no PCI address" },
		{ HOST(PCI PCI PCI PCI PCI PCI PCI PCI PCI), "f:10: more than 8 <pci> in each" },
		{ HOST(PCI "<gpu/></pci>" PCI "<gpu/></pci>"), "f:3: a second GPU of this busid" },
		{ HOST(GPU("01", "\n<nvlink target=\"0000:02:00.0\"/>")), "f:2: count is a whole" },
		{ HOST(GPU("01", "\n<nvlink count=\"1\"/>")), "f:2: target is missing" },
		{ HOST(GPU("01", "\n<nvlink count=\"1\" target=\"x\"/>")),
			"f:2: target: \"x\" is" },
		{ HOST(GPU("01", "\n" LINK("01", "1"))), "f:2: target: the GPU itself" },
		{ HOST(GPU("01", "\n<nvlink count=\"1\" tclass=\"0x060400\"/>")),
			"f:2: tclass: \"0x060400\" is neither a GPU nor an NVSwitch" },
		{ HOST(GPU("01", "\n" LINK("02", "2")) GPU("02", "\n" LINK("01", "1"))),
			"f:2: 2 NVLinks to this GPU, which has 1 back" },
		{ NET(""), "f:2: name is missing" },
		{ NET("name=\"\""), "f:2: name: \"\" is none of 1 to 63 printable characters" },
		{ NET("name=\"a\" speed=\"fast\""), "f:2: speed is a whole number" },
		{ NET("name=\"a\" port=\"1\"/>\n<net name=\"a\" port=\"1\""),
			"f:3: a second port 1 of a" },
		{ NET("name=\"a\"/><net name=\"a\""), "f: host host has two devices named a" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		expect_refused(cases[i][0], cases[i][1]);
}
