#include "plot.h"

#include <math.h>
#include <string.h>

#define CELL_WIDTH 430.0
#define CELL_HEIGHT 300.0
#define LEFT 62.0
#define RIGHT 14.0
#define TOP 34.0
#define BOTTOM 46.0
#define HEAD 64.0 /* title and legend of the whole */
#define LABEL_WIDTH 150.0

/* Okabe and Ito's palette, distinct also to the colour-blind, and in grey. */
static const char *const colours[8] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
	"#56b4e9", "#000000", "#888888" };

/* One panel's place and range; logarithms base 2 on x, base 10 on y. */
struct frame {
	double left, top, width, height;
	double x_least, x_most, y_least, y_most;
};

static void escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		default:
			/* XML allows no control characters, and the file is declared as UTF-8. */
			fputc((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f ? '?'
											  : *text,
				out);
		}
	}
}

static void text_at(
	FILE *out, double x, double y, const char *anchor, const char *class, const char *text)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor,
		class);
	escaped(out, text);
	fprintf(out, "</text>\n");
}

static void line(FILE *out, double x1, double y1, double x2, double y2, const char *class)
{
	fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1,
		y1, x2, y2, class);
}

static bool drawable(const struct bench_series *series, size_t i)
{
	return series->x[i] > 0 && series->y[i] > 0 && isfinite(series->x[i]) &&
	       isfinite(series->y[i]);
}

static void include(struct frame *frame, double x, double y)
{
	frame->x_least = fmin(frame->x_least, log2(x));
	frame->x_most = fmax(frame->x_most, log2(x));
	frame->y_least = fmin(frame->y_least, log10(y));
	frame->y_most = fmax(frame->y_most, log10(y));
}

static struct frame frame_of(const struct bench_panel *panel, double left, double top)
{
	struct frame frame = { left + LEFT, top + TOP, CELL_WIDTH - LEFT - RIGHT,
		CELL_HEIGHT - TOP - BOTTOM, INFINITY, -INFINITY, INFINITY, -INFINITY };

	for (size_t s = 0; s < panel->series_count; s++) {
		for (size_t i = 0; i < panel->series[s].count; i++) {
			if (drawable(&panel->series[s], i))
				include(&frame, panel->series[s].x[i], panel->series[s].y[i]);
		}
	}
	if (!(frame.x_least <= frame.x_most)) /* no point at all */
		include(&frame, 1, 1);
	frame.x_least = floor(frame.x_least);
	frame.x_most = fmax(ceil(frame.x_most), frame.x_least + 1);
	/* A margin, so that no line runs along the edge. */
	frame.y_least = floor(frame.y_least * 4 - 0.5) / 4;
	frame.y_most = ceil(frame.y_most * 4 + 0.5) / 4;
	return frame;
}

static double place_x(const struct frame *frame, double x)
{
	return frame->left +
	       (log2(x) - frame->x_least) / (frame->x_most - frame->x_least) * frame->width;
}

static double place_y(const struct frame *frame, double y)
{
	double share = (log10(y) - frame->y_least) / (frame->y_most - frame->y_least);
	return frame->top + (1 - share) * frame->height;
}

void bench_plot_size_text(char *text, size_t text_size, double bytes)
{
	static const char *const units[] = { "", "K", "M", "G", "T" };
	size_t unit = 0;

	for (; bytes >= 1024 && unit < 4; unit++)
		bytes /= 1024;
	snprintf(text, text_size, "%.4g%s", bytes, units[unit]);
}

static void x_axis(FILE *out, const struct frame *frame)
{
	double range = frame->x_most - frame->x_least, step = ceil(range / 8);
	char text[32];

	for (double power = frame->x_least; power <= frame->x_most; power += step) {
		double x = place_x(frame, exp2(power));
		line(out, x, frame->top, x, frame->top + frame->height, "grid");
		bench_plot_size_text(text, sizeof(text), exp2(power));
		text_at(out, x, frame->top + frame->height + 16, "middle", "tick", text);
	}
	text_at(out, frame->left + frame->width / 2, frame->top + frame->height + 34, "middle",
		"label", "size (bytes)");
}

