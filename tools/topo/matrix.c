#include "matrix.h"

#include <string.h>

#define CELL 8

const struct rd_device *topo_matrix_device(const struct rd_host *host, int index)
{
	if (index < host->gpu_count)
		return &host->gpus[index].device;
	index -= host->gpu_count;
	return index < host->nic_count ? host->nics[index] : NULL;
}

void topo_matrix_label(char label[16], const struct rd_host *host, int index)
{
	bool gpu = index < host->gpu_count;

	snprintf(label, 16, "%s%d", gpu ? "GPU" : "NIC", gpu ? index : index - host->gpu_count);
}

enum rd_distance topo_matrix_distance(const struct rd_host *host, int a, int b, int *nvlinks)
{
	*nvlinks = 0;
	if (a < host->gpu_count && b < host->gpu_count)
		return rd_gpu_distance(host, a, b, nvlinks);
	return rd_device_distance(host, topo_matrix_device(host, a), topo_matrix_device(host, b));
}

/* ---- A host ---- */

static int package_count(const struct rd_host *host)
{
	int count = 0;

	for (int i = 0; i < host->numa_count; i++) /* they are in order */
		count += i == 0 || host->numa[i].package != host->numa[i - 1].package;
	return count;
}

static void count_of(FILE *out, int count, const char *noun)
{
	fprintf(out, "%d %s%s", count, noun, count == 1 ? "" : "s");
}

static void write_numa(const struct rd_numa *numa, FILE *out)
{
	char cpus[RD_CPUS_TEXT_SIZE];

	rd_cpus_text(&numa->cpus, cpus, sizeof(cpus));
	fprintf(out, "  NUMA node %d, package %d: ", numa->number, numa->package);
	count_of(out, rd_cpus_count(&numa->cores), "core");
	fprintf(out, ", CPUs %s", cpus[0] ? cpus : "none");
	if (numa->memory_mib)
		fprintf(out, ", %.1f GiB", (double)numa->memory_mib / 1024);
	fprintf(out, "\n");
}

static void write_host(const struct rd_host *host, FILE *out)
{
	fprintf(out, "Host %s: ", host->name);
	count_of(out, package_count(host), "package");
	fprintf(out, ", ");
	count_of(out, host->numa_count, "NUMA node");
	fprintf(out, ", ");
	count_of(out, host->gpu_count, "GPU");
	fprintf(out, ", ");
	count_of(out, host->nic_count, "NIC");
	fprintf(out, "\n");
	for (int i = 0; i < host->numa_count; i++)
		write_numa(&host->numa[i], out);
}

/* ---- The matrix ---- */

static void affinities(char cpus[RD_CPUS_TEXT_SIZE], char node[16], const struct rd_host *host,
	const struct rd_device *device)
{
	/* The only one of the host is that of each device. */
	const struct rd_numa *numa =
		host->numa_count == 1 ? &host->numa[0] : rd_host_numa(host, device->numa);

	snprintf(cpus, RD_CPUS_TEXT_SIZE, "N/A");
	snprintf(node, 16, "N/A");
	if (numa)
		snprintf(node, 16, "%d", numa->number);
	if (numa && rd_cpus_count(&numa->cpus))
		rd_cpus_text(&numa->cpus, cpus, RD_CPUS_TEXT_SIZE);
}

static int widest_affinity(const struct rd_host *host)
{
	char cpus[RD_CPUS_TEXT_SIZE], node[16];
	const struct rd_device *device;
	int widest = (int)strlen("CPU Affinity");

	for (int i = 0; (device = topo_matrix_device(host, i)); i++) {
		affinities(cpus, node, host, device);
		if ((int)strlen(cpus) > widest)
			widest = (int)strlen(cpus);
	}
	return widest;
}

static const char *memory_node(char text[16], const struct rd_host_gpu *gpu)
{
	snprintf(text, 16, gpu->memory_numa < 0 ? "N/A" : "%d", gpu->memory_numa);
	return text;
}

static void write_row(const struct rd_host *host, int row, int width, FILE *out)
{
	char label[16], text[16], cpus[RD_CPUS_TEXT_SIZE], node[16], memory[16];
	int nvlinks;

	topo_matrix_label(label, host, row);
	fprintf(out, "%-*s", CELL, label);
	for (int column = 0; topo_matrix_device(host, column); column++) {
		enum rd_distance distance = topo_matrix_distance(host, row, column, &nvlinks);
		fprintf(out, "%-*s", CELL,
			distance == RD_SAME ? " X" : rd_distance_text(text, distance, nvlinks));
	}
	affinities(cpus, node, host, topo_matrix_device(host, row));
	if (row < host->gpu_count)
		fprintf(out, "%-*s  %-15s%s\n", width, cpus, node,
			memory_node(memory, &host->gpus[row]));
	else
		fprintf(out, "%-*s  %s\n", width, cpus, node);
}

static void write_matrix(const struct rd_host *host, FILE *out)
{
	char label[16];
	int width = widest_affinity(host);

	fprintf(out, "\n%-*s", CELL, "");
	for (int i = 0; topo_matrix_device(host, i); i++) {
		topo_matrix_label(label, host, i);
		fprintf(out, "%-*s", CELL, label);
	}
	fprintf(out, "%-*s  %s%s\n", width, "CPU Affinity", "NUMA Affinity",
		host->gpu_count ? "  GPU NUMA ID" : "");
	for (int i = 0; topo_matrix_device(host, i); i++)
		write_row(host, i, width, out);
}

