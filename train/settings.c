#include "train/settings.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/option_table.h"

/* By their options' names. The global batch stands for both ways to give it. */
static const char *const kept[] = { "model", "tokens", "epochs", "no-shuffle", "seed",
	"global-batch", "bucket-mb", "accumulate", "compress", "precision", "sync-bn", "zero",
	"deterministic", "shards", "optimizer", "lr", "momentum", "nesterov", "weight-decay",
	"beta1", "beta2", "clip", "schedule", "lr-period", "lr-gamma", "min-lr", "warm-up", NULL };

/* Kept, too. Each host may have the data elsewhere. */
static const char *const kept_data[] = { "data", "dataset", "test-data", NULL };

/* A checkpoint does without these, but ranks must have them alike, too. */
static const char *const shared[] = { "steps", "report-every", "check-every", "stragglers", NULL };

static const struct option_row *row_of(const char *name)
{
	return &option_table[option_number(name)];
}

/* The value as the command line takes it; empty: not set. */
static void print_value(
	const struct options *options, const struct option_row *row, char *text, size_t size)
{
	const void *field = (const char *)options + row->offset;
	*text = 0;
	switch (row->type) {
	case OPTION_FLAG:
		snprintf(text, size, "%s", *(const bool *)field ? "on" : "");
		break;
	case OPTION_COUNT:
		snprintf(text, size, "%d", *(const int *)field);
		break;
	case OPTION_NUMBER:
		snprintf(text, size, "%" PRId64, *(const int64_t *)field);
		break;
	case OPTION_REAL:
		/* Zero may stand for "never", which no value of the option does. */
		if (*(const double *)field > row->low)
			snprintf(text, size, "%.17g", *(const double *)field);
		break;
	case OPTION_NAME:
		snprintf(text, size, "%s", row->names[*(const int *)field]);
		break;
	case OPTION_TEXT:
		if (*(const char *const *)field)
			snprintf(text, size, "%s", *(const char *const *)field);
		break;
	case OPTION_OWN: /* the model, or the set */
		if (!strcmp(row->name, "model"))
			snprintf(text, size, "%s", options->network->name);
		else if (options->set)
			snprintf(text, size, "%s", options->set->name);
		break;
	}
	/* Likewise a count. */
	if (row->type == OPTION_COUNT && *(const int *)field < row->low)
		*text = 0;
}

static int store_list(
	const struct options *options, const char *const *names, struct stored *stored)
{
	char key[STORED_KEY], value[PATH_MAX];
	int err = 0;
	for (int i = 0; !err && names[i]; i++) {
		print_value(options, row_of(names[i]), value, sizeof(value));
		snprintf(key, sizeof(key), "option.%s", names[i]);
		if (*value)
			err = stored_set(stored, key, value);
	}
	return err;
}

int settings_store(const struct options *options, struct stored *stored)
{
	int err = store_list(options, kept, stored);
	return err ? err : store_list(options, kept_data, stored);
}

static size_t list_row(const struct options *options, const char *name, char *text, size_t size)
{
	char value[64];
	print_value(options, row_of(name), value, sizeof(value));
	int length = snprintf(text, size, "--%s %s\n", name, *value ? value : "not given");
	return length < (int)size ? (size_t)length : 0;
}

size_t settings_list(const struct options *options, char *text, size_t size)
{
	size_t length = 0;
	for (int i = 0; kept[i]; i++)
		length += list_row(options, kept[i], text + length, size - length);
	for (int i = 0; shared[i]; i++)
		length += list_row(options, shared[i], text + length, size - length);
	return length;
}

const char *settings_optimizer(const struct options *options)
{
	return row_of("optimizer")->names[options->optimizer];
}

static bool is_given(const struct options *options, const char *name)
{
	if (!strcmp(name, "global-batch") && options->given[option_number("batch")])
		return true;
	return options->given[option_number(name)];
}

static int restore_list(struct options *options, const char *const *names, const char *path,
	const struct stored *stored)
{
	char key[STORED_KEY];
	for (int i = 0; names[i]; i++) {
		snprintf(key, sizeof(key), "option.%s", names[i]);
		const char *value = stored_get(stored, key);
		if (!value || is_given(options, names[i]))
			continue;
		if (option_take(options, row_of(names[i]), value)) {
			char reason[256];
			snprintf(reason, sizeof(reason), "%s", failure());
			return fail("%s: is damaged: %s", path, reason);
		}
	}
	return 0;
}

int settings_restore(struct options *options, const char *path, const struct stored *stored)
{
	int err = restore_list(options, kept, path, stored);
	return err ? err : restore_list(options, kept_data, path, stored);
}
