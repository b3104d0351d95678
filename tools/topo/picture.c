#include "document.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "drawing.h"
#include "matrix.h"
#include "svg.h"

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

const char *topo_colour(char class[4], enum rd_distance distance)
{
	snprintf(class, 4, "d%d", (int)distance % 8);
	return class;
}

_Static_assert(RD_DISTANCE_COUNT == 8, "a colour each");

/* ---- Network and legend ----------- */

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
			topo_colour(class, (enum rd_distance)i));
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
		most = topo_tree_depth(paths, tree, rank) > most
			       ? topo_tree_depth(paths, tree, rank)
			       : most;
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
		topo_draw_columns(picture);
	for (int i = 0; i < picture->topology->host_count; i++)
		topo_draw_host(picture, &picture->frames[i]);
	draw_network(picture);
	if (picture->paths)
		topo_draw_ranks(picture);
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
