#include "plot.h"

#include <math.h>
#include <string.h>

#include "svg.h"

#define CELL_WIDTH 430.0
#define CELL_HEIGHT 300.0
#define LEFT 66.0
#define RIGHT 18.0
#define TOP 34.0
#define BOTTOM 46.0
#define TITLE 42.0 /* the title of the whole */
#define LEGEND_ROW 22.0
#define CHARACTER 6.6 /* width of a label's, about */
#define DOTS_MOST 60 /* points of a curve that are marked each */

/* One panel's place and range; the range is that of scaled values. */
struct frame {
	double left, top, width, height;
	double x_least, x_most, y_least, y_most;
};

/* ---- Axes ---- */

static bool drawable(const struct plot_series *series, size_t i)
{
	return isfinite(log2(series->x[i])) && isfinite(log10(series->y[i]));
}

/* Room around the values, so that no curve runs along the edge. */
static void widen(struct frame *frame)
{
	if (!(frame->x_least <= frame->x_most)) /* no point at all */
		frame->x_least = frame->x_most = frame->y_least = frame->y_most = 0;
	frame->x_least = floor(frame->x_least);
	frame->x_most = fmax(ceil(frame->x_most), frame->x_least + 1);
	frame->y_least = floor(frame->y_least * 4 - 0.5) / 4;
	frame->y_most = ceil(frame->y_most * 4 + 0.5) / 4;
}

static struct frame frame_of(const struct plot_panel *panel, double left, double top)
{
	struct frame frame = { left + LEFT, top + TOP, CELL_WIDTH - LEFT - RIGHT,
		CELL_HEIGHT - TOP - BOTTOM, INFINITY, -INFINITY, INFINITY, -INFINITY };

	for (size_t s = 0; s < panel->series_count; s++) {
		const struct plot_series *series = &panel->series[s];
		for (size_t i = 0; i < series->count; i++) {
			if (!drawable(series, i))
				continue;
			double x = log2(series->x[i]), y = log10(series->y[i]);
			frame.x_least = fmin(frame.x_least, x);
			frame.x_most = fmax(frame.x_most, x);
			frame.y_least = fmin(frame.y_least, y);
			frame.y_most = fmax(frame.y_most, y);
		}
	}
	widen(&frame);
	return frame;
}

/* Places of scaled values. */
static double place_x(const struct frame *frame, double x)
{
	return frame->left + (x - frame->x_least) / (frame->x_most - frame->x_least) * frame->width;
}

static double place_y(const struct frame *frame, double y)
{
	double share = (y - frame->y_least) / (frame->y_most - frame->y_least);
	return frame->top + (1 - share) * frame->height;
}

void plot_size_text(char *text, size_t text_size, double bytes)
{
	static const char *const units[] = { "", "K", "M", "G", "T" };
	size_t unit = 0;

	for (; bytes >= 1024 && unit < 4; unit++)
		bytes /= 1024;
	snprintf(text, text_size, "%.4g%s", bytes, units[unit]);
}

/* A line across the panel at a scaled value; text NULL: a fine one without a number. */
static void tick(FILE *out, const struct frame *frame, bool is_x, double at, const char *class,
	const char *text)
{
	double right = frame->left + frame->width, bottom = frame->top + frame->height;

	if (is_x) {
		double x = place_x(frame, at);
		svg_line(out, x, frame->top, x, bottom, class);
		svg_text(out, x, bottom + 16, "middle", "tick", "%s", text ? text : "");
	} else {
		double y = place_y(frame, at);
		svg_line(out, frame->left, y, right, y, class);
		if (text)
			svg_text(out, frame->left - 6, y + 4, "end", "tick", "%s", text);
	}
}

static void size_ticks(FILE *out, const struct frame *frame)
{
	double step = ceil((frame->x_most - frame->x_least) / 8);
	char text[32];

	for (double power = frame->x_least; power <= frame->x_most; power += step) {
		plot_size_text(text, sizeof(text), exp2(power));
		tick(out, frame, true, power, "grid", text);
	}
}

/* Lines at 1, 2 and 5; with more than three decades, numbers at 1 alone. */
static void log_ticks(FILE *out, const struct frame *frame)
{
	static const double parts[] = { 1, 2, 5 };
	bool wide = frame->y_most - frame->y_least > 3;
	char text[32];

	for (double decade = floor(frame->y_least); decade <= frame->y_most; decade++) {
		for (int i = 0; i < 3; i++) {
			double value = parts[i] * pow(10, decade), place = log10(value);
			if (place < frame->y_least || place > frame->y_most)
				continue;
			snprintf(text, sizeof(text), "%.6g", value);
			tick(out, frame, false, place, i == 0 ? "grid" : "fine",
				!wide || i == 0 ? text : NULL);
		}
	}
}