/* ---- Legend ---- */

static void write_gpu(const struct rd_host *host, int index, FILE *out)
{
	const struct rd_host_gpu *gpu = &host->gpus[index];
	char address[RD_PCI_TEXT_SIZE] = "-";

	if (gpu->device.path.known)
		rd_pci_text(address, gpu->device.path.address);
	fprintf(out, "  GPU%d: %s  %s", index, address, gpu->model[0] ? gpu->model : "GPU");
	if (gpu->memory_mib)
		fprintf(out, ", %.1f GiB", (double)gpu->memory_mib / 1024);
	fprintf(out, "\n");
}

/* The network interface on the same card as the device. */
static const struct rd_host_interface *face_of(
	const struct rd_host *host, const struct rd_device *nic)
{
	for (int i = 0; i < host->interface_count; i++) {
		const struct rd_device *device = &host->interfaces[i].device;
		if (device == nic || (device->path.known && nic->path.known &&
					     device->path.address == nic->path.address))
			return &host->interfaces[i];
	}
	return NULL;
}

static void write_nic(const struct rd_host *host, int index, FILE *out)
{
	const struct rd_device *nic = host->nics[index];
	const struct rd_host_interface *face = face_of(host, nic);
	int speed = rd_nic_speed_mbps(host, nic);

	fprintf(out, "  NIC%d: %s  %s", index, nic->name, rd_nic_up(host, nic) ? "up" : "down");
	if (speed)
		fprintf(out, ", %g Gbit/s", speed / 1000.0);
	if (face && &face->device != nic)
		fprintf(out, ", interface %s", face->device.name);
	if (face && face->mtu)
		fprintf(out, ", MTU %d", face->mtu);
	for (int i = 0; face && i < face->address_count; i++)
		fprintf(out, ", %s", face->addresses[i]);
	fprintf(out, "\n");
}

static void write_devices(const struct rd_host *host, FILE *out)
{
	fprintf(out, "\n");
	for (int i = 0; i < host->gpu_count; i++)
		write_gpu(host, i, out);
	for (int i = 0; i < host->nic_count; i++)
		write_nic(host, i, out);
}

static void write_legend(FILE *out)
{
	fprintf(out, "Legend:\n\n");
#define LEGEND_LINE(name, text, meaning) fprintf(out, "  %-4s = %s\n", text, meaning);
	RD_DISTANCES(LEGEND_LINE)
#undef LEGEND_LINE
}

void topo_matrix_write(const struct rd_topology *topology, FILE *out)
{
	bool any = false;

	for (int i = 0; i < topology->host_count; i++) {
		const struct rd_host *host = &topology->hosts[i];
		write_host(host, out);
		if (topo_matrix_device(host, 0)) {
			write_matrix(host, out);
			write_devices(host, out);
			any = true;
		}
		fprintf(out, "\n");
	}
	if (any)
		write_legend(out);
}

/* ---- Ranks ---- */

static void write_place(int rank, const struct rd_place *place, FILE *out)
{
	char gpu[16] = "-", address[RD_PCI_TEXT_SIZE] = "";

	if (place->gpu >= 0) {
		snprintf(gpu, sizeof(gpu), "GPU%d", place->gpu);
		rd_pci_text(address, place->gpu_pci);
	}
	fprintf(out, "  %4d  %-12s  %4d  %4d  %4d  %-5s %-12s  %s\n", rank, place->host_name,
		place->slot, place->core, place->numa_node, gpu, address,
		place->nic[0] ? place->nic : "-");
}

static void write_ring(
	const struct topo_paths *paths, const struct rd_topology *topology, FILE *out)
{
	char text[16];
	int nvlinks, rank = 0;

	fprintf(out, "\nRing: 0");
	for (int i = 0; i < paths->size; i++) {
		int next = paths->ring[rank];
		enum rd_distance distance =
			topo_paths_distance(paths, topology, rank, next, &nvlinks);
		fprintf(out, " -%s- %d", rd_distance_text(text, distance, nvlinks), next);
		rank = next;
	}
	fprintf(out, "\n");
}

/* Prints a rank, and in brackets those below it. Bounded: no path is longer than the number of
   ranks.
 */
static void write_subtree(const struct topo_paths *paths, int tree, int rank, int depth, FILE *out)
{
	bool any = false;

	fprintf(out, "%d", rank);
	for (int below = 0; below < paths->size && depth < paths->size; below++) {
		if (paths->parents[tree][below] != rank)
			continue;
		fputs(any ? " " : " (", out);
		write_subtree(paths, tree, below, depth + 1, out);
		any = true;
	}
	fputs(any ? ")" : "", out);
}

void topo_ranks_write(const struct topo_paths *paths, const struct rd_topology *topology, FILE *out)
{
	fprintf(out, "\n  Rank  Host          Slot  Core  NUMA  GPU                 NIC\n");
	for (int rank = 0; rank < paths->size; rank++)
		write_place(rank, &paths->places[rank], out);
	write_ring(paths, topology, out);
	for (int tree = 0; tree < TOPO_TREES && paths->size > 1; tree++) {
		fprintf(out, "Tree %d: ", tree);
		for (int rank = 0; rank < paths->size; rank++)
			if (paths->parents[tree][rank] < 0)
				write_subtree(paths, tree, rank, 0, out);
		fprintf(out, "\n");
	}
}
