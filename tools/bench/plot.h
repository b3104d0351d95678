/* Plots as SVG: a grid of panels with logarithmic axes, one legend. No dependency. */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct bench_series {
	const char *label; /* same label, same colour in the legend, in every panel */
	int colour; /* 0 to 7 */
	bool dashed;
	size_t count;
	const double *x, *y; /* points that are not above 0 are left out */
};

struct bench_panel {
	const char *title, *y_label;
	const struct bench_series *series;
	size_t series_count;
};

/* x is a size in bytes: ticks are powers of two with K, M and G. Returns false when `out` fails. */
bool bench_plot_write(FILE *out, const char *title, const struct bench_panel *panels,
	size_t panel_count, size_t columns);

/* 65536 -> "64K" */
void bench_plot_size_text(char *text, size_t text_size, double bytes);

#endif
