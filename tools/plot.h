/* Plots as SVG: a grid of panels, one legend. No dependency. */
#ifndef TOOLS_PLOT_H
#define TOOLS_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define PLOT_COLOURS 8 /* the last is grey */

enum plot_scale {
	PLOT_LINEAR,
	PLOT_FROM_ZERO, /* linear, and the axis begins at 0 */
	PLOT_LOG10,
	PLOT_SIZES, /* logarithmic; ticks are powers of two with K, M and G */
};

struct plot_axis {
	const char *label;
	enum plot_scale scale;
};

struct plot_series {
	const char *label; /* same label, same colour in the legend, in every panel */
	int colour; /* 0 to PLOT_COLOURS - 1 */
	bool dashed;
	size_t count; /* may be 0, for the legend alone */
	const double *x, *y; /* points that are not finite on their axis are left out */
};

struct plot_panel {
	const char *title;
	struct plot_axis x, y;
	const struct plot_series *series;
	size_t series_count;
};

/* Returns false when `out` fails. */
bool plot_write(FILE *out, const char *title, const struct plot_panel *panels, size_t panel_count,
	size_t columns);

/* 65536 -> "64K" */
void plot_size_text(char *text, size_t text_size, double bytes);

#endif
