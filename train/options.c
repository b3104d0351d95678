#include "train/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo.h>

#include "train/base/fail.h"
#include "train/option_table.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"
#include "train/world/world.h"
#include "base/nearest.h"

/* ---- Help ---- */

#define HELP_COLUMN 20

static const char usage[] =
	"rondo-train: trains a model on one or many ranks.\n"
	"\n"
	"  rondo-train                      alone\n"
	"  rondo-train --ranks 2            on two ranks of this machine\n"
	"  rondo-run ... rondo-train        on the ranks that a launcher starts (rondo-run, "
	"torchrun,\n"
	"                                   mpirun, srun, or RANK, WORLD_SIZE and MASTER_ADDR by "
	"hand)\n";

static const char more[] =
	"\n"
	"  -h, --help, --version\n"
	"\n"
	"OPENBLAS_NUM_THREADS sets the threads a rank computes with. Default: the cores, shared "
	"by\n"
	"the ranks of this machine.\n";

static void print_row(const struct option_row *row)
{
	const char *value = row->value ? row->value : "";
	int width = printf("  --%s%s%s", row->name, *value && *value != '[' ? " " : "", value);
	/* A long name gets a line of its own. */
	if (width >= HELP_COLUMN) {
		printf("\n");
		width = 0;
	}
	for (const char *line = row->help; *line; width = 0) {
		int length = (int)strcspn(line, "\n");
		printf("%*s%.*s\n", HELP_COLUMN - width, "", length, line);
		line += length + (line[length] == '\n');
	}
}

static void print_help(void)
{
	fputs(usage, stdout);
	for (int i = 0; i < option_count; i++) {
		if (option_table[i].name)
			print_row(&option_table[i]);
		else
			printf("\n%s\n", option_table[i].help);
	}
	fputs(more, stdout);
}

/* ---- Values ---- */

int option_number(const char *name)
{
	int i = 0;
	while (!option_table[i].name || strcmp(option_table[i].name, name))
		i++;
	return i;
}

static int take_number(const struct option_row *row, const char *value, int64_t *number)
{
	char *end;
	errno = 0;
	*number = strtoll(value, &end, 10);
	if (errno || end == value || *end || *number < row->low || (double)*number > row->high)
		return fail("--%s %s: not a number from %.0f to %.0f", row->name, value, row->low,
			row->high);
	return 0;
}

static int take_real(const struct option_row *row, const char *value, double *real)
{
	char *end;
	*real = strtod(value, &end);
	/* NaN must fail, too. */
	if (end == value || *end || !(*real > row->low && *real <= row->high))
		return fail("--%s %s: not a number %s, at most %g", row->name, value,
			row->low < 0 ? "from 0" : "above 0", row->high);
	return 0;
}

static int take_name(const struct option_row *row, const char *value, int *which)
{
	struct rd_nearest nearest = RD_NEAREST(value);
	char list[256] = "", meant[RD_NEAREST_TEXT];
	for (*which = 0; row->names[*which]; ++*which) {
		const char *name = row->names[*which];
		if (!strcmp(name, value))
			return 0;
		rd_nearest_try(&nearest, name);
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			*which ? ", " : "", name);
	}
	return fail("--%s %s: not one of %s%s", row->name, value, list,
		rd_nearest_text(&nearest, meant));
}

int option_take(struct options *options, const struct option_row *row, const char *value)
{
	void *field = (char *)options + row->offset;
	int64_t number;
	int err = 0;
	switch (row->type) {
	case OPTION_FLAG:
		/* A checkpoint has "on". */
		if (value && strcmp(value, "on") && strcmp(value, "0"))
			return fail("--%s=%s: takes no value but 0", row->name, value);
		*(bool *)field = !value || strcmp(value, "0");
		break;
	case OPTION_TEXT:
		if (!*value)
			return fail("--%s: its value is empty", row->name);
		*(const char **)field = value;
		break;
	case OPTION_COUNT:
		err = take_number(row, value, &number);
		if (!err)
			*(int *)field = (int)number;
		break;
	case OPTION_NUMBER:
		err = take_number(row, value, field);
		break;
	case OPTION_REAL:
		err = take_real(row, value, field);
		break;
	case OPTION_NAME:
		err = take_name(row, value, field);
		break;
	case OPTION_OWN:
		err = row->take(options, value);
		break;
	}
	return err;
}

