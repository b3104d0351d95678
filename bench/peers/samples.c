#include "samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEADY 1.5 /* greater changes of distance or pace than by this factor spoil a sample */

static const char *const names[PROGRAMS] = { "rondo", "rondo-registered", "openmpi", "openmpi-sm",
	"mpich", "gloo", "gloo-polling", "line", "slots", "single-copy", "sockets" };
static const char *const titles[PROGRAMS] = { "Rondo", "Rondo, registered", "Open MPI",
	"Open MPI, coll/sm", "MPICH", "Gloo", "Gloo, polling", "Bare lines", "Bare slots",
	"Bare single copy", "Bare sockets" };

const char *program_name(enum program program)
{
	return names[program];
}

const char *program_title(enum program program)
{
	return titles[program];
}

static int program_of(const char *name)
{
	for (int i = 0; i < PROGRAMS; i++) {
		if (strcmp(names[i], name) == 0)
			return i;
	}
	return -1;
}

static bool apart(double a, double b)
{
	return fmax(a, b) > STEADY * fmin(a, b);
}

/* ---- Reading ---- */

static bool same_point(const struct point *a, const struct point *b)
{
	return strcmp(a->transport, b->transport) == 0 &&
	       strcmp(a->collective, b->collective) == 0 && a->ranks == b->ranks &&
	       a->size == b->size;
}

static struct point *find_or_add(struct comparison *comparison, const struct point *wanted)
{
	for (size_t i = 0; i < comparison->count; i++) {
		if (same_point(&comparison->points[i], wanted))
			return &comparison->points[i];
	}
	struct point *points =
		realloc(comparison->points, (comparison->count + 1) * sizeof(*points));
	if (!points)
		return NULL;
	comparison->points = points;
	points[comparison->count] = *wanted;
	return &points[comparison->count++];
}

static bool add_sample(struct point *point, int program, struct sample sample)
{
	size_t count = point->counts[program];
	struct sample *samples = realloc(point->samples[program], (count + 1) * sizeof(*samples));

	if (!samples)
		return false;
	samples[count] = sample;
	point->samples[program] = samples;
	point->counts[program]++;
	return true;
}

static bool read_line(struct comparison *comparison, const char *line)
{
	struct point wanted = { .line_ns = NAN, .pace_ns = NAN };
	double line_ns[2], pace_ns[2], time_us, p90_us;
	char name[32];

	if (sscanf(line, "%15s %d %31s %31s %zu %lf %lf %lf %lf %lf %lf", wanted.transport,
		    &wanted.ranks, name, wanted.collective, &wanted.size, &line_ns[0], &pace_ns[0],
		    &time_us, &line_ns[1], &pace_ns[1], &p90_us) != 11)
		return false;
	int program = program_of(name);
	struct point *point = program < 0 ? NULL : find_or_add(comparison, &wanted);
	struct sample sample = {
		.line_ns = (line_ns[0] + line_ns[1]) / 2,
		.pace_ns = (pace_ns[0] + pace_ns[1]) / 2,
		.steady = !apart(line_ns[0], line_ns[1]) && !apart(pace_ns[0], pace_ns[1]),
		.time_us = time_us,
		.p90_us = p90_us,
	};
	return point && add_sample(point, program, sample);
}

/* ---- Pairing ---- */

/* Within the square root of the factor on either side: any two in it are not apart. */
static bool alike(double a, double b)
{
	return fmax(a, b) <= sqrt(STEADY) * fmin(a, b);
}

static bool near(const struct sample *sample, double line_ns, double pace_ns)
{
	return sample->steady && alike(sample->line_ns, line_ns) && alike(sample->pace_ns, pace_ns);
}

static size_t samples_near(const struct point *point, int program, double line_ns, double pace_ns)
{
	size_t found = 0;

	for (size_t i = 0; i < point->counts[program]; i++)
		found += near(&point->samples[program][i], line_ns, pace_ns);
	return found;
}

/* How good it would be to compare where this sample was taken: first the programs that were met
   there, then the samples of the one that was met least. */
static double merit(const struct point *point, const struct sample *sample)
{
	double programs = 0, least = 1e6;

	for (int program = 0; program < PROGRAMS; program++) {
		double found =
			(double)samples_near(point, program, sample->line_ns, sample->pace_ns);
		programs += found > 0;
		least = found > 0 ? fmin(least, found) : least;
	}
	return programs * 1e6 + least;
}

static void choose_machine(struct point *point)
{
	double best_merit = -1;

	for (int program = 0; program < PROGRAMS; program++) {
		for (size_t i = 0; i < point->counts[program]; i++) {
			const struct sample *sample = &point->samples[program][i];
			double worth = merit(point, sample);
			if (worth > best_merit) {
				point->line_ns = sample->line_ns;
				point->pace_ns = sample->pace_ns;
				best_merit = worth;
			}
		}
	}
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), ascending);
	return count ? (values[(count - 1) / 2] + values[count / 2]) / 2 : NAN;
}

static bool take_medians(struct point *point, int program)
{
	size_t count = point->counts[program], kept = 0;
	double *times = calloc(2 * count + 1, sizeof(*times)), *p90s = times + count;

	if (!times)
		return false;
	point->paired[program] = samples_near(point, program, point->line_ns, point->pace_ns) > 0;
	for (size_t i = 0; i < count; i++) {
		const struct sample *sample = &point->samples[program][i];
		if (point->paired[program] && !near(sample, point->line_ns, point->pace_ns))
			continue;
		times[kept] = sample->time_us;
		p90s[kept++] = sample->p90_us;
	}
	point->time_us[program] = median(times, kept);
	point->p90_us[program] = median(p90s, kept);
	free(times);
	return true;
}

static bool conclude(struct point *point)
{
	choose_machine(point);
	for (int program = 0; program < PROGRAMS; program++) {
		if (!take_medians(point, program))
			return false;
	}
	return true;
}

bool comparison_read(struct comparison *comparison, FILE *in)
{
	char line[256];

	*comparison = (struct comparison){ 0 };
	while (fgets(line, sizeof(line), in)) {
		if (!read_line(comparison, line)) {
			fprintf(stderr, "this is no sample: %s", line);
			comparison_finish(comparison);
			return false;
		}
	}
	for (size_t i = 0; i < comparison->count; i++) {
		if (!conclude(&comparison->points[i])) {
			comparison_finish(comparison);
			return false;
		}
	}
	return true;
}

void comparison_finish(struct comparison *comparison)
{
	for (size_t i = 0; i < comparison->count; i++) {
		for (int program = 0; program < PROGRAMS; program++)
			free(comparison->points[i].samples[program]);
	}
	free(comparison->points);
	*comparison = (struct comparison){ 0 };
}

int point_best_peer(const struct point *point)
{
	int best = -1;

	for (int program = OPENMPI; program <= GLOO_POLLING; program++) {
		if (point->counts[program] &&
			(best < 0 || point->time_us[program] < point->time_us[best]))
			best = program;
	}
	return best;
}
