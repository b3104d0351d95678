/*
 * An element <pci> with others inside is a switch: NCCL leaves out the ports that lead down. Each
 * device below it gets one, with a made-up address, so that distances follow by the rules for real
 * paths (topo/pci.h). Host bridges are not in the file either: each <cpu> gets one.
 */
#include "nccl.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "xml.h"

#define LINKS_MAX (RD_GPU_MAX * RD_GPU_MAX)
#define LINK_COUNT_MAX 64
#define PORT_DOMAIN 0xfffeu /* of made-up ports */
#define PORTS_MAX 0x10000
#define DEPTH_MAX (RD_BRIDGE_MAX / 2 + 4) /* <system>, <cpu>, <pci>..., <gpu>, <nvlink> */

enum element { SYSTEM, CPU, PCI, GPU, NVLINK, C2C, PCILINK, NIC, NET, ELEMENTS };

/* An element around the one at hand. */
struct level {
	enum element element;
	struct rd_pci_path path; /* of <pci>, and of those inside; not known below <cpu> */
	int line;
	bool has_gpu, has_net; /* some inside */
	char class[12]; /* of <pci>, such as 0x030200; "": not known */
};

struct link {
	int line, gpu, count;
	uint32_t target;
};

struct reading {
	struct rd_host *host;
	struct level levels[DEPTH_MAX];
	int cpu_count, port_count, numa; /* numa: of the <cpu> at hand */
	char host_hash[32]; /* of the first <cpu>; "": it has none */
	uint32_t addresses[RD_GPU_MAX]; /* of the GPUs in the file's order; host->gpus by address */
	struct link links[LINKS_MAX];
	int link_count;
};

/* ---- CPUs ---- */

static int digit_of(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);

	return c && at ? (int)(at - digits) : -1;
}

/* A bitmap of the kernel: words of 32 bits in hexadecimal digits, the highest first. */
static bool read_bitmap(struct rd_cpus *cpus, const char *text)
{
	int cpu = 0;

	for (size_t i = strlen(text); i-- > 0;) {
		int digit = digit_of(text[i]);
		if (text[i] == ',' && cpu % 32 == 0 && cpu > 0)
			continue;
		if (digit < 0 || (digit && cpu >= RD_CPU_MAX))
			return false;
		for (int bit = 0; bit < 4; bit++, cpu++)
			if (digit >> bit & 1)
				rd_cpus_add(cpus, cpu);
	}
	return true;
}

/* Files of clouds may give the nodes of a guest the same CPUs: the first has them. */
static int check_cpus(const struct xml *xml, const struct rd_host *host, struct rd_numa *node)
{
	for (int i = 0; i < host->numa_count; i++) {
		if (host->numa[i].number == node->number)
			return xml_refuse(xml, "a second <cpu> of NUMA node %d", node->number);
		for (int k = rd_cpus_count(&host->numa[i].cpus); k-- > 0;)
			rd_cpus_remove(&node->cpus, rd_cpus_at(&host->numa[i].cpus, k));
	}
	return 0;
}

/* One that is at no node is -1. */
static int add_node(struct xml *xml, struct reading *reading)
{
	struct rd_host *host = reading->host;
	struct rd_numa node = { .number = reading->numa };
	const char *affinity = xml_attribute(xml, "affinity");

	if (affinity && !read_bitmap(&node.cpus, affinity))
		return xml_refuse(xml, "affinity: \"%.40s\" is no bitmap of CPUs", affinity);
	if (reading->numa < 0)
		return 0;
	if (host->numa_count == RD_NUMA_MAX)
		return xml_refuse(xml, "more than %d NUMA nodes", RD_NUMA_MAX);
	int err = check_cpus(xml, host, &node);
	if (!err)
		host->numa[host->numa_count++] = node;
	return err;
}

static int begin_cpu(struct xml *xml, struct reading *reading)
{
	const char *hash = xml_attribute(xml, "host_hash");
	int err = xml_int(xml, "numaid", -1, INT32_MAX, -2, &reading->numa);

	if (err)
		return err;
	if (reading->cpu_count == RD_NUMA_MAX)
		return xml_refuse(xml, "more than %d <cpu>", RD_NUMA_MAX);
	if (reading->cpu_count == 0)
		snprintf(reading->host_hash, sizeof(reading->host_hash), "%s", hash ? hash : "");
	else if (strncmp(reading->host_hash, hash ? hash : "", sizeof(reading->host_hash) - 1))
		return xml_refuse(xml, "host_hash: a <cpu> of another host: a file has one");
	reading->levels[xml->depth].path.root = (uint32_t)reading->cpu_count++ << 8;
	return add_node(xml, reading);
}

