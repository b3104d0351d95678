/*
 * Turns the samples of a comparison (standard input; samples.h) into what people read.
 *
 * Usage: report table    Markdown: a table for each transport and number of ranks
 *        report plot     SVG: a panel for each collective, transport and number of ranks
 *        report missing  one line `transport ranks` where programs were not met on a machine alike
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"
#include "samples.h"

/* Panels or tables of one transport and number of ranks. */
static bool same_world(const struct point *a, const struct point *b)
{
	return strcmp(a->transport, b->transport) == 0 && a->ranks == b->ranks;
}

static bool first_of_world(const struct comparison *comparison, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (same_world(&comparison->points[k], &comparison->points[i]))
			return false;
	}
	return true;
}

static bool measured(const struct comparison *comparison, int program)
{
	for (size_t i = 0; i < comparison->count; i++) {
		if (comparison->points[i].counts[program])
			return true;
	}
	return false;
}

/* ---- The table ---- */

static void print_us(const char *before, double us)
{
	printf("%s%.*f", before, us < 10 ? 3 : us < 1000 ? 1 : 0, us);
}

static void print_time(const struct point *point, int program)
{
	if (!point->counts[program]) {
		printf(" – |");
		return;
	}
	print_us(point->paired[program] ? " " : " ~", point->time_us[program]);
	if (!isnan(point->p90_us[program]))
		print_us(", ", point->p90_us[program]);
	printf(" |");
}

static void print_ratio(const struct point *point, int program)
{
	int best = point_best_peer(point);

	if (best < 0 || !point->counts[program])
		printf(" – |");
	else
		printf(" **%.2f** |", point->time_us[best] / point->time_us[program]);
}

static void print_row(const struct comparison *comparison, const struct point *point)
{
	int best = point_best_peer(point);
	char size[32];

	plot_size_text(size, sizeof(size), (double)point->size);
	printf("| %s | %s |", point->collective, size);
	for (int program = 0; program < PROGRAMS; program++) {
		if (measured(comparison, program))
			print_time(point, program);
	}
	printf(" %s |", best < 0 ? "–" : program_title(best));
	for (int program = RONDO; program <= RONDO_REGISTERED; program++) {
		if (measured(comparison, program))
			print_ratio(point, program);
	}
	printf(" %.0f | %.0f |\n", point->line_ns, point->pace_ns);
}

static void print_heads(const struct comparison *comparison, const struct point *world)
{
	printf("\n### %s, %d ranks\n\n| collective | size |", world->transport, world->ranks);
	for (int program = 0; program < PROGRAMS; program++) {
		if (measured(comparison, program))
			printf(" %s (µs) |", program_title(program));
	}
	printf(" best peer |");
	for (int program = RONDO; program <= RONDO_REGISTERED; program++) {
		if (measured(comparison, program))
			printf(" best peer / %s |", program_title(program));
	}
	printf(" line (ns) | pace (ns) |\n");
}

/* The line under the heads: texts to the left, numbers to the right. */
static void print_alignment(const struct comparison *comparison)
{
	printf("|:---|---:|");
	for (int program = 0; program < PROGRAMS; program++)
		printf("%s", measured(comparison, program) ? "---:|" : "");
	printf(":---|");
	for (int program = RONDO; program <= RONDO_REGISTERED; program++)
		printf("%s", measured(comparison, program) ? "---:|" : "");
	printf("---:|---:|\n");
}

static void print_table(const struct comparison *comparison)
{
	for (size_t i = 0; i < comparison->count; i++) {
		if (!first_of_world(comparison, i))
			continue;
		print_heads(comparison, &comparison->points[i]);
		print_alignment(comparison);
		for (size_t k = i; k < comparison->count; k++) {
			if (same_world(&comparison->points[k], &comparison->points[i]))
				print_row(comparison, &comparison->points[k]);
		}
	}
}

/* ---- The plot ---- */

struct curves {
	struct plot_series series[PROGRAMS];
	double *numbers; /* the points of the series */
	char title[96];
};

static bool same_panel(const struct point *a, const struct point *b)
{
	return same_world(a, b) && strcmp(a->collective, b->collective) == 0;
}

static bool first_of_panel(const struct comparison *comparison, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (same_panel(&comparison->points[k], &comparison->points[i]))
			return false;
	}
	return true;
}

static bool fill_curves(const struct comparison *comparison, size_t first, struct curves *curves,
	struct plot_panel *panel)
{
	const struct point *of = &comparison->points[first];
	size_t most = comparison->count, drawn = 0;

	curves->numbers = calloc(PROGRAMS * 2 * most, sizeof(double));
	if (!curves->numbers)
		return false;
	for (int program = 0; program < PROGRAMS; program++) {
		double *x = curves->numbers + 2 * most * (size_t)program, *y = x + most;
		size_t count = 0;
		for (size_t i = first; i < comparison->count; i++) {
			const struct point *point = &comparison->points[i];
			if (!same_panel(point, of) || !point->counts[program])
				continue;
			x[count] = (double)point->size;
			y[count++] = point->time_us[program];
		}
		if (count)
			curves->series[drawn++] = (struct plot_series){ program_title(program),
				program, program == RONDO_REGISTERED, count, x, y };
	}
	snprintf(curves->title, sizeof(curves->title), "%s, %s, %d ranks", of->collective,
		of->transport, of->ranks);
	*panel = (struct plot_panel){ curves->title, "size (bytes)", "time (us)", curves->series,
		drawn };
	return true;
}

static bool print_plot(const struct comparison *comparison)
{
	struct plot_panel *panels = calloc(comparison->count + 1, sizeof(*panels));
	struct curves *curves = calloc(comparison->count + 1, sizeof(*curves));
	size_t count = 0;
	bool drawn = panels && curves;

	for (size_t i = 0; i < comparison->count && drawn; i++) {
		if (first_of_panel(comparison, i)) {
			drawn = fill_curves(comparison, i, &curves[count], &panels[count]);
			count++;
		}
	}
	if (drawn)
		drawn = plot_write(stdout, "Time of the slowest rank (less is better)", panels,
			count, count < 4 ? count : 4);
	for (size_t i = 0; i < count; i++)
		free(curves[i].numbers);
	free(curves);
	free(panels);
	return drawn;
}

/* ---- Points to repeat ---- */

static bool complete(const struct point *point)
{
	for (int program = 0; program < PROGRAMS; program++) {
		if (point->counts[program] && !point->paired[program])
			return false;
	}
	return true;
}

static void print_missing(const struct comparison *comparison)
{
	for (size_t i = 0; i < comparison->count; i++) {
		bool missing = false;
		if (!first_of_world(comparison, i))
			continue;
		for (size_t k = i; k < comparison->count; k++)
			missing |= same_world(&comparison->points[k], &comparison->points[i]) &&
				   !complete(&comparison->points[k]);
		if (missing)
			printf("%s %d\n", comparison->points[i].transport,
				comparison->points[i].ranks);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	struct comparison comparison;
	bool done = true;

	if (strcmp(what, "table") != 0 && strcmp(what, "plot") != 0 &&
		strcmp(what, "missing") != 0) {
		fprintf(stderr, "usage: report table|plot|missing < SAMPLES\n");
		return 2;
	}
	if (!comparison_read(&comparison, stdin))
		return 1;
	if (*what == 't')
		print_table(&comparison);
	else if (*what == 'p')
		done = print_plot(&comparison);
	else
		print_missing(&comparison);
	comparison_finish(&comparison);
	return !done;
}
