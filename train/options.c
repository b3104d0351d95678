#include "train/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo.h>

#include "train/checkpoint/checkpoint.h"
#include "train/base/fail.h"
#include "launch.h"
#include "base/nearest.h"
#include "train/world/world.h"

static const char usage[] =
	"rondo-train: trains an image classifier (784-512-512-10, ReLU) on one or many ranks.\n"
	"\n"
	"  rondo-train                      alone\n"
	"  rondo-train --ranks 2            on two ranks of this machine\n"
	"  rondo-run ... rondo-train        on the ranks that a launcher starts (rondo-run, "
	"torchrun,\n"
	"                                   or RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT by "
	"hand)\n"
	"\n"
	"Data\n"
	"  --data DIR        where the set lies: the four IDX files (.gz or not) in DIR, or in\n"
	"                    DIR/FashionMNIST/raw or DIR/MNIST/raw. Default: data\n"
	"  --dataset NAME    fashion (FashionMNIST), digits (MNIST), or drawn: 60,000 + 10,000 "
	"digits\n"
	"                    that rondo-train draws itself into DIR/drawn. Default: what is "
	"there;\n"
	"                    drawn where DIR is empty or not there\n"
	"  --fetch[=URL]     first fetch the set (default: fashion) into DIR with curl or wget, "
	"from\n"
	"                    where it is published or from a mirror, and check its hashes\n"
	"\n"
	"Training\n"
	"  --ranks N         start N ranks here. Default: 1\n"
	"  --device NAME     cpu, or cuda: rank r of a machine computes on GPU r, modulo the GPUs "
	"that\n"
	"                    it has; several ranks may share one. Default: cpu\n"
	"  --epochs N        stop after epoch N. Default: 5\n"
	"  --batch N         images a rank takes in a step. Default: 64\n"
	"  --global-batch N  images all ranks together take in a step; the loss is then the same\n"
	"                    on any number of ranks that divides it. Default: ranks x batch\n"
	"  --lr X            learning rate. Default: 0.05\n"
	"  --seed N          of the first parameters and of the order of images. Default: 1\n"
	"  --bucket-mb X     gradients travel in buckets of at most X MiB. Default: 2\n"
	"\n"
	"Checkpoints\n"
	"  --checkpoint FILE save after every epoch\n"
	"  --resume FILE     go on from there, with the seed, global batch, learning rate and "
	"buckets\n"
	"                    it was made with where none are given\n"
	"\n"
	"Reports\n"
	"  --metrics FILE    write loss, accuracy and speed to FILE.csv, or to FILE.jsonl as JSON\n"
	"                    lines; may be repeated\n"
	"  --tensorboard DIR write them as an event file for TensorBoard\n"
	"  --trace FILE      write what each rank does when, for Perfetto or chrome://tracing\n"
	"\n"
	"  -h, --help, --version\n"
	"\n"
	"OPENBLAS_NUM_THREADS sets the threads a rank computes with. Default: the cores, shared "
	"by\n"
	"the ranks of this machine.\n";

enum {
	OPTION_DATA = 1,
	OPTION_DATASET,
	OPTION_FETCH,
	OPTION_RANKS,
	OPTION_DEVICE,
	OPTION_EPOCHS,
	OPTION_BATCH,
	OPTION_GLOBAL_BATCH,
	OPTION_LR,
	OPTION_SEED,
	OPTION_BUCKET_MB,
	OPTION_CHECKPOINT,
	OPTION_RESUME,
	OPTION_METRICS,
	OPTION_TENSORBOARD,
	OPTION_TRACE,
	OPTION_HELP,
	OPTION_VERSION,
};

static const struct option longs[] = {
	{ "data", required_argument, NULL, OPTION_DATA },
	{ "dataset", required_argument, NULL, OPTION_DATASET },
	{ "fetch", optional_argument, NULL, OPTION_FETCH },
	{ "ranks", required_argument, NULL, OPTION_RANKS },
	{ "device", required_argument, NULL, OPTION_DEVICE },
	{ "epochs", required_argument, NULL, OPTION_EPOCHS },
	{ "batch", required_argument, NULL, OPTION_BATCH },
	{ "global-batch", required_argument, NULL, OPTION_GLOBAL_BATCH },
	{ "lr", required_argument, NULL, OPTION_LR },
	{ "seed", required_argument, NULL, OPTION_SEED },
	{ "bucket-mb", required_argument, NULL, OPTION_BUCKET_MB },
	{ "checkpoint", required_argument, NULL, OPTION_CHECKPOINT },
	{ "resume", required_argument, NULL, OPTION_RESUME },
	{ "metrics", required_argument, NULL, OPTION_METRICS },
	{ "tensorboard", required_argument, NULL, OPTION_TENSORBOARD },
	{ "trace", required_argument, NULL, OPTION_TRACE },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ NULL, 0, NULL, 0 },
};

static int parse_number(const char *name, int64_t low, int64_t high, int64_t *number)
{
	char *end;
	errno = 0;
	*number = strtoll(optarg, &end, 10);
	if (errno || end == optarg || *end || *number < low || *number > high)
		return fail("--%s %s: not a number from %lld to %lld", name, optarg, (long long)low,
			(long long)high);
	return 0;
}

static int parse_count(const char *name, int high, int *count)
{
	int64_t number;
	int err = parse_number(name, 1, high, &number);
	if (!err)
		*count = number;
	return err;
}

static int parse_real(const char *name, double high, double *real)
{
	char *end;
	*real = strtod(optarg, &end);
	/* NaN must fail, too. */
	if (end == optarg || *end || !(*real > 0 && *real <= high))
		return fail("--%s %s: not a number above 0, at most %g", name, optarg, high);
	return 0;
}

