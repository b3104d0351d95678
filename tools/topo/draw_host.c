#include "drawing.h"

#include <math.h>
#include <string.h>

#include "matrix.h"
#include "svg.h"

/* With more, the labels of their links would overlap. */
#define LABELLED_GPUS 4

static double joint_y(const struct frame_joint *joint)
{
	return MARGIN + HOST_TITLE + SECTION_TITLE + CORE_HEIGHT + 16 + joint->level * LEVEL_HEIGHT;
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
			svg_line(picture->out, joint->x, cpu, joint->x, joint_y(joint), "wire");
		else
			draw_wire(picture, above->x, joint_y(above) + JOINT_HEIGHT, joint->x,
				joint_y(joint));
	}
	for (int i = 0; i < frame->device_count; i++) {
		const struct frame_device *device = &frame->devices[i];
		const struct frame_joint *above =
			&frame->joints[device->above < 0 ? 0 : device->above];
		if (device->above >= 0)
			draw_wire(picture, above->x, joint_y(above) + JOINT_HEIGHT, device->x,
				picture->device_y);
		else if (section_of_device(frame, i)->numa)
			svg_line(
				picture->out, device->x, cpu, device->x, picture->device_y, "wire");
	}
}

static void draw_joint(const struct picture *picture, const struct frame_joint *joint)
{
	double y = joint_y(joint), width = joint->host_bridge ? 58 : 78;
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

void topo_draw_host(const struct picture *picture, const struct frame *frame)
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
