#include "document.h"

#include <math.h>

#include "plan/print.h"
#include "svg.h"

#define LEFT 74.0 /* of the first instant */
#define TOP 66.0 /* of the first rank */
#define PLOT 1160.0 /* width of the time */
#define RIGHT 26.0
#define BOTTOM 66.0 /* axis and legend */
#define LABEL 120.0 /* width of a fault's text */
#define COLOURS 12
#define ARROWS_MOST 1500 /* messages that are drawn; of more, those on the critical path */

static const char style[] =
	"text { font-family: 'DejaVu Sans', Verdana, Helvetica, sans-serif; fill: #222222; }\n"
	".title { font-size: 15px; font-weight: bold; } .plain { font-size: 11px; }\n"
	".small { font-size: 9px; fill: #555555; } .number { font-size: 9px; fill: #ffffff; "
	"pointer-events: none; }\n"
	".row { fill: #f6f6f3; } .host { stroke: #8a8a84; stroke-width: 1; }\n"
	".tick { stroke: #dededa; stroke-width: 1; }\n"
	".step { stroke: #ffffff; stroke-width: 0.4; }\n"
	".send { fill-opacity: 0.5; } .move { fill-opacity: 0.78; }\n"
	".critical { stroke: #111111; stroke-width: 1.6; }\n"
	".message { stroke: #7d868f; stroke-width: 0.8; stroke-opacity: 0.45; }\n"
	".path { stroke: #c9211e; stroke-width: 1.8; } .fault { font-size: 11px; fill: #c9211e; "
	"stroke: #ffffff; stroke-width: 3; paint-order: stroke; }\n"
	".k { fill: #8a8a84; }\n"
	".k0 { fill: #1f77b4; } .k1 { fill: #e8750a; } .k2 { fill: #2e9b46; } .k3 { fill: #8e5bbf; "
	"}\n"
	".k4 { fill: #b5651d; } .k5 { fill: #d4508f; } .k6 { fill: #14a5b5; } .k7 { fill: #9a9a1f; "
	"}\n"
	".k8 { fill: #4a5fc1; } .k9 { fill: #c98a00; } .k10 { fill: #5f7d3a; } .k11 { fill: "
	"#a03e3e; }\n";

struct picture {
	const struct plan_timeline *timeline;
	FILE *out;
	double row; /* height of a rank's */
	int ranks;
};

static double x_of(const struct picture *picture, int64_t ns)
{
	int64_t end = picture->timeline->end_ns;

	return LEFT + (end > 0 ? PLOT * (double)ns / (double)end : 0);
}

static double y_of(const struct picture *picture, int rank)
{
	return TOP + rank * picture->row;
}

static double middle_of(const struct picture *picture, int rank)
{
	return y_of(picture, rank) + picture->row / 2;
}

/* ---- Behind the steps ----------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten: about eight of them fill the axis. */
static int64_t tick_ns(int64_t end)
{
	double rough = (double)end / 8, power = pow(10, floor(log10(rough > 1 ? rough : 1)));
	double times = rough / power;

	return (int64_t)(power * (times > 5 ? 10 : times > 2 ? 5 : times > 1 ? 2 : 1));
}

static void draw_axis(const struct picture *picture)
{
	double bottom = y_of(picture, picture->ranks) + 4;
	int64_t end = picture->timeline->end_ns, tick = tick_ns(end);
	char text[PLAN_TIME_SIZE];

	for (int64_t at = 0; at <= end; at += tick) {
		svg_line(picture->out, x_of(picture, at), TOP - 4, x_of(picture, at), bottom,
			"tick");
		svg_text(picture->out, x_of(picture, at), bottom + 13, "middle", "plain", "%s",
			plan_time_text(at, text));
	}
}