/* Lines at 1, 2 and 5; with more than three decades, numbers at 1 alone. */
static void y_axis(FILE *out, const struct frame *frame, const char *label)
{
	static const double parts[] = { 1, 2, 5 };
	bool wide = frame->y_most - frame->y_least > 3;
	char text[32];

	for (double decade = floor(frame->y_least); decade <= frame->y_most; decade++) {
		for (int i = 0; i < 3; i++) {
			double value = parts[i] * pow(10, decade), place = log10(value);
			if (place < frame->y_least || place > frame->y_most)
				continue;
			double y = place_y(frame, value);
			line(out, frame->left, y, frame->left + frame->width, y,
				i == 0 ? "grid" : "fine");
			snprintf(text, sizeof(text), "%.6g", value);
			if (!wide || i == 0)
				text_at(out, frame->left - 6, y + 4, "end", "tick", text);
		}
	}
	fprintf(out,
		"<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\" "
		"class=\"label\">",
		frame->left - 46, frame->top + frame->height / 2);
	escaped(out, label);
	fprintf(out, "</text>\n");
}

static void curve(FILE *out, const struct frame *frame, const struct bench_series *series)
{
	const char *colour = colours[series->colour & 7];

	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\"%s points=\"",
		colour, series->dashed ? " stroke-dasharray=\"6 4\"" : "");
	for (size_t i = 0; i < series->count; i++) {
		if (drawable(series, i))
			fprintf(out, "%.1f,%.1f ", place_x(frame, series->x[i]),
				place_y(frame, series->y[i]));
	}
	fprintf(out, "\"/>\n");
	for (size_t i = 0; i < series->count; i++) {
		if (drawable(series, i))
			fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.4\" fill=\"%s\"/>\n",
				place_x(frame, series->x[i]), place_y(frame, series->y[i]), colour);
	}
}

static void draw_panel(FILE *out, const struct bench_panel *panel, double left, double top)
{
	struct frame frame = frame_of(panel, left, top);

	text_at(out, frame.left, top + TOP - 10, "start", "panel", panel->title);
	x_axis(out, &frame);
	y_axis(out, &frame, panel->y_label);
	fprintf(out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"frame\"/>\n",
		frame.left, frame.top, frame.width, frame.height);
	for (size_t s = 0; s < panel->series_count; s++)
		curve(out, &frame, &panel->series[s]);
}

static bool seen_before(const struct bench_panel *panels, size_t panel, size_t series)
{
	const char *label = panels[panel].series[series].label;

	for (size_t p = 0; p <= panel; p++) {
		size_t end = p == panel ? series : panels[p].series_count;
		for (size_t s = 0; s < end; s++) {
			if (strcmp(panels[p].series[s].label, label) == 0)
				return true;
		}
	}
	return false;
}

static void legend(FILE *out, const struct bench_panel *panels, size_t panel_count)
{
	double x = LEFT;

	for (size_t p = 0; p < panel_count; p++) {
		for (size_t s = 0; s < panels[p].series_count; s++) {
			const struct bench_series *series = &panels[p].series[s];
			if (seen_before(panels, p, s))
				continue;
			fprintf(out,
				"<line x1=\"%.1f\" y1=\"48\" x2=\"%.1f\" y2=\"48\" stroke=\"%s\" "
				"stroke-width=\"2.4\"%s/>\n",
				x, x + 26, colours[series->colour & 7],
				series->dashed ? " stroke-dasharray=\"6 4\"" : "");
			text_at(out, x + 32, 52, "start", "label", series->label);
			x += LABEL_WIDTH;
		}
	}
}

static const char style[] =
	"<style>text{font-family:system-ui,Helvetica,Arial,sans-serif;fill:#222}"
	".title{font-size:17px;font-weight:600}.panel{font-size:13px;font-weight:600}"
	".label{font-size:12px}.tick{font-size:11px;fill:#555}"
	".grid{stroke:#ddd}.fine{stroke:#f0f0f0}.frame{fill:none;stroke:#999}</style>\n";

bool bench_plot_write(FILE *out, const char *title, const struct bench_panel *panels,
	size_t panel_count, size_t columns)
{
	size_t rows = (panel_count + columns - 1) / columns;
	double width = CELL_WIDTH * (double)columns, height = HEAD + CELL_HEIGHT * (double)rows;

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"width=\"%.0f\" "
		"height=\"%.0f\">\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		width, height, width, height, style);
	text_at(out, LEFT, 26, "start", "title", title);
	legend(out, panels, panel_count);
	for (size_t i = 0; i < panel_count; i++)
		draw_panel(out, &panels[i], CELL_WIDTH * (double)(i % columns),
			HEAD + CELL_HEIGHT * (double)(i / columns));
	fprintf(out, "</svg>\n");
	return !ferror(out);
}
