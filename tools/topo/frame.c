#include "frame.h"

#include <stdlib.h>
#include <string.h>

#include "matrix.h"

#define DEVICE_WIDTH 66
#define DEVICE_GAP 10
#define RANK_WIDTH 24
#define SECTION_PAD 14
#define SECTION_GAP 22
#define SECTION_LEAST 190 /* for its title */
#define CORES_MOST 420 /* for the cores of a host whose ranks are on GPUs */

/* ---- Which devices are where ---- */

static const struct rd_device *device_of(const struct frame *frame, int i)
{
	return topo_matrix_device(frame->host, frame->devices[i].index);
}

static bool belongs(
	const struct rd_host *host, const struct rd_device *device, const struct rd_numa *numa)
{
	bool known = rd_host_numa(host, device->numa);

	if (!known && host->numa_count == 1)
		return numa;
	return numa ? numa->number == device->numa : !known;
}

/* The order of a walk through the tree; devices without a path come last. */
static int compare_paths(const struct rd_pci_path *a, const struct rd_pci_path *b)
{
	if (a->known != b->known)
		return a->known ? -1 : 1;
	if (a->root != b->root)
		return a->root < b->root ? -1 : 1;
	for (int i = 0;; i++) {
		uint32_t first = i < a->bridge_count ? a->bridges[i] : a->address;
		uint32_t second = i < b->bridge_count ? b->bridges[i] : b->address;
		if (first != second)
			return first < second ? -1 : 1;
		if (i >= a->bridge_count || i >= b->bridge_count)
			return 0;
	}
}

static void sort_devices(struct frame *frame, int first, int count)
{
	for (int i = first + 1; i < first + count; i++) {
		struct frame_device moved = frame->devices[i];
		int to = i;
		for (; to > first &&
			compare_paths(&device_of(frame, to - 1)->path,
				&topo_matrix_device(frame->host, moved.index)->path) > 0;
			to--)
			frame->devices[to] = frame->devices[to - 1];
		frame->devices[to] = moved;
	}
}

/* ---- The tree ---- */

static const struct rd_pci_path *path_of(const struct frame *frame, int i)
{
	return &device_of(frame, i)->path;
}

/* The number of bridges that all of these have in common. */
static int common_bridges(const struct frame *frame, int first, int end)
{
	int common = path_of(frame, first)->bridge_count;

	for (int i = first + 1; i < end; i++) {
		int count = 0;
		while (count < common && count < path_of(frame, i)->bridge_count &&
			path_of(frame, first)->bridges[count] == path_of(frame, i)->bridges[count])
			count++;
		common = count;
	}
	return common;
}

static int add_joint(struct frame *frame, bool host_bridge, uint32_t address, int above)
{
	int level = above < 0 ? 0 : frame->joints[above].level + 1;

	frame->joints[frame->joint_count] = (struct frame_joint){
		.host_bridge = host_bridge, .address = address, .above = above, .level = level
	};
	if (level + 1 > frame->levels)
		frame->levels = level + 1;
	return frame->joint_count++;
}

/* Functions of one card need no joint. */
static bool one_card(const struct frame *frame, int first, int end)
{
	for (int i = first + 1; i < end; i++)
		if (path_of(frame, first)->address >> 3 != path_of(frame, i)->address >> 3)
			return false;
	return true;
}

/* Places these devices below a joint; their first `depth` bridges are drawn already. */
static void hang(struct frame *frame, int first, int end, int depth, int above)
{
	if (one_card(frame, first, end)) {
		for (int i = first; i < end; i++)
			frame->devices[i].above = above;
		return;
	}
	int common = common_bridges(frame, first, end);
	if (common > depth)
		above = add_joint(frame, false, path_of(frame, first)->bridges[common - 1], above);
	for (int from = first, to; from < end; from = to) {
		to = from + 1;
		while (to < end && common_bridges(frame, from, to + 1) > common)
			to++;
		hang(frame, from, to, common, above);
	}
}

static void hang_section(struct frame *frame, int first, int end)
{
	for (int from = first, to; from < end; from = to) {
		to = from + 1;
		frame->devices[from].above = -1;
		if (!path_of(frame, from)->known)
			continue;
		while (to < end && rd_pci_same_root(path_of(frame, from), path_of(frame, to)))
			to++;
		hang(frame, from, to, 0, add_joint(frame, true, path_of(frame, from)->root, -1));
	}
}

/* A joint is above the middle of its children, which come later in the array. */
static void place_joints(struct frame *frame, int first_joint)
{
	for (int j = frame->joint_count - 1; j >= first_joint; j--) {
		double least = 1e9, most = -1e9;
		for (int i = 0; i < frame->device_count; i++) {
			double x = frame->devices[i].x;
			if (frame->devices[i].above == j) {
				least = x < least ? x : least;
				most = x > most ? x : most;
			}
		}
		for (int i = j + 1; i < frame->joint_count; i++) {
			double x = frame->joints[i].x;
			if (frame->joints[i].above == j) {
				least = x < least ? x : least;
				most = x > most ? x : most;
			}
		}
		frame->joints[j].x = (least + most) / 2;
	}
}

/* ---- Widths ---- */

static int ranks_at(const struct topo_paths *paths, int host, int gpu, int core)
{
	int count = 0;

	for (int rank = 0; paths && rank < paths->size; rank++)
		count += paths->host[rank] == host && paths->places[rank].gpu == gpu &&
			 (gpu >= 0 || paths->places[rank].core == core);
	return count;
}

