#include "train/option_table.h"

#include <float.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/checkpoint/checkpoint.h"
#include "train/data/loader.h"
#include "base/nearest.h"
#include "train/model/networks.h"

static int take_set(struct options *options, const char *value)
{
	struct rd_nearest nearest = RD_NEAREST(value);
	char meant[RD_NEAREST_TEXT], names[256] = "";
	options->set = set_named(value);
	if (options->set)
		return 0;
	for (int i = 0; set_name(i); i++) {
		size_t length = strlen(names);
		snprintf(
			names + length, sizeof(names) - length, "%s%s", i ? ", " : "", set_name(i));
		rd_nearest_try(&nearest, set_name(i));
	}
	return fail(
		"--dataset %s: not one of %s%s", value, names, rd_nearest_text(&nearest, meant));
}

static int take_fetch(struct options *options, const char *value)
{
	options->fetch = true;
	options->mirror = value;
	return 0;
}

static int take_model(struct options *options, const char *value)
{
	struct rd_nearest nearest = RD_NEAREST(value);
	char meant[RD_NEAREST_TEXT];
	options->network = network_named(value);
	if (options->network)
		return 0;
	for (const struct network *network = networks; network->name; network++)
		rd_nearest_try(&nearest, network->name);
	return fail("--model %s: no such model (--help lists them)%s", value,
		rd_nearest_text(&nearest, meant));
}

static int take_metrics(struct options *options, const char *value)
{
	struct metrics_files *files = &options->metrics;
	if (!metrics_format_of(value))
		return fail("--metrics %s: ends in neither .csv nor .jsonl", value);
	for (int i = 0; i < files->count; i++) {
		if (!strcmp(files->paths[i], value))
			return fail("--metrics %s: given twice", value);
	}
	if (files->count == METRICS_FILES_MAX)
		return fail("--metrics %s: more than %d files", value, METRICS_FILES_MAX);
	files->paths[files->count++] = value;
	return 0;
}

static const char *const devices[] = { "cpu", "cuda", NULL };
static const char *const compressions[] = { "no", "fp16", "bf16", NULL };
static const char *const precisions[] = { "f32", "bf16", "f16", NULL };
static const char *const optimizers[] = { "sgd", "adam", "adamw", NULL };
static const char *const schedules[] = { "constant", "step", "cosine", NULL };

/* Below INT64_MAX, and exact in a double. */
#define NUMBER_MAX 1e18
#define AT(field) offsetof(struct options, field)
#define SECTION(title) \
	{ \
		.help = title \
	}
#define FLAG(name, field, help) \
	{ \
		name, NULL, help, OPTION_FLAG, AT(field), 0, 0, NULL, NULL \
	}
/* A checkpoint keeps it, and "=0" clears it there. */
#define KEPT_FLAG(name, field, help) \
	{ \
		name, "[=0]", help, OPTION_FLAG, AT(field), 0, 0, NULL, NULL \
	}
#define TEXT(name, value, field, help) \
	{ \
		name, value, help, OPTION_TEXT, AT(field), 0, 0, NULL, NULL \
	}
#define COUNT(name, field, high, help) \
	{ \
		name, "N", help, OPTION_COUNT, AT(field), 1, high, NULL, NULL \
	}
#define REAL(name, field, low, high, help) \
	{ \
		name, "X", help, OPTION_REAL, AT(field), low, high, NULL, NULL \
	}
#define NAME(name, field, names, help) \
	{ \
		name, "NAME", help, OPTION_NAME, AT(field), 0, 0, names, NULL \
	}
#define OWN(name, value, take, help) \
	{ \
		name, value, help, OPTION_OWN, 0, 0, 0, NULL, take \
	}
/* Zero is allowed. */
#define OR_ZERO (-DBL_MIN)
/* Below 1, also as a float: Adam divides by 1 - beta. */
#define BETA_MAX 0.999999

