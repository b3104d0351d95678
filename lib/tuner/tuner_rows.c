#include "tuner/tuner_rows.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "exec/algorithms.h"

#define FIELDS_LEAST 8
#define FIELDS_MOST 10
#define CHANNELS_MAX 1024

enum { COLLECTIVE, LEAST, MOST, ALGORITHM, PROTOCOL, CHANNELS, HOSTS, RANKS, PIPE_OPS, REGISTERED };

struct reader {
	struct rd_tuner_rows *rows;
	const char *path; /* for warnings; NULL: none */
	int hosts, ranks;
	int line;
	char text[RD_TUNER_ROW_SIZE]; /* of the line, cut into fields */
	const char *fields[FIELDS_MOST];
	int count;
	char *wrong;
	size_t wrong_size;
};

static bool complain(struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool complain(struct reader *reader, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reader->wrong, reader->wrong_size, format, args);
	va_end(args);
	return false;
}

/* ---- Fields ---- */

static char *trim(char *text)
{
	size_t length;

	while (isspace((unsigned char)*text))
		text++;
	length = strlen(text);
	while (length > 0 && isspace((unsigned char)text[length - 1]))
		text[--length] = '\0';
	return text;
}

static bool cut(struct reader *reader, const char *line, size_t length)
{
	char *next = reader->text;

	if (length >= sizeof(reader->text))
		return complain(
			reader, "it has more than %zu characters", sizeof(reader->text) - 1);
	memcpy(reader->text, line, length);
	reader->text[length] = '\0';
	for (reader->count = 0; next && reader->count < FIELDS_MOST; reader->count++) {
		char *field = next;

		next = strchr(field, ',');
		if (next)
			*next++ = '\0';
		reader->fields[reader->count] = trim(field);
	}
	if (next || reader->count < FIELDS_LEAST)
		return complain(reader, "a row has %d to %d fields", FIELDS_LEAST, FIELDS_MOST);
	return true;
}

/* The number in a field; -1 where that may stand for any, and where the field is missing. */
static bool read_number(
	struct reader *reader, int field, int64_t least, int64_t most, int64_t *number)
{
	const char *text = field < reader->count ? reader->fields[field] : "-1";
	char *end;

	*number = strtoll(text, &end, 10);
	if (*text && !*end && *number >= least && *number <= most)
		return true;
	return complain(reader, "\"%.20s\" is no whole number from %lld to %lld", text,
		(long long)least, (long long)most);
}

static bool read_int(struct reader *reader, int field, int most, int *number)
{
	int64_t wide;
	bool good = read_number(reader, field, -1, most, &wide);

	*number = good ? (int)wide : -1;
	return good;
}

/* ---- Rows ---- */

