#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"
#include "train/option_table.h"
#include "train/settings.h"

static struct options options;

static int parse(const char *const *words)
{
	char *arguments[16] = { "rondo-train" };
	int count = 1;
	for (; *words; words++)
		arguments[count++] = (char *)*words;
	return options_parse(&options, count, arguments);
}

#define PARSE(...) parse((const char *const[]){ __VA_ARGS__, NULL })

/* Refused, in one line that quotes this. */
static void expect_failure(const char *const *words, const char *quote)
{
	cr_assert_eq(parse(words), 1, "%s is accepted", words[0]);
	cr_assert(strstr(failure(), quote), "'%s' is not in: %s", quote, failure());
	cr_assert_null(strchr(failure(), '\n'));
}

#define REFUSE(quote, ...) expect_failure((const char *const[]){ __VA_ARGS__, NULL }, quote)

Test(options, all_are_understood)
{
	cr_assert_eq(
		PARSE("--data", "d", "--dataset=digits", "--ranks", "3", "--epochs", "9", "--lr",
			"0.5", "--seed", "0", "--bucket-mb=0.5", "--checkpoint", "c", "--resume=r"),
		0, "%s", failure());
	cr_assert_str_eq(options.data, "d");
	cr_assert_str_eq(options.set->title, "MNIST");
	cr_assert_eq(options.ranks, 3);
	cr_assert_eq(options.epochs, 9);
	cr_assert_eq(options.learning_rate, 0.5);
	cr_assert_eq(options.seed, 0);
	cr_assert_eq(options.bucket_mb, 0.5);
	cr_assert_str_eq(options.checkpoint, "c");
	cr_assert_str_eq(options.resume, "r");
	cr_assert_eq(PARSE("--global-batch", "256", "--fetch=file:///x"), 0);
	cr_assert_eq(options.global_batch, 256);
	cr_assert(options.fetch);
	cr_assert_str_eq(options.mirror, "file:///x");
	cr_assert_eq(options.workers, 0);
	cr_assert_eq(PARSE("--workers", "3", "--data", "t", "--test-data", "u"), 0);
	cr_assert_eq(options.workers, 3);
	cr_assert_str_eq(options.test_data, "u");
	cr_assert_eq(PARSE("--batch", "32", "--fetch"), 0);
	cr_assert_eq(options.batch, 32);
	cr_assert_null(options.mirror);
	cr_assert_eq(options.device, DEVICE_CPU);
	cr_assert_eq(PARSE("--no-overlap", "--steps", "7"), 0);
	cr_assert(options.no_overlap);
	cr_assert_eq(options.steps, 7);
	cr_assert_eq(PARSE("--device", "cuda"), 0);
	cr_assert_eq(options.device, DEVICE_CUDA);
	cr_assert_eq(PARSE("--metrics", "a.csv", "--metrics=b.jsonl", "--trace", "r"), 0, "%s",
		failure());
	cr_assert_eq(options.metrics.count, 2);
	cr_assert_str_eq(options.metrics.paths[1], "b.jsonl");
	cr_assert_str_eq(options.trace, "r");
	cr_assert_eq(PARSE("--device=cpu"), 0);
	cr_assert_eq(options.device, DEVICE_CPU);
}

Test(options, an_optimizer_has_its_settings)
{
	cr_assert_eq(
		PARSE("--optimizer", "adamw", "--momentum", "0", "--weight-decay", "0", "--beta1=0",
			"--clip", "1e-3", "--schedule", "cosine", "--warm-up", "7", "--nesterov"),
		0, "%s", failure());
	cr_assert_eq(options.optimizer, OPTIMIZER_ADAMW);
	cr_assert_eq(options.momentum, 0.0);
	cr_assert_eq(options.beta1, 0.0);
	cr_assert_eq(options.beta2, 0.999);
	cr_assert_eq(options.clip, 1e-3);
	cr_assert_eq(options.schedule, SCHEDULE_COSINE);
	cr_assert_eq(options.warm_up, 7);
	cr_assert(options.nesterov);
	REFUSE("--momentum -1: not a number from 0", "--momentum", "-1");
	REFUSE("did you mean adam?", "--optimizer", "adma");
	REFUSE("--nesterov=1: takes no value but 0", "--nesterov=1");
	REFUSE("--clip -1: not a number from 0", "--clip", "-1");
}

