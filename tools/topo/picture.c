#include "picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "frame.h"
#include "matrix.h"
#include "svg.h"

/* The rows of the picture, in pixels. */
#define MARGIN 24
#define BAND_LEFT 70 /* for the names of bands, left of all hosts */
#define HOST_GAP 30
#define HOST_TITLE 34
#define SECTION_TITLE 46
#define CORE_HEIGHT 14
#define LEVEL_HEIGHT 44
#define JOINT_HEIGHT 20
#define DEVICE_HEIGHT 44
#define LINKS_HEIGHT 62 /* for NVLinks */
#define NETWORK_HEIGHT 46
#define RANKS_HEIGHT 50
#define RING_HEIGHT 104
#define TREE_LEVEL 36
#define LEGEND_HEIGHT 44
/* With more, the labels of their links would overlap. */
#define LABELLED_GPUS 4

static const char style[] =
	"text { font-family: 'DejaVu Sans', Verdana, Helvetica, sans-serif; fill: #222222; }\n"
	".title { font-size: 15px; font-weight: bold; } .strong { font-size: 12px; font-weight: "
	"bold; }\n"
	".plain { font-size: 11px; } .small { font-size: 9px; fill: #555555; }\n"
	".band { font-size: 12px; font-weight: bold; fill: #444444; }\n"
	".rank { font-size: 10px; font-weight: bold; fill: #ffffff; }\n"
	".host { fill: #f7f7f5; stroke: #8a8a84; stroke-width: 1.5; }\n"
	".numa { fill: #ffffff; stroke: #bdbdb6; }\n"
	".core { fill: #d6dbe0; stroke: #ffffff; stroke-width: 1; }\n"
	".bridge { fill: #ece8f5; stroke: #7a68a6; } .switch { fill: #fff2d2; stroke: #c3962b; }\n"
	".gpu { fill: #e4f3d3; stroke: #6a9a2d; stroke-width: 1.5; }\n"
	".nic { fill: #dcebf9; stroke: #2f74b5; stroke-width: 1.5; }\n"
	".off { fill: #f0f0f0; stroke: #999999; stroke-dasharray: 4 3; }\n"
	".wire { fill: none; stroke: #8d8d86; stroke-width: 1.2; }\n"
	".column { stroke: #dcdcd6; stroke-width: 1; } .dot { fill: #3d4650; }\n"
	".nvswitch { fill: #5a9e1f; stroke: none; } .network { fill: #c9211e; stroke: none; }\n"
	".light { font-size: 11px; font-weight: bold; fill: #ffffff; }\n"
	".d0, .d1, .d2, .d3, .d4, .d5, .d6, .d7 { fill: none; stroke-width: 2.2; stroke: #9a9a9a; "
	"}\n"
	".d1 { stroke: #5a9e1f; } .d2 { stroke: #1f77b4; } .d3 { stroke: #14a5b5; }\n"
	".d4 { stroke: #8e5bbf; } .d5 { stroke: #d9a400; } .d6 { stroke: #e8750a; }\n"
	".d7 { stroke: #c9211e; } .thin { stroke-width: 1; }\n";

struct picture {
	FILE *out;
	const struct rd_topology *topology;
	const struct topo_paths *paths;
	struct frame *frames; /* by host */
	double *columns; /* by rank: x */
	double radius; /* of the mark of a rank */
	int levels; /* of joints, on the host with most */
	bool links; /* some host has NVLinks */
	double width, height;
	double device_y, host_bottom, ranks_y, ring_y, tree_y[TOPO_TREES], legend_y;
};

/* "d3": the colour of a distance. */
static const char *colour(char class[4], enum rd_distance distance)
{
	snprintf(class, 4, "d%d", (int)distance % 8);
	return class;
}

_Static_assert(RD_DISTANCE_COUNT == 8, "a colour each");

/* ---- A host ---- */