static void draw_axes(FILE *out, const struct plot_panel *panel, const struct frame *frame)
{
	size_ticks(out, frame);
	log_ticks(out, frame);
	svg_text(out, frame->left + frame->width / 2, frame->top + frame->height + 34, "middle",
		"label", "%s", panel->x_label);
	svg_text_upwards(
		out, frame->left - 50, frame->top + frame->height / 2, "label", panel->y_label);
}

/* ---- Curves ---- */

static void draw_curve(FILE *out, const struct frame *frame, const struct plot_series *series)
{
	char class[16];

	if (!series->count)
		return;
	snprintf(class, sizeof(class), "c%d%s", series->colour % PLOT_COLOURS,
		series->dashed ? " dashed" : "");
	fprintf(out, "<polyline class=\"curve %s\" points=\"", class);
	for (size_t i = 0; i < series->count; i++) {
		if (drawable(series, i))
			fprintf(out, "%.1f,%.1f ", place_x(frame, log2(series->x[i])),
				place_y(frame, log10(series->y[i])));
	}
	fprintf(out, "\"/>\n");
	snprintf(class, sizeof(class), "dot c%d", series->colour % PLOT_COLOURS);
	for (size_t i = 0; i < series->count && series->count <= DOTS_MOST; i++) {
		if (drawable(series, i))
			svg_circle(out, place_x(frame, log2(series->x[i])),
				place_y(frame, log10(series->y[i])), 1.2, class);
	}
}

static void draw_panel(FILE *out, const struct plot_panel *panel, double left, double top)
{
	struct frame frame = frame_of(panel, left, top);

	svg_text(out, frame.left, top + TOP - 10, "start", "panel", "%s", panel->title);
	draw_axes(out, panel, &frame);
	svg_box(out, frame.left, frame.top, frame.width, frame.height, 0, "frame");
	for (size_t s = 0; s < panel->series_count; s++)
		draw_curve(out, &frame, &panel->series[s]);
}

/* ---- The legend ---- */

static bool seen_before(const struct plot_panel *panels, size_t panel, size_t series)
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

/* Draws the legend in rows of this width; out NULL: only counts them. */
static int draw_legend(FILE *out, const struct plot_panel *panels, size_t panel_count, double width)
{
	double x = LEFT;
	int rows = 1;

	for (size_t p = 0; p < panel_count; p++) {
		for (size_t s = 0; s < panels[p].series_count; s++) {
			const struct plot_series *series = &panels[p].series[s];
			double wide = 32 + CHARACTER * (double)strlen(series->label);
			char class[32];
			if (seen_before(panels, p, s))
				continue;
			if (x > LEFT && x + wide > width - RIGHT) {
				x = LEFT;
				rows++;
			}
			double y = TITLE + LEGEND_ROW * (rows - 1) + 6;
			snprintf(class, sizeof(class), "curve c%d%s", series->colour % PLOT_COLOURS,
				series->dashed ? " dashed" : "");
			if (out) {
				svg_line(out, x, y, x + 26, y, class);
				svg_text(out, x + 32, y + 4, "start", "label", "%s", series->label);
			}
			x += wide + 24;
		}
	}
	return rows;
}

/* ---- The whole ---- */

/* c0 to c6 are Okabe and Ito's palette, distinct also to the colour-blind, and in grey. */
static const char style[] =
	"text{font-family:system-ui,Helvetica,Arial,sans-serif;fill:#222}\n"
	".title{font-size:17px;font-weight:600}.panel{font-size:13px;font-weight:600}\n"
	".label{font-size:12px}.tick{font-size:11px;fill:#555}\n"
	".grid{stroke:#ddd}.fine{stroke:#f0f0f0}.frame{fill:none;stroke:#999}\n"
	".c0{stroke:#0072b2}.c1{stroke:#d55e00}.c2{stroke:#009e73}.c3{stroke:#cc79a7}\n"
	".c4{stroke:#e69f00}.c5{stroke:#56b4e9}.c6{stroke:#000000}\n"
	".curve{fill:none;stroke-width:1.8}.dashed{stroke-dasharray:6 4}\n"
	".dot{stroke-width:2.4}\n";

bool plot_write(FILE *out, const char *title, const struct plot_panel *panels, size_t panel_count,
	size_t columns)
{
	size_t rows = (panel_count + columns - 1) / columns;
	double width = CELL_WIDTH * (double)columns;
	double head = TITLE + LEGEND_ROW * draw_legend(NULL, panels, panel_count, width);

	svg_open(out, width, head + CELL_HEIGHT * (double)rows, style);
	svg_text(out, LEFT, 26, "start", "title", "%s", title);
	draw_legend(out, panels, panel_count, width);
	for (size_t i = 0; i < panel_count; i++)
		draw_panel(out, &panels[i], CELL_WIDTH * (double)(i % columns),
			head + CELL_HEIGHT * (double)(i / columns));
	svg_close(out);
	return !ferror(out);
}
