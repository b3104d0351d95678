#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/metrics/row.h"

#define HEAD "step,epoch,loss,accuracy,test_loss,test_accuracy,sample_count,sample_tp,time"

enum column {
	STEP,
	EPOCH,
	LOSS,
	ACCURACY,
	TEST_LOSS,
	TEST_ACCURACY,
	SAMPLE_COUNT,
	SAMPLE_TP,
	TIME,
	COLUMNS
};

static void write_row(FILE *out, const struct metrics_row *row)
{
	fprintf(out, "%llu,%llu,", (unsigned long long)row->step, (unsigned long long)row->epoch);
	fprintf(out, row->test ? ",,%.9g,%.9g," : "%.9g,%.9g,,,", row->loss, row->accuracy);
	fprintf(out, "%llu,", (unsigned long long)row->sample_count);
	if (!row->test)
		fprintf(out, "%.9g", row->sample_tp);
	fprintf(out, ",%.3f\n", row->time_s);
}

/* The columns of a line; NAN for an empty one. False: they are not COLUMNS numbers. */
static bool read_columns(const char *at, double columns[COLUMNS])
{
	for (int i = 0; i < COLUMNS; i++) {
		char *end = (char *)at;
		columns[i] = *at == ',' ? NAN : strtod(at, &end);
		if (end == at && *at != ',')
			return false;
		if (*end != (i + 1 < COLUMNS ? ',' : '\0'))
			return false;
		at = end + 1;
	}
	return true;
}

static bool is_count(double number)
{
	return number >= 0 && number < 0x1p53;
}

static bool read_row(const char *line, struct metrics_row *row)
{
	double columns[COLUMNS];
	if (!read_columns(line, columns) || !is_count(columns[STEP]) || !is_count(columns[EPOCH]) ||
		!is_count(columns[SAMPLE_COUNT]))
		return false;
	/* A loss may be NaN; its accuracy is a number. */
	bool test = isnan(columns[ACCURACY]);
	*row = (struct metrics_row){ .test = test,
		.step = columns[STEP],
		.epoch = columns[EPOCH],
		.sample_count = columns[SAMPLE_COUNT],
		.loss = columns[test ? TEST_LOSS : LOSS],
		.accuracy = columns[test ? TEST_ACCURACY : ACCURACY],
		.sample_tp = columns[SAMPLE_TP],
		.time_s = columns[TIME] };
	return true;
}

const struct metrics_format csv_format = { ".csv", write_row, read_row, HEAD };