static double joint_y(double host_y, const struct frame_joint *joint)
{
	return host_y + HOST_TITLE + SECTION_TITLE + CORE_HEIGHT + 16 + joint->level * LEVEL_HEIGHT;
}

static const struct frame_section *section_of_device(const struct frame *frame, int device)
{
	for (int i = 0; i < frame->section_count; i++)
		if (device < frame->sections[i].first_device + frame->sections[i].device_count)
			return &frame->sections[i];
	return &frame->sections[0];
}

static void draw_section(const struct picture *picture, const struct frame_section *section)
{
	double top = MARGIN + HOST_TITLE, middle = section->x + section->width / 2;
	FILE *out = picture->out;

	svg_box(out, section->x, top, section->width, picture->device_y + DEVICE_HEIGHT + 12 - top,
		5, "numa");
	if (!section->numa) {
		svg_text(out, middle, top + 18, "middle", "strong", "NUMA node not known");
		return;
	}
	int cores = rd_cpus_count(&section->numa->cores);
	svg_text(out, middle, top + 18, "middle", "strong", "NUMA node %d", section->numa->number);
	char memory[32] = "";
	if (section->numa->memory_mib)
		snprintf(memory, sizeof(memory), ", %.0f GiB",
			(double)section->numa->memory_mib / 1024);
	svg_text(out, middle, top + 33, "middle", "small", "package %d, %d core%s%s",
		section->numa->package, cores, cores == 1 ? "" : "s", memory);
	for (int i = 0; i < cores; i++)
		svg_box(out, section->core_x + i * section->core_width, top + SECTION_TITLE - 6,
			section->core_width, CORE_HEIGHT, 2, "core");
}

/* A line from its parent down, with a bend half-way. */
static void draw_wire(const struct picture *picture, double x1, double y1, double x2, double y2)
{
	double bend = (y1 + y2) / 2;

	fprintf(picture->out, "<path d=\"M %.1f %.1f V %.1f H %.1f V %.1f\" class=\"wire\"/>\n", x1,
		y1, bend, x2, y2);
}

/* A section's tree starts at one line below its cores. */
static double trunk_y(void)
{
	return MARGIN + HOST_TITLE + SECTION_TITLE + CORE_HEIGHT + 1;
}

static void widen(double *least, double *most, double x)
{
	*least = fmin(*least, x);
	*most = fmax(*most, x);
}

static void draw_trunk(const struct picture *picture, const struct frame *frame,
	const struct frame_section *section)
{
	double middle = section->x + section->width / 2, least = middle, most = middle;
	int end = section->first_device + section->device_count;

	if (!section->numa || !section->device_count)
		return;
	for (int i = section->first_device; i < end; i++) {
		int joint = frame->devices[i].above;
		while (joint >= 0 && frame->joints[joint].above >= 0)
			joint = frame->joints[joint].above;
		widen(&least, &most, joint >= 0 ? frame->joints[joint].x : frame->devices[i].x);
	}
	svg_line(picture->out, least, trunk_y(), most, trunk_y(), "wire");
	svg_line(picture->out, middle, trunk_y() - 7, middle, trunk_y(), "wire");
}

static void draw_wires(const struct picture *picture, const struct frame *frame)
{
	double cpu = trunk_y();

	for (int i = 0; i < frame->section_count; i++)
		draw_trunk(picture, frame, &frame->sections[i]);
	for (int i = 0; i < frame->joint_count; i++) {
		const struct frame_joint *joint = &frame->joints[i];
		const struct frame_joint *above =
			&frame->joints[joint->above < 0 ? 0 : joint->above];
		if (joint->above < 0)
			svg_line(picture->out, joint->x, cpu, joint->x, joint_y(MARGIN, joint),
				"wire");
		else
			draw_wire(picture, above->x, joint_y(MARGIN, above) + JOINT_HEIGHT,
				joint->x, joint_y(MARGIN, joint));
	}
	for (int i = 0; i < frame->device_count; i++) {
		const struct frame_device *device = &frame->devices[i];
		const struct frame_joint *above =
			&frame->joints[device->above < 0 ? 0 : device->above];
		if (device->above >= 0)
			draw_wire(picture, above->x, joint_y(MARGIN, above) + JOINT_HEIGHT,
				device->x, picture->device_y);
		else if (section_of_device(frame, i)->numa)
			svg_line(
				picture->out, device->x, cpu, device->x, picture->device_y, "wire");
	}
}