/* ---- Parsing ---- */

/* Fails for a word that is no option, or lacks its value. */
static int fail_option(const char *word)
{
	char name[64];
	struct rd_nearest nearest = RD_NEAREST(name);
	char meant[RD_NEAREST_TEXT];
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	if (strncmp(name, "--", 2) == 0) {
		memmove(name, name + 2, strlen(name + 2) + 1);
		for (int i = 0; i < option_count; i++)
			if (option_table[i].name && !strcmp(name, option_table[i].name))
				return fail("--%s: its value is missing, or it takes none (--help "
					    "lists them)",
					name);
	}
	for (int i = 0; i < option_count; i++)
		if (option_table[i].name)
			rd_nearest_try(&nearest, option_table[i].name);
	if (strncmp(word, "--", 2) || !*rd_nearest_text(&nearest, meant))
		return fail("%s: no such option (--help lists them)", word);
	return fail(
		"%s: no such option; did you mean --%s? (--help lists them)", word, nearest.name);
}

/* A file that two options write would keep neither's content. */
static int check_outputs(const struct options *options)
{
	const struct metrics_files *metrics = &options->metrics;
	struct {
		const char *option, *path;
	} outputs[3 + METRICS_FILES_MAX] = {
		{ "checkpoint", options->checkpoint },
		{ "export", options->export },
		{ "trace", options->trace },
	};
	int count = 3;
	for (int i = 0; i < metrics->count; i++, count++) {
		outputs[count].option = "metrics";
		outputs[count].path = metrics->paths[i];
	}
	for (int i = 0; i < count; i++)
		for (int j = 0; j < i && outputs[i].path; j++)
			if (outputs[j].path && !strcmp(outputs[i].path, outputs[j].path))
				return fail("--%s and --%s: both write %s; give each its own file",
					outputs[j].option, outputs[i].option, outputs[i].path);
	return 0;
}

/* Files of safetensors have no escapes here. */
static int check_kept(const struct options *options)
{
	const char *const texts[] = { options->data, options->test_data };
	for (int i = 0; i < 2 && options->checkpoint; i++)
		for (const char *at = texts[i]; at && *at; at++)
			if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
				return fail("--checkpoint: cannot keep the name %s, for its quote, "
					    "backslash or control character: use a link",
					texts[i]);
	return 0;
}

static int check(const struct options *options)
{
	struct rondo_launch launch;
	int err = world_find_launch(&launch);
	if (err)
		return err;
	if (options->auto_resume && !options->checkpoint)
		return fail("--auto-resume: give the file to --checkpoint");
	if (options->auto_resume && options->resume)
		return fail("--auto-resume and --resume: give one of them");
	if (options->shrink && (options->zero || options->tensor > 1 || options->pipeline > 1))
		return fail(
			"--shrink: no other rank has a dead rank's part, with --zero, --tensor or "
			"--pipeline: save a --checkpoint, and --resume it");
	if (options->shrink && options->deterministic)
		return fail("--shrink: the ranks that are left may be too many or few for "
			    "--deterministic");
	if (options->shrink && (options->metrics.count || options->trace))
		return fail("--shrink: rank 0, which may die, writes --metrics and --trace");
	if (options->shrink && options->ranks > 1)
		return fail("--shrink: --ranks ends all when one fails: start them by rondo-run "
			    "--keep-going");
	if (options->batch > 0 && options->global_batch > 0)
		return fail("--batch and --global-batch: give one of them");
	if (options->ranks > 0 && launch.size > 1)
		return fail("--ranks: a launcher (%s) has started %d ranks already",
			launch.launcher, launch.size);
	if (options->fetch && launch.size > 1)
		return fail("--fetch: run it once, without a launcher, before training");
	if (options->fetch && options->set && !options->set->url)
		return fail("--fetch: the %s set has no publisher", options->set->name);
	/* Before anything is fetched. A checkpoint may name another model. */
	const struct network *network = options->network ? options->network : network_named("mlp");
	bool is_known = options->network || !(options->resume || options->auto_resume);
	if (options->set && is_known && options->set->kind != network->data)
		return fail("--dataset %s: --model %s reads %s files, not %s files",
			options->set->name, network->name, network->data->name,
			options->set->kind->name);
	err = check_kept(options);
	return err ? err : check_outputs(options);
}