static double device_width(
	const struct frame *frame, const struct topo_paths *paths, int host, int index)
{
	int ranks = index < frame->host->gpu_count ? ranks_at(paths, host, index, -1) : 0;

	return ranks * RANK_WIDTH > DEVICE_WIDTH ? ranks * RANK_WIDTH : DEVICE_WIDTH;
}

/* Cores with ranks need columns for these; others are as wide as they must be to be seen. */
static double core_width(const struct frame *frame, const struct topo_paths *paths, int host,
	const struct rd_numa *numa)
{
	int count = rd_cpus_count(&numa->cores), ranks = 0;
	double width = count ? (double)CORES_MOST / count : 0;

	width = width > 12 ? 12 : width;
	for (int i = 0; i < count && !frame->host->gpu_count; i++) {
		int here = ranks_at(paths, host, -1, rd_cpus_at(&numa->cores, i));
		ranks = here > ranks ? here : ranks;
	}
	return ranks * RANK_WIDTH > width ? ranks * RANK_WIDTH : width;
}

static void spread_devices(struct frame *frame, struct frame_section *section)
{
	double sum = -DEVICE_GAP, x;

	for (int i = 0; i < section->device_count; i++)
		sum += frame->devices[section->first_device + i].width + DEVICE_GAP;
	if (sum + 2 * SECTION_PAD > section->width)
		section->width = sum + 2 * SECTION_PAD;
	x = section->x + (section->width - sum) / 2;
	for (int i = 0; i < section->device_count; i++) {
		struct frame_device *device = &frame->devices[section->first_device + i];
		device->x = x + device->width / 2;
		x += device->width + DEVICE_GAP;
	}
}

static void lay_section(struct frame *frame, const struct topo_paths *paths, int host,
	const struct rd_numa *numa, double x)
{
	struct frame_section *section = &frame->sections[frame->section_count++];
	int joint = frame->joint_count;

	*section = (struct frame_section){
		.numa = numa, .x = x, .width = SECTION_LEAST, .first_device = frame->device_count
	};
	for (int i = 0; topo_matrix_device(frame->host, i); i++)
		if (belongs(frame->host, topo_matrix_device(frame->host, i), numa))
			frame->devices[frame->device_count++] = (struct frame_device){ .index = i,
				.width = device_width(frame, paths, host, i) };
	section->device_count = frame->device_count - section->first_device;
	double cores = 0;
	if (numa) {
		section->core_width = core_width(frame, paths, host, numa);
		cores = section->core_width * rd_cpus_count(&numa->cores);
	}
	if (cores + 2 * SECTION_PAD > section->width)
		section->width = cores + 2 * SECTION_PAD;
	sort_devices(frame, section->first_device, section->device_count);
	hang_section(frame, section->first_device, frame->device_count);
	spread_devices(frame, section);
	section->core_x = x + (section->width - cores) / 2;
	place_joints(frame, joint);
}

void frame_init(struct frame *frame, const struct rd_topology *topology, int index,
	const struct topo_paths *paths, double x)
{
	const struct rd_host *host = &topology->hosts[index];
	double at = x + SECTION_PAD;
	bool strays = false;

	memset(frame, 0, sizeof(*frame));
	frame->host = host;
	frame->x = x;
	for (int i = 0; topo_matrix_device(host, i); i++)
		strays = strays || belongs(host, topo_matrix_device(host, i), NULL);
	for (int i = 0; i < host->numa_count + strays; i++) {
		lay_section(frame, paths, index, i < host->numa_count ? &host->numa[i] : NULL, at);
		at += frame->sections[i].width + SECTION_GAP;
	}
	frame->width = at - SECTION_GAP + SECTION_PAD - x;
}

/* ---- Columns of ranks ---- */

static double core_middle(const struct frame *frame, int core, double *room)
{
	for (int i = 0; i < frame->section_count; i++) {
		const struct frame_section *section = &frame->sections[i];
		if (!section->numa || !rd_cpus_has(&section->numa->cores, core))
			continue;
		*room = section->core_width;
		return section->core_x +
		       section->core_width * (rd_cpus_before(&section->numa->cores, core) + 0.5);
	}
	*room = RANK_WIDTH;
	return frame->x + frame->width / 2;
}

static double gpu_middle(const struct frame *frame, int gpu, double *room)
{
	for (int i = 0; i < frame->device_count; i++) {
		if (frame->devices[i].index != gpu)
			continue;
		*room = frame->devices[i].width;
		return frame->devices[i].x;
	}
	return frame->x;
}

double frame_column(
	const struct frame *frame, const struct topo_paths *paths, int rank, double *room)
{
	const struct rd_place *place = &paths->places[rank];
	int host = paths->host[rank], before = 0;
	int together = ranks_at(paths, host, place->gpu, place->core);
	double middle = place->gpu >= 0 ? gpu_middle(frame, place->gpu, room)
					: core_middle(frame, place->core, room);

	for (int other = 0; other < rank; other++)
		before += paths->host[other] == host && paths->places[other].gpu == place->gpu &&
			  (place->gpu >= 0 || paths->places[other].core == place->core);
	*room /= together;
	return middle + (before - (together - 1) / 2.0) * *room;
}