static void draw_joint(const struct picture *picture, const struct frame_joint *joint)
{
	double y = joint_y(MARGIN, joint), width = joint->host_bridge ? 58 : 78;
	uint32_t bus = joint->address >> 8;
	FILE *out = picture->out;

	svg_box(out, joint->x - width / 2, y, width, JOINT_HEIGHT, joint->host_bridge ? 9 : 3,
		joint->host_bridge ? "bridge" : "switch");
	if (joint->host_bridge)
		svg_text(out, joint->x, y + 14, "middle", "small", "%04x:%02x", bus >> 8,
			bus & 0xff);
	else
		svg_text(out, joint->x, y + 14, "middle", "small", "PCIe switch");
}

static void draw_device(
	const struct picture *picture, const struct frame *frame, const struct frame_device *at)
{
	const struct rd_device *device = topo_matrix_device(frame->host, at->index);
	bool gpu = at->index < frame->host->gpu_count;
	bool off = !gpu && !rd_nic_up(frame->host, device);
	double y = picture->device_y;
	char label[16], address[RD_PCI_TEXT_SIZE] = "";
	FILE *out = picture->out;

	topo_matrix_label(label, frame->host, at->index);
	svg_box(out, at->x - at->width / 2, y, at->width, DEVICE_HEIGHT, 5,
		off   ? "off"
		: gpu ? "gpu"
		      : "nic");
	svg_text(out, at->x, y + 16, "middle", "strong", "%s", label);
	if (device->path.known)
		rd_pci_text(address, device->path.address);
	int speed = gpu ? 0 : rd_nic_speed_mbps(frame->host, device);
	svg_text(out, at->x, y + 28, "middle", "small", "%.12s",
		gpu ? address + (strncmp(address, "0000:", 5) ? 0 : 5) : device->name);
	if (off)
		svg_text(out, at->x, y + 39, "middle", "small", "down");
	else if (speed)
		svg_text(out, at->x, y + 39, "middle", "small", "%g Gbit/s", speed / 1000.0);
	else if (gpu && frame->host->gpus[at->index].memory_mib)
		svg_text(out, at->x, y + 39, "middle", "small", "%.0f GiB",
			(double)frame->host->gpus[at->index].memory_mib / 1024);
}

/* ---- NVLinks ---- */

static double gpu_x(const struct frame *frame, int gpu)
{
	for (int i = 0; i < frame->device_count; i++)
		if (frame->devices[i].index == gpu)
			return frame->devices[i].x;
	return frame->x;
}

/* Depth grows with distance; a single link is a thin line. */
static void draw_direct_links(const struct picture *picture, const struct frame *frame)
{
	double y = picture->device_y + DEVICE_HEIGHT;

	for (int a = 0; a < frame->host->gpu_count; a++) {
		for (int b = a + 1; b < frame->host->gpu_count; b++) {
			int links = frame->host->gpus[a].nvlinks[b];
			double from = gpu_x(frame, a), to = gpu_x(frame, b);
			double share = sqrt(fabs(to - from) / frame->width);
			double depth = 12 + (LINKS_HEIGHT - 22) * share;
			if (!links)
				continue;
			svg_arc(picture->out, from, to, y, depth, links > 1 ? "d1" : "d1 thin");
			if (frame->host->gpu_count <= LABELLED_GPUS)
				svg_text(picture->out, (from + to) / 2, y + depth - 3, "middle",
					"small", "NV%d", links);
		}
	}
}

