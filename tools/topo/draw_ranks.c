#include "drawing.h"

#include <math.h>

#include "svg.h"

static void draw_rank(const struct picture *picture, int rank, double y)
{
	svg_circle(picture->out, picture->columns[rank], y, picture->radius, "dot");
	if (picture->radius >= 7)
		svg_text(picture->out, picture->columns[rank], y + 3.5, "middle", "rank", "%d",
			rank);
}

void topo_draw_columns(const struct picture *picture)
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

	return topo_colour(
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

int topo_tree_depth(const struct topo_paths *paths, int tree, int rank)
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
	return picture->tree_y[tree] + TREE_LEVEL * topo_tree_depth(picture->paths, tree, rank);
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

void topo_draw_ranks(const struct picture *picture)
{
	mark_cores(picture);
	draw_ring(picture);
	for (int tree = 0; tree < TOPO_TREES && picture->paths->size > 1; tree++)
		draw_tree(picture, tree);
}