Test(options, those_of_data_parallelism_are_understood)
{
	cr_assert_eq(PARSE("--epochs", "1"), 0);
	cr_assert_eq(options.threads, 1);
	cr_assert_eq(options.accumulate, 1);
	cr_assert_eq(options.shards, 8);
	cr_assert_eq(options.compress, COMPRESS_NO);
	cr_assert_eq(PARSE("--threads", "2", "--accumulate", "3", "--compress", "bf16", "--zero",
			     "--deterministic", "--shards", "4"),
		0, "%s", failure());
	cr_assert_eq(options.threads, 2);
	cr_assert_eq(options.accumulate, 3);
	cr_assert_eq(options.compress, COMPRESS_BF16);
	cr_assert(options.zero && options.deterministic && !options.bucket_report);
	cr_assert_eq(options.shards, 4);
	cr_assert_eq(PARSE("--bucket-report", "--stragglers", "7", "--check-every", "5",
			     "--compress", "fp16"),
		0, "%s", failure());
	cr_assert(options.bucket_report);
	cr_assert_eq(options.stragglers, 7);
	cr_assert_eq(options.check_every, 5);
	cr_assert_eq(options.compress, COMPRESS_F16);
	REFUSE("--beta1 1: not a number from 0", "--beta1", "1");
	REFUSE("--compress fp8: not one of no, fp16, bf16", "--compress", "fp8");
	REFUSE("--threads 65", "--threads", "65");
	REFUSE("--accumulate 0", "--accumulate", "0");
}

Test(options, numbers_out_of_range_are_refused)
{
	REFUSE("--ranks 0", "--ranks", "0");
	REFUSE("--epochs -1", "--epochs", "-1");
	REFUSE("--batch 12x", "--batch", "12x");
	REFUSE("--batch 65537", "--batch", "65537");
	REFUSE("--batch ", "--batch", "");
	REFUSE("--seed 99999999999999999999", "--seed", "99999999999999999999");
	REFUSE("--lr nan", "--lr", "nan");
	REFUSE("--lr 0", "--lr", "0");
	REFUSE("--lr inf", "--lr", "inf");
	REFUSE("--steps 0", "--steps", "0");
	REFUSE("--bucket-mb 1MB", "--bucket-mb", "1MB");
	REFUSE("--workers -1", "--workers", "-1");
	REFUSE("--workers 65", "--workers", "65");
}

Test(options, what_makes_no_sense_is_refused)
{
	REFUSE("--nonsense", "--nonsense");
	REFUSE("--epochs", "--epochs");
	REFUSE("-x: no such option (--help", "-x");
	REFUSE("--epoch-s: no such option; did you mean --epochs?", "--epoch-s");
	REFUSE("--batchh=3: no such option; did you mean --batch?", "--batchh=3");
	REFUSE("--epochs: its value is missing", "--epochs");
	REFUSE("--dataset fashon: not one of fashion, digits, drawn, cifar10, drawn-cifar, text, "
	       "drawn-text; did you mean fashion?",
		"--dataset", "fashon");
	REFUSE("--device cudo: not one of cpu, cuda; did you mean cuda?", "--device", "cudo");
	REFUSE("stray", "--epochs", "2", "stray");
	REFUSE("--checkpoint: its value is empty", "--checkpoint", "");
	REFUSE("--dataset cats", "--dataset", "cats");
	REFUSE("--dataset cifar10: --model mlp reads IDX files, not CIFAR-10 files", "--dataset",
		"cifar10", "--fetch");
	REFUSE("--dataset text: --model lenet reads CIFAR-10 files", "--dataset", "text", "--model",
		"lenet");
	cr_assert_eq(PARSE("--dataset", "text", "--resume", "r"), 0, "the model is in r");
	REFUSE("--device gpu: not one of cpu, cuda", "--device", "gpu");
	REFUSE("--global-batch", "--batch", "1", "--global-batch", "2");
	REFUSE("--metrics run.txt: ends in neither .csv nor .jsonl", "--metrics", "run.txt");
	REFUSE("--metrics a.csv: given twice", "--metrics", "a.csv", "--metrics", "a.csv");
	REFUSE("--checkpoint and --metrics: both write a.csv", "--metrics", "a.csv", "--checkpoint",
		"a.csv");
	REFUSE("--trace and --metrics: both write b.csv", "--metrics", "a.csv", "--metrics",
		"b.csv", "--trace", "b.csv");
	REFUSE("--seed 1e9: not a number from 0 to 1000000000000000000", "--seed", "1e9");
	REFUSE("--fetch: the drawn set", "--fetch", "--dataset", "drawn");
	REFUSE("--fetch: the text set", "--fetch", "--dataset", "text");
}