static void draw_nvswitch(const struct picture *picture, const struct frame *frame)
{
	double y = picture->device_y + DEVICE_HEIGHT, least = 1e9, most = -1e9;
	double bar = y + LINKS_HEIGHT - 26;

	for (int gpu = 0; gpu < frame->host->gpu_count; gpu++) {
		double x = gpu_x(frame, gpu);
		if (!frame->host->gpus[gpu].nvswitch_links)
			continue;
		svg_line(picture->out, x, y, x, bar, "d1");
		svg_text(picture->out, x + 4, bar - 5, "start", "small", "%d",
			frame->host->gpus[gpu].nvswitch_links);
		least = fmin(least, x - 20);
		most = fmax(most, x + 20);
	}
	if (least > most)
		return;
	svg_box(picture->out, least, bar, most - least, 20, 4, "nvswitch");
	svg_text(picture->out, (least + most) / 2, bar + 14, "middle", "light", "NVSwitch");
}

static void draw_host(const struct picture *picture, const struct frame *frame)
{
	svg_box(picture->out, frame->x, MARGIN, frame->width, picture->host_bottom - MARGIN, 8,
		"host");
	svg_text(picture->out, frame->x + 14, MARGIN + 22, "start", "title", "%s",
		frame->host->name);
	if (frame->host->gpu_count && frame->host->gpus[0].model[0])
		svg_text(picture->out, frame->x + frame->width - 14, MARGIN + 22, "end", "plain",
			"%d x %s", frame->host->gpu_count, frame->host->gpus[0].model);
	for (int i = 0; i < frame->section_count; i++)
		draw_section(picture, &frame->sections[i]);
	for (int i = 0; i + 1 < frame->section_count && frame->sections[i + 1].numa; i++)
		svg_line(picture->out, frame->sections[i].x + frame->sections[i].width,
			MARGIN + HOST_TITLE + 18, frame->sections[i + 1].x,
			MARGIN + HOST_TITLE + 18, "d6");
	draw_wires(picture, frame);
	for (int i = 0; i < frame->joint_count; i++)
		draw_joint(picture, &frame->joints[i]);
	for (int i = 0; i < frame->device_count; i++)
		draw_device(picture, frame, &frame->devices[i]);
	draw_nvswitch(picture, frame);
	draw_direct_links(picture, frame);
}

/* ---- The network between hosts ---- */

static void draw_network(const struct picture *picture)
{
	double bar = picture->host_bottom + 14;
	double right = picture->width - MARGIN;

	if (picture->topology->host_count < 2)
		return;
	for (int h = 0; h < picture->topology->host_count; h++) {
		const struct frame *frame = &picture->frames[h];
		for (int i = 0; i < frame->device_count; i++) {
			const struct frame_device *at = &frame->devices[i];
			const struct rd_device *device = topo_matrix_device(frame->host, at->index);
			if (at->index >= frame->host->gpu_count && rd_nic_up(frame->host, device))
				svg_line(picture->out, at->x, picture->device_y + DEVICE_HEIGHT,
					at->x, bar, "d7");
		}
	}
	svg_box(picture->out, BAND_LEFT, bar, right - BAND_LEFT, 20, 4, "network");
	svg_text(picture->out, (BAND_LEFT + right) / 2, bar + 14, "middle", "light", "network");
}

/* ---- Ranks ---- */

static void draw_rank(const struct picture *picture, int rank, double y)
{
	svg_circle(picture->out, picture->columns[rank], y, picture->radius, "dot");
	if (picture->radius >= 7)
		svg_text(picture->out, picture->columns[rank], y + 3.5, "middle", "rank", "%d",
			rank);
}