const struct option_row option_table[] = {
	SECTION("Data"),
	TEXT("data", "DIR", data,
		"where the set lies: its files (.gz or not) in DIR, or in its folder there,\n"
		"such as DIR/FashionMNIST/raw. Or a file: any text. Default: data"),
	TEXT("test-data", "FILE", test_data,
		"the text to test on. Default: the last tenth of the text"),
	OWN("dataset", "NAME", take_set,
		"fashion (FashionMNIST), digits (MNIST), cifar10 (CIFAR-10), text (the file\n"
		"of --data), or a set that rondo-train draws itself into DIR/NAME: drawn\n"
		"(digits), drawn-cifar (in colours) or drawn-text. Default: the set that DIR\n"
		"holds for the model; a drawn one where DIR is empty or not there"),
	OWN("fetch", "[=URL]", take_fetch,
		"first fetch the set (default: the model's) into DIR with curl or wget, from\n"
		"where it is published or from a mirror, and check its hashes"),
	{ "workers", "N",
		"threads of each rank that prepare the next batches. Default: 0, each\n"
		"batch is prepared when its step begins",
		OPTION_COUNT, AT(workers), 0, LOADER_WORKERS_MAX, NULL, NULL },

	SECTION("Model"),
	OWN("model", "NAME", take_model,
		"mlp: 784-512-512-10 with ReLU, as in the PyTorch quickstart; convnet: two\n"
		"convolutions with batch norm; lenet: two convolutions and three linear\n"
		"layers; gpt, gpt-nano, gpt-micro, gpt-mini or gpt2: GPT-2 on bytes, the\n"
		"last with 124M parameters. Default: mlp"),
	COUNT("tokens", tokens, 65536,
		"context of gpt: tokens of a sample. Default: the model's, 64 to 1024"),

	SECTION("Training"),
	COUNT("ranks", ranks, 4096, "start N ranks here. Default: 1"),
	COUNT("threads", threads, 64,
		"start N ranks as threads of this process, or of each that --ranks or a\n"
		"launcher starts. Default: 1"),
	NAME("device", device, devices,
		"cpu, or cuda: rank r of a machine computes on GPU r, modulo the GPUs that\n"
		"it has; several ranks may share one. Default: cpu"),
	NAME("precision", precision, precisions,
		"of matrix products on GPUs: f32, bf16, or f16 with loss scaling; sums and\n"
		"parameters stay f32. Default: f32"),
	COUNT("epochs", epochs, 1000000, "stop after epoch N. Default: 5; lenet: 4"),
	{ "steps", "N", "stop after N steps, also within an epoch", OPTION_NUMBER, AT(steps), 1,
		NUMBER_MAX, NULL, NULL },
	COUNT("batch", batch, 65536, "samples a rank takes in a micro-batch. Default: the model's"),
	COUNT("global-batch", global_batch, CHECKPOINT_BATCH_MAX,
		"samples all ranks together take in a step; the loss is then the same\n"
		"on any number of ranks that divides it. Default: ranks x accumulate x batch"),
	{ "seed", "N", "of the first parameters and of the order of samples. Default: 1",
		OPTION_NUMBER, AT(seed), 0, NUMBER_MAX, NULL, NULL },
	KEPT_FLAG(
		"no-shuffle", no_shuffle, "take the samples of each epoch in the order of the set"),
	REAL("bucket-mb", bucket_mb, 0, 1 << 20,
		"gradients travel in buckets of at most X MiB. Default: 2"),
	KEPT_FLAG("sync-bn", sync_norm,
		"batch norm with the mean and variance of all ranks' samples"),
	FLAG("no-overlap", no_overlap,
		"send all buckets after backward, to measure the gain of overlap"),

	COUNT("tensor", tensor, 4096,
		"N ranks share each layer of mlp or gpt: attention heads, columns and rows of\n"
		"linear layers. Default: 1"),
	COUNT("pipeline", pipeline, 4096,
		"cut the model into N stages, a rank each; --accumulate gives the micro-batches\n"
		"that go through them. Default: 1"),
	COUNT("accumulate", accumulate, 65536,
		"compute N micro-batches a rank and step, and send gradients after the last.\n"
		"Default: 1"),
	NAME("compress", compress, compressions,
		"send gradients as fp16 or bf16: half the bytes, rounded. Default: no"),
	KEPT_FLAG(
		"zero", zero, "divide the optimizer's state and work among ranks (ZeRO, stage 1)"),
	KEPT_FLAG("deterministic", deterministic,
		"the same bits on 1, 2, 4, ... --shards ranks, with any buckets, hosts and\n"
		"transports. Slower"),
	COUNT("shards", shards, 65536,
		"with --deterministic: compute a global batch in N parts. Default: 8"),
	FLAG("shrink", shrink,
		"after the death of a rank the others go on, from the last step\n"
		"(rondo-run --keep-going)"),
	{ "check-every", "N", "compare the parameters of all ranks every N steps", OPTION_NUMBER,
		AT(check_every), 1, NUMBER_MAX, NULL, NULL },

	SECTION("Optimizer"),
	NAME("optimizer", optimizer, optimizers,
		"sgd, adam or adamw, with PyTorch's defaults. Default: the model's"),
	REAL("lr", learning_rate, 0, 1e6, "learning rate. Default: the model's"),
	REAL("momentum", momentum, OR_ZERO, 1, "of sgd. Default: the model's"),
	KEPT_FLAG("nesterov", nesterov, "sgd with Nesterov's momentum"),
	REAL("weight-decay", weight_decay, OR_ZERO, 1e6,
		"Default: the model's, or the optimizer's"),
	REAL("beta1", beta1, OR_ZERO, BETA_MAX, "of adam and adamw. Default: 0.9"),
	REAL("beta2", beta2, OR_ZERO, BETA_MAX, "of adam and adamw. Default: 0.999"),
	REAL("clip", clip, OR_ZERO, 1e30,
		"scale gradients down to this global norm. Default: 0, never"),
	NAME("schedule", schedule, schedules,
		"of the learning rate: constant, step (every --lr-period epochs times\n"
		"--lr-gamma) or cosine (to --min-lr at the end). Default: constant"),
	COUNT("lr-period", lr_period, 1000000, "epochs. Default: 1"),
	REAL("lr-gamma", lr_gamma, 0, 1e6, "Default: 0.1"),
	REAL("min-lr", min_lr, OR_ZERO, 1e6, "Default: 0"),
	{ "warm-up", "N", "steps in which the learning rate grows linearly. Default: 0",
		OPTION_COUNT, AT(warm_up), 0, INT_MAX, NULL, NULL },

	SECTION("Checkpoints"),
	TEXT("checkpoint", "FILE", checkpoint,
		"save after every epoch; the one before becomes FILE.previous"),
	TEXT("resume", "FILE", resume,
		"go on from there, with the options of its run that are not given here"),
	FLAG("auto-resume", auto_resume,
		"go on from the file of --checkpoint if it is there, as after a restart"),
	TEXT("export", "FILE", export,
		"at the end write the model as a file of safetensors, which PyTorch reads"),

	SECTION("Reports"),
	{ "report-every", "N",
		"print the mean loss and the speed of every N steps, and of the last ones of an\n"
		"epoch; metrics have the same rows. Default: 100",
		OPTION_NUMBER, AT(report_every), 1, NUMBER_MAX, NULL, NULL },
	OWN("metrics", "FILE", take_metrics,
		"write loss, accuracy and speed to FILE.csv, or to FILE.jsonl as JSON\n"
		"lines; may be repeated"),
	FLAG("bucket-report", bucket_report,
		"after each epoch: when each bucket was ready, sent and done, in ms"),
	{ "stragglers", "N", "name the rank that all wait for, every N steps", OPTION_NUMBER,
		AT(stragglers), 1, NUMBER_MAX, NULL, NULL },
	TEXT("trace", "FILE", trace,
		"write what each rank does when, for Perfetto or chrome://tracing"),
};
const int option_count = sizeof(option_table) / sizeof(*option_table);
_Static_assert(
	sizeof(option_table) / sizeof(*option_table) <= OPTIONS_MAX, "options.given has room");