Test(options, ranks_are_not_started_by_two)
{
	setenv("RANK", "1", 1);
	setenv("WORLD_SIZE", "2", 1);
	REFUSE("--ranks: a launcher (torchrun) has started 2 ranks already", "--ranks", "2");
	REFUSE("--fetch", "--fetch");
	cr_assert_eq(PARSE("--epochs", "1"), 0);
}

Test(options, a_launcher_that_gives_no_rank_is_refused)
{
	setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
	REFUSE("OMPI_COMM_WORLD_SIZE is set, but not OMPI_COMM_WORLD_RANK", "--epochs", "1");
	setenv("OMPI_COMM_WORLD_RANK", "0", 1);
	cr_assert_eq(PARSE("--epochs", "1"), 0, "%s", failure());
	REFUSE("--ranks: a launcher (openmpi) has started 2 ranks already", "--ranks", "2");
	setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
	cr_assert_eq(PARSE("--epochs", "1"), 0, "%s", failure());
	setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
	setenv("RANK", "1", 1);
	setenv("WORLD_SIZE", "2", 1);
	cr_assert_eq(PARSE("--epochs", "1"), 0, "%s", failure());
}

Test(options, help_leaves_nothing_to_do)
{
	cr_assert_eq(PARSE("--help"), -1);
	cr_assert_eq(PARSE("--version"), -1);
	cr_assert_eq(PARSE("-h"), -1);
	cr_assert_eq(PARSE("--epochs", "1", "-h"), -1);
}

/* The line after "has no effect here: it needs", as a run of this model would fail. */
static const char *idle(const char *model)
{
	options.network = network_named(model);
	if (options.optimizer < 0)
		options.optimizer = OPTIMIZER_SGD;
	options.seed = 1;
	return options_refuse_idle(&options) ? strstr(failure(), "needs ") + 6 : "nothing";
}

Test(options, one_without_an_effect_is_refused)
{
	cr_assert_eq(PARSE("--lr", "0.1", "--momentum", "0.9", "--nesterov"), 0);
	cr_assert_str_eq(idle("mlp"), "nothing");
	cr_assert_eq(PARSE("--momentum", "0.9", "--optimizer", "adam"), 0);
	cr_assert_str_eq(idle("mlp"), "--optimizer sgd");
	cr_assert_eq(PARSE("--beta2", "0.9"), 0);
	cr_assert_str_eq(idle("mlp"), "--optimizer adam or adamw");
	cr_assert_eq(PARSE("--nesterov", "--momentum", "0"), 0);
	cr_assert_str_eq(idle("mlp"), "--optimizer sgd with a --momentum above 0");
	cr_assert_eq(PARSE("--min-lr", "0.1", "--schedule", "step"), 0);
	cr_assert_str_eq(idle("mlp"), "--schedule cosine");
	cr_assert_eq(PARSE("--lr-gamma", "0.1"), 0);
	cr_assert_str_eq(idle("mlp"), "--schedule step");
	cr_assert_eq(PARSE("--shards", "4"), 0);
	cr_assert_str_eq(idle("mlp"), "--deterministic");
	cr_assert_eq(PARSE("--shards", "4", "--deterministic"), 0);
	cr_assert_str_eq(idle("mlp"), "nothing");
	cr_assert_eq(PARSE("--tokens", "32"), 0);
	cr_assert_str_eq(idle("mlp"), "a model of texts");
	cr_assert_str_eq(idle("gpt"), "nothing");
	cr_assert_eq(PARSE("--tensor", "2"), 0);
	cr_assert_str_eq(idle("mlp"), "nothing");
	cr_assert_str_eq(idle("gpt2"), "nothing");
	cr_assert_str_eq(idle("lenet"), "--model mlp or a gpt, whose layers ranks can share");
	cr_assert_str_eq(idle("convnet"), "--model mlp or a gpt, whose layers ranks can share");
	cr_assert_eq(PARSE("--tensor", "1"), 0);
	cr_assert_str_eq(idle("lenet"), "nothing");
}

