/*
 * Plots of values over sizes as SVG: a grid of panels, one legend. Both axes are
 * logarithmic; ticks of x are powers of two with K, M and G.
 */
#ifndef TOOLS_PLOT_H
#define TOOLS_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define PLOT_COLOURS 7

struct plot_series {
	const char *label; /* same label, same colour in the legend, in every panel */
	int colour; /* 0 to PLOT_COLOURS - 1 */
	bool dashed;
	size_t count;
	const double *x, *y; /* points that have no finite logarithm are left out */
};

struct plot_panel {
	const char *title;
	const char *x_label, *y_label;
	const struct plot_series *series;
	size_t series_count;
};

/* Returns false when `out` fails. */
bool plot_write(FILE *out, const char *title, const struct plot_panel *panels, size_t panel_count,
	size_t columns);

/* 65536 -> "64K" */
void plot_size_text(char *text, size_t text_size, double bytes);

#endif