static int begin_system(struct xml *xml, struct reading *reading)
{
	int version;

	(void)reading;
	return xml_int(xml, "version", 1, 1, -1, &version);
}

/* ---- Devices ---- */

static bool is_class(const struct level *level, const char *prefix)
{
	return strncmp(level->class, prefix, strlen(prefix)) == 0;
}

static int begin_pci(struct xml *xml, struct reading *reading)
{
	const struct level *above = &reading->levels[xml->depth - 1];
	struct level *level = &reading->levels[xml->depth];
	struct rd_pci_path *path = &level->path;
	const char *text, *class = xml_attribute(xml, "class");
	int err = xml_text(xml, "busid", &text);

	if (err)
		return err;
	*path = above->path;
	if (above->element == PCI) {
		path->bridges[path->bridge_count++] = above->path.address;
		path->bridges[path->bridge_count++] =
			PORT_DOMAIN << 16 | (uint32_t)reading->port_count;
		if (++reading->port_count == PORTS_MAX)
			return xml_refuse(xml, "more than %d <pci>", PORTS_MAX);
	}
	path->known = rd_pci_read(&path->address, text);
	if (!path->known)
		return xml_refuse(xml, "busid: \"%.40s\" is no PCI address", text);
	snprintf(level->class, sizeof(level->class), "%s", class ? class : "");
	return 0;
}

static void place(
	struct rd_device *device, const struct reading *reading, const struct level *level)
{
	device->numa = reading->numa;
	device->path = level->path;
}

static int add_gpu(struct xml *xml, struct reading *reading, struct level *pci)
{
	struct rd_host *host = reading->host;
	struct rd_host_gpu *gpu;
	int at = host->gpu_count;

	if (at == RD_GPU_MAX)
		return xml_refuse(xml, "more than %d GPUs", RD_GPU_MAX);
	for (int i = 0; i < at; i++)
		if (reading->addresses[i] == pci->path.address)
			return xml_refuse(xml, "a second GPU of this busid");
	reading->addresses[at] = pci->path.address;
	gpu = &host->gpus[host->gpu_count++];
	place(&gpu->device, reading, pci);
	gpu->memory_numa = -1;
	pci->has_gpu = true;
	return 0;
}

static int begin_gpu(struct xml *xml, struct reading *reading)
{
	return add_gpu(xml, reading, &reading->levels[xml->depth - 1]);
}

/* NCCL names the class of the other end. A file that a user wrote may have an address alone. */
static int begin_nvlink(struct xml *xml, struct reading *reading)
{
	const char *target, *class = xml_attribute(xml, "tclass");
	int gpu = reading->host->gpu_count - 1;
	struct link link = { .line = xml->line, .gpu = gpu };
	int err = xml_int(xml, "count", 1, LINK_COUNT_MAX, -1, &link.count);

	if (err)
		return err;
	if (class && !strncmp(class, "0x068000", 8)) {
		reading->host->gpus[gpu].nvswitch_links += link.count;
		return 0;
	}
	if (class && strncmp(class, "0x03", 4) != 0)
		return xml_refuse(xml, "tclass: \"%.20s\" is neither a GPU nor an NVSwitch", class);
	err = xml_text(xml, "target", &target);
	if (err)
		return err;
	if (!rd_pci_read(&link.target, target))
		return xml_refuse(xml, "target: \"%.40s\" is no PCI address", target);
	if (reading->link_count == LINKS_MAX)
		return xml_refuse(xml, "more than %d <nvlink>", LINKS_MAX);
	reading->links[reading->link_count++] = link;
	return 0;
}

/* ---- Network cards ---- */

static int check_name(const struct xml *xml, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < length; i++)
		if (!rd_is_printable(name[i]))
			length = 0;
	if (length == 0 || length >= RD_NAME_SIZE)
		return xml_refuse(xml, "name: \"%.40s\" is none of 1 to %d printable characters",
			length ? name : "", RD_NAME_SIZE - 1);
	return 0;
}