/* ---- Checkpoints ---- */

/* Not the run's: where and how fast it is computed, what it prints and writes. --global-batch
   stands for --batch too; a run that is divided has no checkpoint. */
static const char *const not_kept[] = { "fetch", "workers", "ranks", "threads", "device", "steps",
	"batch", "no-overlap", "tensor", "pipeline", "shrink", "check-every", "checkpoint",
	"resume", "auto-resume", "export", "metrics", "bucket-report", "report-every", "stragglers",
	"trace", NULL };

static bool is_kept(const struct option_row *row)
{
	for (int i = 0; row->name && not_kept[i]; i++)
		if (!strcmp(row->name, not_kept[i]))
			return false;
	return row->name != NULL;
}

/* A value that is not the default. */
static const char *sample(const struct option_row *row)
{
	switch (row->type) {
	case OPTION_NAME:
		return row->names[1];
	case OPTION_OWN:
		return strcmp(row->name, "model") ? "drawn-text" : "gpt-nano";
	case OPTION_REAL:
		return "0.75";
	case OPTION_FLAG:
		return "on";
	default:
		return "7";
	}
}

Test(options, a_checkpoint_keeps_all_that_define_the_run)
{
	struct stored stored, again;
	char key[STORED_KEY];
	stored_init(&stored);
	stored_init(&again);
	cr_assert_eq(PARSE("--epochs", "1"), 0);
	for (int i = 0; i < option_count; i++)
		if (is_kept(&option_table[i]))
			cr_assert_eq(
				option_take(&options, &option_table[i], sample(&option_table[i])),
				0, "%s", failure());
	cr_assert_eq(settings_store(&options, &stored), 0);
	cr_assert_eq(options_parse(&options, 1, (char *[]){ "rondo-train", NULL }), 0);
	cr_assert_eq(settings_restore(&options, "it", &stored), 0, "%s", failure());
	cr_assert_eq(settings_store(&options, &again), 0);
	for (int i = 0; i < option_count; i++) {
		const struct option_row *row = &option_table[i];
		snprintf(key, sizeof(key), "option.%s", row->name ? row->name : "");
		const char *value = stored_get(&again, key);
		cr_assert_eq(value != NULL, is_kept(row), "%s", key);
		if (value && row->type != OPTION_FLAG)
			cr_assert_str_eq(value, sample(row), "%s", key);
	}
	stored_finish(&stored);
	stored_finish(&again);
}

Test(options, the_command_line_goes_before_a_checkpoint)
{
	struct stored stored;
	stored_init(&stored);
	cr_assert_eq(stored_set(&stored, "option.epochs", "9"), 0);
	cr_assert_eq(stored_set(&stored, "option.tokens", "32"), 0);
	cr_assert_eq(PARSE("--epochs", "3"), 0);
	cr_assert_eq(settings_restore(&options, "it", &stored), 0, "%s", failure());
	cr_assert_eq(options.epochs, 3);
	cr_assert_eq(options.tokens, 32);
	REFUSE("--checkpoint: cannot keep the name a\"b", "--checkpoint", "c", "--data", "a\"b");
	stored_finish(&stored);
}

Test(options, the_command_line_clears_what_a_checkpoint_has)
{
	struct stored stored;
	stored_init(&stored);
	cr_assert_eq(PARSE("--epochs", "3", "--model", "mlp", "--no-shuffle", "--sync-bn", "--zero",
			     "--deterministic", "--nesterov", "--clip", "2", "--warm-up", "5"),
		0, "%s", failure());
	options.optimizer = OPTIMIZER_SGD;
	options.seed = 1;
	cr_assert_eq(settings_store(&options, &stored), 0);
	cr_assert_eq(PARSE("--no-shuffle=0", "--sync-bn=0", "--zero=0", "--deterministic=0",
			     "--nesterov=0", "--clip", "0", "--warm-up", "0"),
		0, "%s", failure());
	cr_assert_eq(settings_restore(&options, "it", &stored), 0, "%s", failure());
	cr_expect(!options.no_shuffle && !options.sync_norm && !options.zero &&
		  !options.deterministic && !options.nesterov);
	cr_expect_eq(options.clip, 0);
	cr_expect_eq(options.warm_up, 0);
	cr_expect_eq(options_refuse_idle(&options), 0, "%s", failure());
	stored_finish(&stored);
}