/* Codes of getopt_long(): above all characters, so that '?' is an error alone. */
enum { CODE_HELP = 256, CODE_VERSION, CODE_ROWS };

static int parse(struct options *options, int argc, char **argv, struct option *longs)
{
	int option, count = 0;
	for (int i = 0; i < option_count; i++) {
		const struct option_row *row = &option_table[i];
		if (row->name)
			longs[count++] = (struct option){ row->name,
				!row->value            ? no_argument
				: row->value[0] == '[' ? optional_argument
						       : required_argument,
				NULL, CODE_ROWS + i };
	}
	longs[count++] = (struct option){ "help", no_argument, NULL, CODE_HELP };
	longs[count] = (struct option){ "version", no_argument, NULL, CODE_VERSION };
	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (option == 'h' || option == CODE_HELP) {
			print_help();
			return -1;
		}
		if (option == CODE_VERSION) {
			printf("rondo-train %s\n", rondo_version());
			return -1;
		}
		int err = option == '?'
				  ? fail_option(argv[optind - 1])
				  : option_take(options, &option_table[option - CODE_ROWS], optarg);
		if (!err)
			options->given[option - CODE_ROWS] = true;
		if (err)
			return err;
	}
	return 0;
}

int options_parse(struct options *options, int argc, char **argv)
{
	*options = (struct options){ .data = "data",
		.ranks = -1,
		.epochs = -1,
		.batch = -1,
		.global_batch = -1,
		.seed = -1,
		.bucket_mb = -1,
		.learning_rate = -1,
		.optimizer = -1,
		.momentum = -1,
		.weight_decay = -1,
		.beta1 = 0.9,
		.beta2 = 0.999,
		.threads = 1,
		.report_every = 100,
		.accumulate = 1,
		.tensor = 1,
		.pipeline = 1,
		.shards = 8,
		.lr_period = 1,
		.lr_gamma = 0.1 };
	struct option *longs = calloc(option_count + 3, sizeof(*longs));
	if (!longs)
		return fail("out of memory");
	int err = parse(options, argc, argv, longs);
	free(longs);
	if (!err && optind < argc)
		err = fail("%s: an argument that means nothing here (--help lists the options)",
			argv[optind]);
	return err ? err : check(options);
}

int options_refuse_idle(const struct options *options)
{
	bool sgd = options->optimizer == OPTIMIZER_SGD;
	const struct {
		const char *name;
		bool has_effect;
		const char *needs;
	} rows[] = {
		{ "tokens", options->network->tokens > 0, "a model of texts" },
		{ "tensor", options->tensor == 1 || options->network->shares_layers,
			"--model mlp or a gpt, whose layers ranks can share" },
		{ "momentum", sgd, "--optimizer sgd" },
		{ "nesterov", !options->nesterov || (sgd && options->momentum > 0),
			"--optimizer sgd with a --momentum above 0" },
		{ "beta1", !sgd, "--optimizer adam or adamw" },
		{ "beta2", !sgd, "--optimizer adam or adamw" },
		{ "lr-period", options->schedule == SCHEDULE_STEP, "--schedule step" },
		{ "lr-gamma", options->schedule == SCHEDULE_STEP, "--schedule step" },
		{ "min-lr", options->schedule == SCHEDULE_COSINE, "--schedule cosine" },
		{ "shards", options->deterministic, "--deterministic" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (options->given[option_number(rows[i].name)] && !rows[i].has_effect)
			return fail("--%s has no effect here: it needs %s", rows[i].name,
				rows[i].needs);
	return 0;
}