/* A further port of a device comes under the same name. */
static int add_rdma(struct xml *xml, struct reading *reading, const struct level *level,
	const char *name, struct rd_port port)
{
	struct rd_host *host = reading->host;
	struct rd_rdma *rdma = NULL;

	for (int i = 0; i < host->rdma_count; i++)
		if (!strcmp(host->rdma[i].device.name, name))
			rdma = &host->rdma[i];
	if (!rdma && host->rdma_count == RD_RDMA_MAX)
		return xml_refuse(xml, "more than %d RDMA devices", RD_RDMA_MAX);
	if (!rdma) {
		rdma = &host->rdma[host->rdma_count++];
		place(&rdma->device, reading, level);
		strcpy(rdma->device.name, name);
	}
	for (int i = 0; i < rdma->port_count; i++)
		if (rdma->ports[i].number == port.number)
			return xml_refuse(xml, "a second port %d of %s", port.number, name);
	if (rdma->port_count == RD_PORT_MAX)
		return xml_refuse(xml, "more than %d ports of %s", RD_PORT_MAX, name);
	rdma->ports[rdma->port_count++] = port;
	return 0;
}

static int add_interface(struct xml *xml, struct reading *reading, const struct level *level,
	const char *name, int speed_mbps)
{
	struct rd_host *host = reading->host;
	struct rd_host_interface *interface = &host->interfaces[host->interface_count];

	if (host->interface_count == RD_INTERFACE_MAX)
		return xml_refuse(xml, "more than %d interfaces", RD_INTERFACE_MAX);
	host->interface_count++;
	*interface = (struct rd_host_interface){
		.speed_mbps = speed_mbps, .up = true, .hardware = true
	};
	place(&interface->device, reading, level);
	strcpy(interface->device.name, name);
	return 0;
}

static int begin_nic(struct xml *xml, struct reading *reading)
{
	reading->levels[xml->depth].path = reading->levels[xml->depth - 1].path;
	return 0;
}

/* NCCL counts the ports of RDMA devices from 1; an interface has port 0. */
static int begin_net(struct xml *xml, struct reading *reading)
{
	const struct level *nic = &reading->levels[xml->depth - 1];
	struct rd_port port = { .active = true };
	const char *name;
	int err = xml_text(xml, "name", &name);

	if (!err)
		err = check_name(xml, name);
	if (!err)
		err = xml_int(xml, "port", 0, INT32_MAX, 0, &port.number);
	if (!err)
		err = xml_int(xml, "speed", 0, INT32_MAX, 0, &port.speed_mbps);
	if (err)
		return err;
	reading->levels[xml->depth - 2].has_net = true;
	return port.number > 0 ? add_rdma(xml, reading, nic, name, port)
			       : add_interface(xml, reading, nic, name, port.speed_mbps);
}

/* ---- Elements ---- */

static int skip(struct xml *xml, struct reading *reading)
{
	(void)xml;
	(void)reading;
	return 0;
}

static const struct {
	const char *name;
	unsigned inside; /* a bit for each element that it may lie in; 0: the root */
	int (*begin)(struct xml *xml, struct reading *reading);
} elements[ELEMENTS] = {
	[SYSTEM] = { "system", 0, begin_system },
	[CPU] = { "cpu", 1u << SYSTEM, begin_cpu },
	[PCI] = { "pci", 1u << CPU | 1u << PCI, begin_pci },
	[GPU] = { "gpu", 1u << PCI, begin_gpu },
	[NVLINK] = { "nvlink", 1u << GPU, begin_nvlink },
	[C2C] = { "c2c", 1u << GPU, skip },
	[PCILINK] = { "pcilink", 1u << PCI, skip },
	[NIC] = { "nic", 1u << CPU | 1u << PCI, begin_nic },
	[NET] = { "net", 1u << NIC, begin_net },
};

static int begin_element(struct xml *xml, const char *name)
{
	struct reading *reading = xml->data;
	enum element element = 0;

	while (element < ELEMENTS && strcmp(elements[element].name, name) != 0)
		element++;
	if (element == ELEMENTS || (xml->depth == 0) != (element == SYSTEM) ||
		(xml->depth > 0 &&
			!(elements[element].inside >> reading->levels[xml->depth - 1].element & 1)))
		return xml_misplaced(xml, name);
	if (xml->depth >= (element == PCI ? DEPTH_MAX - 2 : DEPTH_MAX))
		return xml_refuse(xml, "more than %d <pci> in each other", DEPTH_MAX - 4);
	reading->levels[xml->depth] = (struct level){ .element = element, .line = xml->line };
	return elements[element].begin(xml, reading);
}

