#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/metrics/row.h"

/* JSON has neither infinity nor NaN. */
static void write_number(FILE *out, const char *key, double value)
{
	if (isfinite(value))
		fprintf(out, ", \"%s\": %.9g", key, value);
	else
		fprintf(out, ", \"%s\": null", key);
}

static void write_row(FILE *out, const struct metrics_row *row)
{
	fprintf(out, "{\"step\": %llu, \"epoch\": %llu", (unsigned long long)row->step,
		(unsigned long long)row->epoch);
	write_number(out, row->test ? "test_loss" : "loss", row->loss);
	write_number(out, row->test ? "test_accuracy" : "accuracy", row->accuracy);
	fprintf(out, ", \"sample_count\": %llu", (unsigned long long)row->sample_count);
	if (!row->test)
		write_number(out, "sample_tp", row->sample_tp);
	fprintf(out, ", \"time\": %.3f}\n", row->time_s);
}

/* ---- Reading ---- */

/* Reads a character behind spaces. */
static bool read_sign(const char **at, char sign)
{
	*at += strspn(*at, " \t\r");
	if (**at != sign)
		return false;
	(*at)++;
	return true;
}

static bool read_string(const char **at, const char **text, size_t *size)
{
	if (!read_sign(at, '"'))
		return false;
	*text = *at;
	while (**at && **at != '"')
		*at += (*at)[0] == '\\' && (*at)[1] ? 2 : 1;
	*size = *at - *text;
	return read_sign(at, '"');
}

/* A number, or null, which is NAN. */
static bool read_number(const char **at, double *number)
{
	char *end;
	*at += strspn(*at, " \t\r");
	*number = NAN;
	if (strncmp(*at, "null", 4) == 0) {
		*at += 4;
		return true;
	}
	/* strtod() also reads hexadecimal numbers and names. */
	size_t size = strspn(*at, "-+.eE0123456789");
	*number = strtod(*at, &end);
	bool valid = size > 0 && end == *at + size;
	*at = end;
	return valid;
}

/* The members that a row has. */
enum { STEP = 1, EPOCH = 2, SAMPLE_COUNT = 4, TEST = 8, TRAINING = 16 };

static int store_count(uint64_t *count, double number, int bit)
{
	if (!(number >= 0 && number < 0x1p53))
		return 0;
	*count = number;
	return bit;
}

static int store_real(double *real, double number, int bit)
{
	*real = number;
	return bit;
}

/* Returns the bit of the member; 0 for others, which are of no interest. */
static int store_member(struct metrics_row *row, const char *key, size_t size, double number)
{
	char name[16] = "";
	if (size >= sizeof(name))
		return 0;
	memcpy(name, key, size);
	if (!strcmp(name, "step"))
		return store_count(&row->step, number, STEP);
	if (!strcmp(name, "epoch"))
		return store_count(&row->epoch, number, EPOCH);
	if (!strcmp(name, "sample_count"))
		return store_count(&row->sample_count, number, SAMPLE_COUNT);
	if (!strcmp(name, "loss"))
		return store_real(&row->loss, number, TRAINING);
	if (!strcmp(name, "accuracy"))
		return store_real(&row->accuracy, number, TRAINING);
	if (!strcmp(name, "test_loss"))
		return store_real(&row->loss, number, TEST);
	if (!strcmp(name, "test_accuracy"))
		return store_real(&row->accuracy, number, TEST);
	if (!strcmp(name, "sample_tp"))
		return store_real(&row->sample_tp, number, 0);
	if (!strcmp(name, "time"))
		return store_real(&row->time_s, number, 0);
	return 0;
}

static bool read_row(const char *at, struct metrics_row *row)
{
	int has = 0;
	*row = (struct metrics_row){ .loss = NAN, .accuracy = NAN, .sample_tp = NAN };
	if (!read_sign(&at, '{'))
		return false;
	do {
		const char *key;
		size_t size;
		double number;
		if (!read_string(&at, &key, &size) || !read_sign(&at, ':') ||
			!read_number(&at, &number))
			return false;
		has |= store_member(row, key, size, number);
	} while (read_sign(&at, ','));
	if (!read_sign(&at, '}') || at[strspn(at, " \t\r")])
		return false;
	row->test = has & TEST;
	const int counts = STEP | EPOCH | SAMPLE_COUNT;
	return (has & counts) == counts && !(has & TEST) != !(has & TRAINING);
}

const struct metrics_format jsonl_format = { ".jsonl", write_row, read_row, NULL };