static bool leave_out(const struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool leave_out(const struct reader *reader, const char *format, ...)
{
	char reason[120];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	if (reader->path)
		rd_log(RD_WARN, RD_PICK, "RONDO_TUNE_FILE %s: line %d is left out: %s",
			reader->path, reader->line, reason);
	return true;
}

static bool append(struct rd_tuner_rows *rows, const struct rd_tuner_row *row)
{
	if (rows->count == RD_TUNER_ROWS_MAX)
		return false;
	rows->rows[rows->count++] = *row;
	if (rd_tuner_rows_print(rows, NULL, 0) < RD_TUNER_TEXT_SIZE)
		return true;
	rows->count--;
	return false;
}

/* NCCL's row may hold for some buffers, and some numbers of calls in a group, alone. */
static bool add(struct reader *reader, struct rd_tuner_row *row, int collective, int pipe_ops,
	int registered)
{
	const char *algorithm = reader->fields[ALGORITHM];

	row->algorithm = rd_algorithm_called(algorithm);
	if (collective < 0)
		return leave_out(
			reader, "Rondo has no collective \"%.20s\"", reader->fields[COLLECTIVE]);
	if (!row->algorithm)
		return leave_out(reader, "Rondo has no algorithm \"%.20s\"", algorithm);
	if (pipe_ops > 1)
		return leave_out(reader, "it is for %d calls at once", pipe_ops);
	if (registered > 0)
		return leave_out(reader, "it is for registered buffers alone");
	if (row->hosts > reader->hosts || row->ranks > reader->ranks)
		return true;
	row->collective = (enum rd_collective)collective;
	return append(reader->rows, row) ||
	       leave_out(reader, "there are too many rows for such a job");
}

static bool read_row(struct reader *reader)
{
	struct rd_tuner_row row;
	int64_t least, most;
	int pipe_ops, registered;

	if (!read_number(reader, LEAST, 0, INT64_MAX, &least) ||
		!read_number(reader, MOST, 0, INT64_MAX, &most) ||
		!read_int(reader, CHANNELS, CHANNELS_MAX, &row.channels) ||
		!read_int(reader, HOSTS, INT32_MAX, &row.hosts) ||
		!read_int(reader, RANKS, INT32_MAX, &row.ranks) ||
		!read_int(reader, PIPE_OPS, INT32_MAX, &pipe_ops) ||
		!read_int(reader, REGISTERED, 1, &registered))
		return false;
	row.least = (uint64_t)least;
	row.most = (uint64_t)most;
	return add(reader, &row, rd_collective_named(reader->fields[COLLECTIVE]), pipe_ops,
		registered);
}

static bool is_row(const char *line, size_t length)
{
	size_t blank = strspn(line, " \t\r");

	return blank < length && line[blank] != '#' && strncmp(line + blank, "collective", 10) != 0;
}

bool rd_tuner_is_csv(const char *text)
{
	for (; *text; text += strcspn(text, "\n") + (text[strcspn(text, "\n")] == '\n')) {
		size_t length = strcspn(text, "\n"), blank = strspn(text, " \t\r");

		if (blank < length && text[blank] != '#')
			return text[blank] != '[' && memchr(text, ',', length);
	}
	return false;
}

bool rd_tuner_rows_read(struct rd_tuner_rows *rows, const char *text, const char *path, int hosts,
	int ranks, int *line, char *wrong, size_t wrong_size)
{
	struct reader reader = { .rows = rows,
		.path = path,
		.hosts = hosts,
		.ranks = ranks,
		.wrong = wrong,
		.wrong_size = wrong_size };

	rows->count = 0;
	while (*text) {
		size_t length = strcspn(text, "\n");

		*line = ++reader.line;
		if (is_row(text, length) && (!cut(&reader, text, length) || !read_row(&reader))) {
			rows->count = 0;
			return false;
		}
		text += length + (text[length] == '\n');
	}
	return true;
}

int rd_tuner_rows_print(const struct rd_tuner_rows *rows, char *text, size_t size)
{
	int length = 0;

	if (size > 0)
		*text = '\0';
	for (int i = 0; i < rows->count; i++) {
		const struct rd_tuner_row *row = &rows->rows[i];
		size_t left = (size_t)length < size ? size - (size_t)length : 0;

		length += snprintf(left ? text + length : NULL, left,
			"%s,%llu,%llu,%s,-1,%d,%d,%d\n", rd_collective_name(row->collective),
			(unsigned long long)row->least, (unsigned long long)row->most,
			row->algorithm->name, row->channels, row->hosts, row->ranks);
	}
	return length;
}

/* ---- Calls ---- */

/* NCCL counts the larger of a rank's two buffers. */
static uint64_t bytes_of(enum rd_collective collective, uint64_t block_size, int ranks)
{
	struct rd_problem problem = { .collective = collective, .size = ranks };
	uint64_t blocks = (uint64_t)(rd_in_blocks(&problem) > rd_out_blocks(&problem)
					     ? rd_in_blocks(&problem)
					     : rd_out_blocks(&problem));
	uint64_t bytes;

	return __builtin_mul_overflow(block_size, blocks, &bytes) ? UINT64_MAX : bytes;
}

int rd_tuner_rows_find(const struct rd_tuner_rows *rows, enum rd_collective collective,
	uint64_t block_size, int hosts, int ranks)
{
	uint64_t bytes = rows->count ? bytes_of(collective, block_size, ranks) : 0;

	for (int i = 0; i < rows->count; i++) {
		const struct rd_tuner_row *row = &rows->rows[i];

		if (row->collective == collective && bytes >= row->least && bytes <= row->most &&
			(row->hosts < 0 || row->hosts == hosts) &&
			(row->ranks < 0 || row->ranks == ranks))
			return i;
	}
	return -1;
}
