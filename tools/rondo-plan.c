/*
 * rondo-plan: shows the plans of collectives, and their predicted times, and writes them to files.
 * docs/rondo-plan.md states the contract.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "files.h"
#include "plan/commands.h"
#include "plan/document.h"
#include "printed.h"

static int write_file(const char *name, const struct plan_timeline *timeline,
	void (*write)(const struct plan_timeline *timeline, FILE *out))
{
	FILE *file = file_create(name);

	if (!file)
		return RONDO_SYSTEM;
	write(timeline, file);
	return file_close(file, name);
}

static int draw(const struct plan_timeline *timeline, const struct plan_options *options)
{
	int err = options->svg ? write_file(options->svg, timeline, plan_picture_write) : 0;

	if (!err && options->html)
		err = write_file(options->html, timeline, plan_page_write);
	return err;
}

static void print(const struct plan_timeline *timeline, const struct plan_options *options)
{
	if (options->json)
		plan_json_write(timeline, options->rank, stdout);
	else if (options->tsv)
		plan_tsv_write(timeline, options->rank, stdout);
	else
		plan_text_write(timeline, options->rank, stdout);
}

static int show(const struct plan_problem *made, const struct plan_options *options)
{
	struct plan_timeline timeline;
	int err = plan_timeline_create(&timeline, made, options);

	if (err)
		return err;
	if (options->action == PLAN_DRAW)
		err = draw(&timeline, options);
	else
		print(&timeline, options);
	plan_timeline_destroy(&timeline);
	return err;
}

static int write_to(struct plan_problem *made, const struct plan_options *options, FILE *out)
{
	switch (options->action) {
	case PLAN_COMPARE:
		return plan_compare(made, options, out);
	case PLAN_DIFF:
		return plan_diff(made, options, out);
	case PLAN_REPLAY:
		return plan_replay(made, options, out);
	default:
		return plan_simulate(made, options, out);
	}
}

/* Writes a document, or a reason alone: a late row, or call, may fail. */
static int write_whole(struct plan_problem *made, const struct plan_options *options)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int err;

	if (!out)
		return rd_fail(RONDO_MEMORY, "no memory for the output");
	err = write_to(made, options, out);
	if (fclose(out) && !err)
		err = rd_fail(RONDO_MEMORY, "no memory for the output");
	if (!err)
		fwrite(text, 1, size, stdout);
	free(text);
	return err;
}

int main(int argc, char **argv)
{
	static struct plan_problem made;
	struct plan_options options;

	rd_stderr_fill();

	int status = plan_options_read(&options, argc, argv);

	if (status)
		return status;

	bool proves = options.action == PLAN_PROVE;
	int err = proves                          ? plan_prove(&options)
		  : options.action == PLAN_IMPORT ? plan_import(&options)
						  : plan_problem_make(&made, &options);

	if (proves && err >= 0)
		return printed_all("rondo-plan") ? err : EXIT_FAILURE;
	if (!err && options.action == PLAN_EXPORT)
		err = plan_export(&made, &options);
	else if (!err && (options.action == PLAN_PRINT || options.action == PLAN_DRAW))
		err = show(&made, &options);
	else if (!err && options.action != PLAN_IMPORT)
		err = write_whole(&made, &options);
	if (err) {
		fprintf(stderr, "rondo-plan: %s\n", rondo_last_error());
		return EXIT_FAILURE;
	}
	return printed_all("rondo-plan") ? EXIT_SUCCESS : EXIT_FAILURE;
}
