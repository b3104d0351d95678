/* A picture under way: its layout in pixels, and the functions that draw its parts. */
#ifndef TOPO_DRAWING_H
#define TOPO_DRAWING_H

#include "frame.h"
#include "paths.h"

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

/* Returns "d3", the CSS class of a distance, in class. */
const char *topo_colour(char class[4], enum rd_distance distance);

/* draw_host.c: a host with its sections, PCI trees, devices and NVLinks. */
void topo_draw_host(const struct picture *picture, const struct frame *frame);

/* draw_ranks.c. Columns: a line from each rank's GPU, or core, through all bands. Draw them first:
   hosts cover them. */
void topo_draw_columns(const struct picture *picture);
/* The marks of cores with ranks, the ring and the trees. */
void topo_draw_ranks(const struct picture *picture);
/* The number of ranks above this one in a tree. */
int topo_tree_depth(const struct topo_paths *paths, int tree, int rank);

#endif