/* A line from the rank's GPU, or core, through all bands. Drawn first: hosts cover it. */
static void draw_columns(const struct picture *picture)
{
	for (int rank = 0; rank < picture->paths->size; rank++)
		svg_line(picture->out, picture->columns[rank], picture->device_y,
			picture->columns[rank], picture->legend_y - 26, "column");
}

/* Marks a core that has a rank; GPUs stand above their columns anyway. */
static void mark_cores(const struct picture *picture)
{
	double y = MARGIN + HOST_TITLE + SECTION_TITLE - 6 + CORE_HEIGHT / 2.0;

	for (int rank = 0; rank < picture->paths->size; rank++)
		if (picture->paths->places[rank].gpu < 0)
			svg_circle(picture->out, picture->columns[rank], y,
				fmin(picture->radius, 3.5), "dot");
}

static const char *edge_colour(char class[4], const struct picture *picture, int a, int b)
{
	int nvlinks;

	return colour(
		class, topo_paths_distance(picture->paths, picture->topology, a, b, &nvlinks));
}

static void draw_ring(const struct picture *picture)
{
	const struct topo_paths *paths = picture->paths;
	double widest = 1;
	char class[4];

	svg_text(picture->out, BAND_LEFT - 12, picture->ring_y + 4, "end", "band", "Ring");
	for (int rank = 0; rank < paths->size; rank++)
		widest = fmax(
			widest, fabs(picture->columns[rank] - picture->columns[paths->ring[rank]]));
	for (int rank = 0; rank < paths->size; rank++) {
		double from = picture->columns[rank], to = picture->columns[paths->ring[rank]];
		double depth = 14 + (RING_HEIGHT - 50) * sqrt(fabs(to - from) / widest);
		if (paths->ring[rank] != rank)
			svg_arc(picture->out, from, to, picture->ring_y, depth,
				edge_colour(class, picture, rank, paths->ring[rank]));
	}
	for (int rank = 0; rank < paths->size; rank++)
		draw_rank(picture, rank, picture->ring_y);
}

/* The number of ranks above this one. */
static int depth_of(const struct topo_paths *paths, int tree, int rank)
{
	int depth = 0;

	while (paths->parents[tree][rank] >= 0 && depth < paths->size) {
		rank = paths->parents[tree][rank];
		depth++;
	}
	return depth;
}

static double tree_rank_y(const struct picture *picture, int tree, int rank)
{
	return picture->tree_y[tree] + TREE_LEVEL * depth_of(picture->paths, tree, rank);
}

static void draw_tree(const struct picture *picture, int tree)
{
	const struct topo_paths *paths = picture->paths;
	char class[4];

	svg_text(picture->out, BAND_LEFT - 12, picture->tree_y[tree] + 4, "end", "band", "Tree %d",
		tree);
	for (int rank = 0; rank < paths->size; rank++) {
		int above = paths->parents[tree][rank];
		if (above >= 0)
			svg_line(picture->out, picture->columns[rank],
				tree_rank_y(picture, tree, rank), picture->columns[above],
				tree_rank_y(picture, tree, above),
				edge_colour(class, picture, rank, above));
	}
	for (int rank = 0; rank < paths->size; rank++)
		draw_rank(picture, rank, tree_rank_y(picture, tree, rank));
}

static void draw_legend(const struct picture *picture)
{
	static const char *const texts[] = {
#define LEGEND_TEXT(name, text, meaning) text,
		RD_DISTANCES(LEGEND_TEXT)
#undef LEGEND_TEXT
	};
	double x = BAND_LEFT;
	char class[4];

	for (int i = RD_SAME; i < RD_DISTANCE_COUNT; i++, x += 84) {
		svg_line(picture->out, x, picture->legend_y, x + 26, picture->legend_y,
			colour(class, (enum rd_distance)i));
		svg_text(picture->out, x + 32, picture->legend_y + 4, "start", "plain", "%s",
			texts[i]);
	}
}

/* ---- The whole ---- */

