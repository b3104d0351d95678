#include "train/plot.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "train/base/draft.h"
#include "train/base/fail.h"
#include "train/metrics/curves.h"

static const char usage[] =
	"rondo-train plot FILE... [-o FILE.svg]: draws loss, accuracy and throughput of runs.\n"
	"\n"
	"FILE is that of --metrics, .jsonl or .csv. The picture's name is that of the first FILE\n"
	"with .svg in place of its end, or the one after -o; - is the standard output.\n";

/* run.jsonl -> run.svg */
static int name_picture(char picture[PATH_MAX], const char *path)
{
	const char *dot = strrchr(path, '.');
	int stem = dot ? (int)(dot - path) : (int)strlen(path);
	int length = snprintf(picture, PATH_MAX, "%.*s.svg", stem, path);
	return length < PATH_MAX ? 0 : fail("%s: the name is too long", path);
}

static int draw_to_stdout(char **paths, int count)
{
	int err = curves_draw(stdout, (const char *const *)paths, count);
	if (!err && (fflush(stdout) || ferror(stdout)))
		err = fail("cannot write the picture: %s", strerror(errno));
	return err;
}

static int draw_to_file(const char *picture, char **paths, int count)
{
	struct draft draft;
	int err = draft_open(&draft, picture);
	if (err)
		return err;
	err = curves_draw(draft.file, (const char *const *)paths, count);
	if (err) {
		draft_discard(&draft);
		return err;
	}
	err = draft_finish(&draft, NULL);
	if (!err)
		printf("Saved %s\n", picture);
	return err;
}

int plot_command(int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 } };
	char picture[PATH_MAX] = "";
	int option;
	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, "ho:", longs, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		if (option != 'o')
			return fail("plot %s: no such option, or its value is missing (--help "
				    "lists them)",
				argv[optind - 1]);
		snprintf(picture, sizeof(picture), "%s", optarg);
	}
	char **paths = argv + optind;
	int count = argc - optind, err = 0;
	if (!count)
		return fail("plot: which FILE.jsonl or FILE.csv? (--help describes it)");
	if (!*picture)
		err = name_picture(picture, paths[0]);
	if (err)
		return err;
	return strcmp(picture, "-") ? draw_to_file(picture, paths, count)
				    : draw_to_stdout(paths, count);
}
