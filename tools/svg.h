/* Shapes of an SVG picture. Coordinates are pixels; colours are CSS classes. */
#ifndef TOOLS_SVG_H
#define TOOLS_SVG_H

#include <stdio.h>

void svg_open(FILE *out, double width, double height, const char *style);
void svg_close(FILE *out);

void svg_box(FILE *out, double x, double y, double width, double height, double round,
	const char *class);
void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *class);
/* A curve between two points of the same height, down to the depth. */
void svg_arc(FILE *out, double from, double to, double y, double depth, const char *class);
void svg_circle(FILE *out, double x, double y, double radius, const char *class);
/* anchor: start, middle or end. */
void svg_text(FILE *out, double x, double y, const char *anchor, const char *class,
	const char *format, ...) __attribute__((format(printf, 6, 7)));
/* Text that reads from below, centred at the point. */
void svg_text_upwards(FILE *out, double x, double y, const char *class, const char *text);

#endif