/* A file for NCCL_TOPO_FILE may have devices without what NCCL adds: their class says which. */
static int end_element(struct xml *xml, const char *name)
{
	struct reading *reading = xml->data;
	struct level *level = &reading->levels[xml->depth];
	struct rd_port port = { .number = 1, .active = true };
	char address[RD_PCI_TEXT_SIZE];

	(void)name;
	if (level->element != PCI)
		return 0;
	xml->line = level->line;
	if (is_class(level, "0x03") && !level->has_gpu)
		return add_gpu(xml, reading, level);
	if (!is_class(level, "0x02") || level->has_net)
		return 0;
	rd_pci_text(address, level->path.address);
	return add_rdma(xml, reading, level, address, port);
}

/* ---- The host ---- */

static int compare_gpus(const void *a, const void *b)
{
	uint32_t first = ((const struct rd_host_gpu *)a)->device.path.address;
	uint32_t second = ((const struct rd_host_gpu *)b)->device.path.address;

	return (first > second) - (first < second);
}

static int index_of(const struct rd_host *host, uint32_t address)
{
	for (int i = 0; i < host->gpu_count; i++)
		if (host->gpus[i].device.path.address == address)
			return i;
	return -1;
}

/* A job that sees some of the GPUs dumps the links to the others, too; those lead nowhere here. */
static int set_links(struct xml *xml, struct reading *reading)
{
	struct rd_host *host = reading->host;

	for (int i = 0; i < reading->link_count; i++) {
		const struct link *link = &reading->links[i];
		int from = index_of(host, reading->addresses[link->gpu]);
		int to = index_of(host, link->target);
		xml->line = link->line;
		if (from == to)
			return xml_refuse(xml, "target: the GPU itself");
		if (to >= 0)
			host->gpus[from].nvlinks[to] += link->count;
	}
	for (int i = 0; i < reading->link_count; i++) {
		const struct link *link = &reading->links[i];
		int from = index_of(host, reading->addresses[link->gpu]);
		int to = index_of(host, link->target);
		xml->line = link->line;
		if (to >= 0 && host->gpus[from].nvlinks[to] != host->gpus[to].nvlinks[from])
			return xml_refuse(xml, "%d NVLinks to this GPU, which has %d back",
				host->gpus[from].nvlinks[to], host->gpus[to].nvlinks[from]);
	}
	return 0;
}

/* A host has a NUMA node and a CPU, though the file may have none. */
static void need_cpu(struct rd_host *host)
{
	for (int i = 0; i < host->numa_count; i++)
		if (rd_cpus_count(&host->numa[i].cpus))
			return;
	host->numa_count += host->numa_count == 0;
	rd_cpus_add(&host->numa[0].cpus, 0);
}

static int read_host(struct rd_host *host, const char *file, const char *text, size_t size)
{
	static const struct xml_reader reader = { begin_element, end_element };
	struct reading *reading = calloc(1, sizeof(*reading));
	struct xml xml = { .name = file, .data = reading };

	if (!reading)
		return rd_fail(RONDO_MEMORY, "no memory to read %s", file);
	snprintf(host->name, sizeof(host->name), "host");
	reading->host = host;
	int err = xml_read(&xml, &reader, text, size);
	if (!err) {
		qsort(host->gpus, (size_t)host->gpu_count, sizeof(host->gpus[0]), compare_gpus);
		err = set_links(&xml, reading);
	}
	free(reading);
	if (err)
		return err;
	need_cpu(host);
	err = rd_host_settle(host);
	return err ? rd_fail(err, "%s: %s", file, rondo_last_error()) : 0;
}

int topo_nccl_parse(struct rd_topology *topology, const char *file, const char *text, size_t size)
{
	int err = rd_topology_init(topology, 1);

	if (!err) {
		err = read_host(&topology->hosts[0], file, text, size);
		if (err)
			rd_topology_finish(topology);
	}
	return err;
}