/* Fails for a name that is none of `names`, which end with NULL. */
static int fail_name(const char *option, const char *wanted, const char *const names[])
{
	struct rd_nearest nearest = RD_NEAREST(optarg);
	char meant[RD_NEAREST_TEXT];
	for (; *names; names++)
		rd_nearest_try(&nearest, *names);
	return fail("--%s %s: not one of %s%s", option, optarg, wanted,
		rd_nearest_text(&nearest, meant));
}

static int parse_device(enum device_kind *device)
{
	static const char *const names[] = { "cpu", "cuda", NULL };
	if (strcmp(optarg, "cpu") && strcmp(optarg, "cuda"))
		return fail_name("device", "cpu, cuda", names);
	*device = strcmp(optarg, "cuda") ? DEVICE_CPU : DEVICE_CUDA;
	return 0;
}

static int parse_set(const struct set **set)
{
	static const char *const names[] = { "fashion", "digits", "drawn", NULL };
	*set = set_named(optarg);
	return *set ? 0 : fail_name("dataset", "fashion, digits, drawn", names);
}

static int parse_metrics(struct metrics_files *files)
{
	if (!metrics_format_of(optarg))
		return fail("--metrics %s: ends in neither .csv nor .jsonl", optarg);
	for (int i = 0; i < files->count; i++) {
		if (!strcmp(files->paths[i], optarg))
			return fail("--metrics %s: given twice", optarg);
	}
	if (files->count == METRICS_FILES_MAX)
		return fail("--metrics %s: more than %d files", optarg, METRICS_FILES_MAX);
	files->paths[files->count++] = optarg;
	return 0;
}

/* Fails for a word that is no option, or lacks its value. */
static int fail_option(const char *word)
{
	char name[64];
	struct rd_nearest nearest = RD_NEAREST(name);
	char meant[RD_NEAREST_TEXT];
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	for (const struct option *at = longs; strncmp(name, "--", 2) == 0 && at->name; at++) {
		if (!strcmp(name + 2, at->name))
			return fail(
				"%s: its value is missing, or it takes none (--help lists them)",
				name);
	}
	if (strncmp(name, "--", 2) == 0)
		memmove(name, name + 2, strlen(name + 2) + 1);
	for (const struct option *at = longs; at->name; at++)
		rd_nearest_try(&nearest, at->name);
	if (strncmp(word, "--", 2) || !*rd_nearest_text(&nearest, meant))
		return fail("%s: no such option (--help lists them)", word);
	return fail(
		"%s: no such option; did you mean --%s? (--help lists them)", word, nearest.name);
}

static int parse_option(struct options *options, int option, const char *name)
{
	switch (option) {
	case OPTION_DATA:
		options->data = optarg;
		return 0;
	case OPTION_DATASET:
		return parse_set(&options->set);
	case OPTION_FETCH:
		options->fetch = true;
		options->mirror = optarg;
		return 0;
	case OPTION_RANKS:
		return parse_count(name, 4096, &options->ranks);
	case OPTION_DEVICE:
		return parse_device(&options->device);
	case OPTION_EPOCHS:
		return parse_count(name, 1000000, &options->epochs);
	case OPTION_BATCH:
		return parse_count(name, 65536, &options->batch);
	case OPTION_GLOBAL_BATCH:
		return parse_count(name, CHECKPOINT_BATCH_MAX, &options->global_batch);
	case OPTION_LR:
		return parse_real(name, 1e6, &options->learning_rate);
	case OPTION_SEED:
		return parse_number(name, 0, INT64_MAX, &options->seed);
	case OPTION_BUCKET_MB:
		return parse_real(name, 1 << 20, &options->bucket_mb);
	case OPTION_CHECKPOINT:
		options->checkpoint = optarg;
		return 0;
	case OPTION_RESUME:
		options->resume = optarg;
		return 0;
	case OPTION_METRICS:
		return parse_metrics(&options->metrics);
	case OPTION_TENSORBOARD:
		options->metrics.tensorboard = optarg;
		return 0;
	case OPTION_TRACE:
		options->trace = optarg;
		return 0;
	case OPTION_HELP:
	case 'h':
		fputs(usage, stdout);
		return -1;
	case OPTION_VERSION:
		printf("rondo-train %s\n", rondo_version());
		return -1;
	}
	return fail_option(name);
}

static int check(const struct options *options)
{
	char line[LAUNCH_LINE];
	if (launch_unclear(line))
		return fail("%s", line);
	if (options->batch > 0 && options->global_batch > 0)
		return fail("--batch and --global-batch: give one of them");
	if (options->ranks > 0 && world_launched())
		return fail(
			"--ranks: a launcher has started the ranks already (WORLD_SIZE is set)");
	if (options->fetch && world_launched())
		return fail("--fetch: run it once, without a launcher, before training");
	if (options->fetch && options->set && !options->set->url)
		return fail("--fetch: the %s set is not fetched, but drawn", options->set->name);
	return 0;
}

int options_parse(struct options *options, int argc, char **argv)
{
	*options = (struct options){ .data = "data",
		.ranks = -1,
		.epochs = 5,
		.batch = -1,
		.global_batch = -1,
		.learning_rate = -1,
		.seed = -1,
		.bucket_mb = -1 };
	int option, index = 0, err;
	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, "h", longs, &index)) != -1) {
		bool known = option != '?' && option != ':' && option != 'h';
		err = parse_option(options, option, known ? longs[index].name : argv[optind - 1]);
		if (err)
			return err;
	}
	if (optind < argc)
		return fail("%s: an argument that means nothing here (--help lists the options)",
			argv[optind]);
	return check(options);
}
