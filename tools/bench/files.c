#include "files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "plot.h"

static bool fail_output(const char *path)
{
	fprintf(stderr, "rondo-bench: cannot write %s: %s\n", path, strerror(errno));
	return false;
}

/* Does not truncate: replace() does. */
static bool open_output(FILE **file, const char *path)
{
	*file = path ? rd_fopen(path, O_WRONLY | O_CREAT | O_APPEND) : NULL;
	return *file || !path || fail_output(path);
}

bool bench_files_open(struct bench_files *files, const struct bench_options *options)
{
	return open_output(&files->json, options->json) && open_output(&files->svg, options->svg);
}

static void replace(FILE *file)
{
	struct stat status;

	if (fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode))
		(void)!ftruncate(fileno(file), 0);
}

static bool close_output(FILE **file, const char *path)
{
	bool written = !ferror(*file);

	written = fclose(*file) == 0 && written;
	*file = NULL;
	return written || fail_output(path);
}

static void set_points(const struct bench_results *results, double *points[5])
{
	for (size_t i = 0; i < results->count; i++) {
		const struct bench_row *row = &results->rows[i];
		points[0][i] = (double)row->size;
		points[1][i] = row->out_of_place.time_us;
		points[2][i] = row->in_place.time_us;
		points[3][i] = row->out_of_place.busbw;
		points[4][i] = row->in_place.busbw;
	}
}

static bool write_svg(struct bench_files *files, const struct bench_options *options, int ranks,
	const struct bench_results *results)
{
	double *numbers = calloc(5 * results->count + 1, sizeof(*numbers)), *points[5];
	char title[128];

	if (!numbers)
		return fail_output(options->svg);
	for (int i = 0; i < 5; i++)
		points[i] = numbers + (size_t)i * results->count;
	set_points(results, points);
	const struct plot_series time[] = { { "out of place", 0, false, results->count, points[0],
						    points[1] },
		{ "in place", 1, true, results->count, points[0], points[2] } };
	const struct plot_series busbw[] = { { "out of place", 0, false, results->count, points[0],
						     points[3] },
		{ "in place", 1, true, results->count, points[0], points[4] } };
	const struct plot_panel panels[] = {
		{ "Time", "size (bytes)", "time (us)", time, 2 },
		{ "Bus bandwidth", "size (bytes)", "bus bandwidth (GB/s)", busbw, 2 },
	};
	snprintf(title, sizeof(title), "%s, %d rank%s, rondo %s", options->collective->name, ranks,
		ranks == 1 ? "" : "s", rondo_version());
	replace(files->svg);
	plot_write(files->svg, title, panels, 2, 2);
	free(numbers);
	return close_output(&files->svg, options->svg);
}

bool bench_files_write(struct bench_files *files, const struct bench_options *options, char **argv,
	int ranks, const struct bench_results *results)
{
	bool written = true;

	if (files->json) {
		replace(files->json);
		bench_json_write(files->json, options, argv, ranks, results);
		written = close_output(&files->json, options->json);
	}
	if (files->svg)
		written = write_svg(files, options, ranks, results) && written;
	return written;
}

void bench_files_close(struct bench_files *files)
{
	if (files->json)
		fclose(files->json);
	if (files->svg)
		fclose(files->svg);
}