static void draw_rows(const struct picture *picture)
{
	const int *group = picture->timeline->made->group;
	int every = picture->row >= 11 ? 1 : 4;

	for (int rank = 0; rank < picture->ranks; rank++) {
		if (rank % 2 == 0)
			svg_box(picture->out, LEFT, y_of(picture, rank), PLOT, picture->row, 0,
				"row");
		if (rank % every == 0)
			svg_text(picture->out, LEFT - 8, middle_of(picture, rank) + 4, "end",
				"plain", "rank %d", rank);
		if (rank > 0 && group[rank] != group[rank - 1])
			svg_line(picture->out, 8, y_of(picture, rank), LEFT + PLOT,
				y_of(picture, rank), "host");
	}
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static const char *shade(const struct rd_step *step)
{
	if (rd_step_reduces(step) || step->kind == RD_STEP_COMBINE)
		return "reduce";
	return rd_step_receives(step) || rd_step_is_direct(step) || step->kind == RD_STEP_COPY
		       ? "move"
		       : "send";
}

static void draw_step(const struct picture *picture, int piece, int rank, int step)
{
	const struct plan_timeline *timeline = picture->timeline;
	const struct rd_step *it = &timeline->plans[rank]->steps[step];
	size_t at = plan_timeline_at(timeline, piece, rank, step);
	const struct rd_event_time *time = &timeline->schedule->times[at];
	double x = x_of(picture, time->begin_ns), width = x_of(picture, time->end_ns) - x;
	double pad = picture->row >= 18 ? 3 : 1, height = picture->row - 2 * pad;
	char text[160], begin[PLAN_TIME_SIZE], end[PLAN_TIME_SIZE], colour[8] = "";

	if (width <= 0)
		return; /* it takes no time, as a copy in place does */
	rd_step_print(it, text, sizeof(text));
	if (!rd_step_is_signal(it))
		snprintf(colour, sizeof(colour), "%d", it->chunk % COLOURS);
	fprintf(picture->out,
		"<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" data-chunk=\"%d\" "
		"class=\"step %s k%s%s\"><title>rank %d, ",
		x, y_of(picture, rank) + pad, width < 0.6 ? 0.6 : width, height,
		rd_step_is_signal(it) ? -1 : it->chunk, shade(it), colour,
		timeline->critical[at] ? " critical" : "", rank);
	if (timeline->pieces > 1)
		fprintf(picture->out, "piece %d, ", piece);
	fprintf(picture->out, "step %d: %s; %s to %s</title></rect>\n", step, text,
		plan_time_text(time->begin_ns, begin), plan_time_text(time->end_ns, end));
	if (*colour && width >= 16 && height >= 11)
		svg_text(picture->out, x + width / 2, middle_of(picture, rank) + 3.5, "middle",
			"number", "%d", it->chunk);
}

/* The message that the step takes, from the end of the step that sent it. */
static void draw_message(
	const struct picture *picture, int piece, int rank, int step, bool only_critical)
{
	const struct plan_timeline *timeline = picture->timeline;
	int sender = plan_timeline_sender(timeline, rank, step);
	size_t first = (size_t)piece * (size_t)timeline->schedule->event_count;

	if (sender < 0)
		return;

	size_t taken = plan_timeline_at(timeline, piece, rank, step);
	size_t sent = first + (size_t)sender;
	const struct rd_event_time *times = timeline->schedule->times;
	bool on_path = timeline->critical[taken] && timeline->critical[sent];

	if ((only_critical && !on_path) || times[taken].end_ns < 0)
		return;
	svg_line(picture->out, x_of(picture, times[sent].end_ns),
		middle_of(picture, timeline->plans[rank]->steps[step].peer),
		x_of(picture, times[taken].begin_ns), middle_of(picture, rank),
		on_path ? "path" : "message");
}

static void draw_all(const struct picture *picture)
{
	const struct plan_timeline *timeline = picture->timeline;
	bool many = timeline->pieces * timeline->schedule->event_count > ARROWS_MOST;

	for (int rank = 0; rank < picture->ranks; rank++)
		for (int piece = 0; piece < timeline->pieces; piece++)
			for (int step = 0; step < timeline->plans[rank]->step_count; step++)
				draw_step(picture, piece, rank, step);
	for (int rank = 0; rank < picture->ranks; rank++)
		for (int piece = 0; piece < timeline->pieces; piece++)
			for (int step = 0; step < timeline->plans[rank]->step_count; step++)
				draw_message(picture, piece, rank, step, many);
}

/* Where a rank of a simulation died, or waits for ever. */
static void draw_faults(const struct picture *picture)
{
	const struct simulation *simulation = &picture->timeline->simulation;

	for (int rank = 0; rank < simulation->rank_count; rank++) {
		const struct simulated_rank *it = &simulation->ranks[rank];
		int64_t end_ns = it->end_ps / 1000;
		double x = x_of(picture, end_ns), y = middle_of(picture, rank);
		bool is_late = x + LABEL > LEFT + PLOT + RIGHT;
		char text[48] = "died";

		if (it->end == SIMULATED_ENDED || end_ns > picture->timeline->end_ns)
			continue;
		if (it->end == SIMULATED_WAITS)
			snprintf(text, sizeof(text), "waits for rank %d", it->waits_for);
		svg_line(picture->out, x, y_of(picture, rank) + 1, x,
			y_of(picture, rank) + picture->row - 1, "path");
		if (picture->row >= 11)
			svg_text(picture->out, x + (is_late ? -4 : 4), y + 4,
				is_late ? "end" : "start", "fault", "%s", text);
	}
}

/* ---- Around them ---------------------------------------------------------------------------- */

static void draw_legend(const struct picture *picture, double y)
{
	static const struct {
		const char *class, *text;
	} shades[] = { { "step send k0", "send" }, { "step move k0", "receive, forward, copy" },
		{ "step reduce k0", "reduce" },
		{ "step reduce k0 critical", "on the critical path" } };
	double x = LEFT;

	for (int i = 0; i < 4; i++) {
		svg_box(picture->out, x, y - 9, 18, 11, 0, shades[i].class);
		svg_text(picture->out, x + 24, y, "start", "plain", "%s", shades[i].text);
		x += 60 + 7.0 * (i == 1 ? 22 : i == 3 ? 20 : 7);
	}
	svg_text(picture->out, x, y, "start", "plain",
		"colour: the chunk; line: a message, red on the critical path");
}

/* Before the time of the call, where it has one. */
static const char *end_text(const struct plan_timeline *timeline)
{
	if (!plan_timeline_ends(timeline))
		return "never ends";
	return timeline->simulation.rank_count ? "is simulated to take " : "is predicted to take ";
}

void plan_picture_write(const struct plan_timeline *timeline, FILE *out)
{
	int ranks = timeline->made->problem.size;
	struct picture picture = { timeline, out, 34, ranks };
	char heading[200], end[PLAN_TIME_SIZE], all[PLAN_TIME_SIZE];

	if (ranks > 8)
		picture.row = ranks > 128 ? 6 : ranks > 32 ? 12 : ranks > 16 ? 17 : 24;

	double height = TOP + ranks * picture.row + BOTTOM;

	svg_open(out, LEFT + PLOT + RIGHT, height, style);
	plan_heading(timeline, heading, sizeof(heading));
	svg_text(out, LEFT, 24, "start", "title", "%s", heading);
	svg_text(out, LEFT, 44, "start", "plain", "%d piece%s in %s; the call %s%s",
		timeline->pieces, timeline->pieces == 1 ? "" : "s",
		plan_time_text(timeline->end_ns, end), end_text(timeline),
		plan_timeline_ends(timeline) ? plan_time_text(timeline->predicted_ns, all) : "");
	draw_rows(&picture);
	draw_axis(&picture);
	draw_all(&picture);
	draw_faults(&picture);
	draw_legend(&picture, height - 18);
	svg_close(out);
}

/* ---- A page --------------------------------------------------------------------------------- */

static const char page_end[] =
	"<script>\n"
	"const box = document.getElementById('box'), line = document.getElementById('step');\n"
	"const svg = box.querySelector('svg'), first = line.textContent;\n"
	"const steps = [...svg.querySelectorAll('.step[data-chunk]')];\n"
	"let kept = null;\n"
	"for (const step of steps) {\n"
	"  step.text = step.querySelector('title').textContent;\n"
	"  step.querySelector('title').remove();\n"
	"}\n"
	"function show(step) {\n"
	"  line.textContent = step ? step.text : first;\n"
	"  svg.classList.toggle('dim', step !== null);\n"
	"  for (const other of steps)\n"
	"    other.classList.toggle('same', step !== null &&\n"
	"      other.dataset.chunk === step.dataset.chunk);\n"
	"}\n"
	"svg.addEventListener('mouseover', event => {\n"
	"  if (!kept) show(event.target.closest('.step[data-chunk]'));\n"
	"});\n"
	"svg.addEventListener('click', event => {\n"
	"  kept = event.target.closest('.step[data-chunk]');\n"
	"  show(kept);\n"
	"});\n"
	"document.getElementById('width').addEventListener('input', event => {\n"
	"  svg.style.width = event.target.value + '%';\n"
	"});\n"
	"</script>\n"
	"</body>\n"
	"</html>\n";

void plan_page_write(const struct plan_timeline *timeline, FILE *out)
{
	char heading[200];

	plan_heading(timeline, heading, sizeof(heading));
	fprintf(out,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<title>%s</title>\n<style>\n"
		"body { font: 14px 'DejaVu Sans', Verdana, Helvetica, sans-serif; margin: 12px; }\n"
		"#step { position: sticky; top: 0; background: #ffffff; padding: 6px 0; "
		"min-height: 1.4em; }\n"
		"#box { overflow-x: auto; } #box svg { width: 100%%; height: auto; }\n"
		"svg .step { cursor: pointer; } svg.dim .step[data-chunk]:not(.same), "
		"svg.dim .message { opacity: 0.13; }\n"
		"</style>\n</head>\n<body>\n"
		"<div id=\"step\">The pointer on a step describes it, and shows its chunk's way; a "
		"click keeps that.</div>\n"
		"<label>width <input id=\"width\" type=\"range\" min=\"100\" max=\"1000\" "
		"value=\"100\"></label>\n<div id=\"box\">\n",
		heading);
	plan_picture_write(timeline, out);
	fprintf(out, "</div>\n%s", page_end);
}