static void find_columns(struct picture *picture)
{
	picture->radius = 11;
	for (int rank = 0; rank < picture->paths->size; rank++) {
		double room;
		picture->columns[rank] = frame_column(
			&picture->frames[picture->paths->host[rank]], picture->paths, rank, &room);
		picture->radius = fmin(picture->radius, fmax(room / 2 - 1, 2));
	}
}

static int deepest(const struct topo_paths *paths, int tree)
{
	int most = 0;

	for (int rank = 0; rank < paths->size; rank++)
		most = depth_of(paths, tree, rank) > most ? depth_of(paths, tree, rank) : most;
	return most;
}

static bool has_links(const struct rd_host *host)
{
	for (int a = 0; a < host->gpu_count; a++)
		for (int b = 0; b < a; b++)
			if (rd_gpu_distance(host, a, b, NULL) == RD_NVLINK)
				return true;
	return false;
}

static void lay_out_frames(struct picture *picture)
{
	double x = BAND_LEFT;

	for (int i = 0; i < picture->topology->host_count; i++) {
		frame_init(&picture->frames[i], picture->topology, i, picture->paths, x);
		x += picture->frames[i].width + HOST_GAP;
		if (picture->frames[i].levels > picture->levels)
			picture->levels = picture->frames[i].levels;
		picture->links = picture->links || has_links(&picture->topology->hosts[i]);
	}
	picture->width = fmax(x - HOST_GAP, BAND_LEFT + 84 * RD_DISTANCE_COUNT) + MARGIN;
}

/* The rows, from the top down. */
static void lay_out_rows(struct picture *picture)
{
	double y = MARGIN + HOST_TITLE + SECTION_TITLE + CORE_HEIGHT + 16;

	picture->device_y = y + picture->levels * LEVEL_HEIGHT;
	picture->host_bottom = picture->device_y + DEVICE_HEIGHT + 24;
	if (picture->links)
		picture->host_bottom += LINKS_HEIGHT - 12;
	y = picture->host_bottom + (picture->topology->host_count > 1 ? NETWORK_HEIGHT : 0);
	if (picture->paths) {
		picture->ring_y = y + RANKS_HEIGHT;
		y = picture->ring_y + RING_HEIGHT;
		for (int tree = 0; tree < TOPO_TREES && picture->paths->size > 1; tree++) {
			picture->tree_y[tree] = y;
			y += TREE_LEVEL * (deepest(picture->paths, tree) + 1) + 20;
		}
	}
	picture->legend_y = y + 30;
	picture->height = picture->legend_y + LEGEND_HEIGHT - 14;
}

static void draw(struct picture *picture)
{
	svg_open(picture->out, picture->width, picture->height, style);
	if (picture->paths)
		draw_columns(picture);
	for (int i = 0; i < picture->topology->host_count; i++)
		draw_host(picture, &picture->frames[i]);
	draw_network(picture);
	if (picture->paths) {
		mark_cores(picture);
		draw_ring(picture);
		for (int tree = 0; tree < TOPO_TREES && picture->paths->size > 1; tree++)
			draw_tree(picture, tree);
	}
	draw_legend(picture);
	svg_close(picture->out);
}

int topo_picture_write(
	const struct rd_topology *topology, const struct topo_paths *paths, FILE *out)
{
	struct picture picture = { .out = out, .topology = topology, .paths = paths };
	int err = 0;

	picture.frames = calloc((size_t)topology->host_count, sizeof(*picture.frames));
	picture.columns = calloc(paths ? (size_t)paths->size : 1, sizeof(double));
	if (!picture.frames || !picture.columns) {
		err = rd_fail(
			RONDO_MEMORY, "no memory for a picture of %d hosts", topology->host_count);
	} else {
		lay_out_frames(&picture);
		lay_out_rows(&picture);
		if (paths)
			find_columns(&picture);
		draw(&picture);
	}
	free(picture.frames);
	free(picture.columns);
	return err;
}
