#include "smi.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define WORDS_MAX (SMI_DEVICES_MAX + 8)
#define NVLINKS_MAX 64

/* Columns behind the distances. */
enum { CPUS, NUMA, MEMORY_NUMA, TAILS };

struct reader {
	struct smi *smi;
	char *next; /* line */
	int line; /* the number of the last one */
	int rows; /* read so far */
	bool tails[TAILS]; /* the columns that are there */
	char *words[WORDS_MAX]; /* [word_count], of the line */
	int word_count;
};

static int refuse(const struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int refuse(const struct reader *reader, const char *format, ...)
{
	char reason[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	return rd_fail(RONDO_INVALID, "%s:%d: %s", reader->smi->file, reader->line, reason);
}

/* ---- Words ---- */

static bool is_plain(char c)
{
	return rd_is_printable(c) || c == '\t' || c == '\r' || c == '\n';
}

/* nvidia-smi underlines the header, also in a file. */
static void drop_escapes(char *text, size_t size)
{
	char *to = text;

	for (size_t i = 0; i < size; i++) {
		if (text[i] == '\033' && text[i + 1] == '[') {
			for (i += 2; i < size && !isalpha((unsigned char)text[i]); i++)
				;
			continue;
		}
		*to++ = is_plain(text[i]) ? text[i] : '?';
	}
	*to = '\0';
}

/* Cuts the next line into words; false: there is none. Further words are left out. */
static bool next_line(struct reader *reader)
{
	char *line = reader->next, *state = NULL;
	size_t length = strcspn(line, "\n");

	if (!*line)
		return false;
	reader->next += length + (line[length] == '\n');
	line[length] = '\0';
	reader->line++;
	reader->word_count = 0;
	for (char *word = strtok_r(line, " \t\r", &state); word && reader->word_count < WORDS_MAX;
		word = strtok_r(NULL, " \t\r", &state))
		reader->words[reader->word_count++] = word;
	return true;
}

/* The word at this place; "" behind the last. */
static const char *word_at(const struct reader *reader, int index)
{
	return index < reader->word_count ? reader->words[index] : "";
}

/* A number from 0 to `most`, and nothing else; -1 for any other text. */
static int number_of(const char *text, int most)
{
	int number = 0;

	if (!*text || strlen(text) > 5)
		return -1;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text))
			return -1;
		number = 10 * number + (*text - '0');
	}
	return number <= most ? number : -1;
}

/* ---- The header ---- */

static bool is_distance(struct smi_cell *cell, const char *text)
{
	static const char *const texts[RD_DISTANCE_COUNT] = {
#define DISTANCE_TEXT(name, text, meaning) text,
		RD_DISTANCES(DISTANCE_TEXT)
#undef DISTANCE_TEXT
	};

	*cell = (struct smi_cell){ .distance = RD_NVLINK };
	if (!strncmp(text, "NV", 2))
		cell->nvlinks = number_of(text + 2, NVLINKS_MAX);
	if (cell->nvlinks > 0)
		return true;
	for (int i = 0; i < RD_NETWORK; i++) {
		cell->distance = (enum rd_distance)i;
		cell->nvlinks = 0;
		if (i != RD_NVLINK && !strcmp(texts[i], text))
			return true;
	}
	return false;
}

/* Two devices begin a header, or one and the first column behind it. A row has X there. */
static bool is_header(const struct reader *reader)
{
	struct smi_cell cell;
	const char *first = word_at(reader, 0), *second = word_at(reader, 1);

	return (!strcmp(first, "GPU0") || !strcmp(first, "NIC0")) && *second &&
	       !is_distance(&cell, second);
}

static int add_column(struct reader *reader, const char *label)
{
	struct smi *smi = reader->smi;
	char gpu[RD_NAME_SIZE];
	bool is_gpu;

	snprintf(gpu, sizeof(gpu), "GPU%d", smi->count);
	is_gpu = smi->count == smi->gpu_count && !strcmp(label, gpu);
	if (!is_gpu && !strncmp(label, "GPU", 3))
		return refuse(reader, "column %s where %s or a NIC is due", label, gpu);
	if (smi->count - smi->gpu_count == RD_RDMA_MAX || smi->gpu_count + is_gpu > RD_GPU_MAX)
		return refuse(reader, "more than %d GPUs or %d NICs", RD_GPU_MAX, RD_RDMA_MAX);
	if (strlen(label) >= RD_NAME_SIZE)
		return refuse(reader, "the name %.32s... is too long", label);
	struct smi_device *device = &smi->devices[smi->count++];
	*device = (struct smi_device){ .numa = -1, .memory_numa = -1 };
	strcpy(device->label, label);
	smi->gpu_count += is_gpu;
	return 0;
}

/* The columns behind the distances, from this word on. */
static int read_tails(struct reader *reader, int word)
{
	static const char *const titles[TAILS][3] = { { "CPU", "Affinity", "" },
		{ "NUMA", "Affinity", "" }, { "GPU", "NUMA", "ID" } };

	for (int tail = 0; tail < TAILS; tail++) {
		int length = titles[tail][2][0] ? 3 : 2, found = 0;
		while (found < length &&
			!strcmp(word_at(reader, word + found), titles[tail][found]))
			found++;
		reader->tails[tail] = found == length;
		word += reader->tails[tail] ? length : 0;
	}
	return word == reader->word_count
		       ? 0
		       : refuse(reader, "an unknown column: %.32s", word_at(reader, word));
}

static int read_header(struct reader *reader)
{
	int word = 0, err = 0;

	while (next_line(reader) && !is_header(reader))
		;
	if (!is_header(reader))
		return rd_fail(RONDO_INVALID,
			"%s: has no line of columns GPU0, GPU1, ...: it is not the text of "
			"`nvidia-smi topo -m`",
			reader->smi->file);
	for (; !err && word < reader->word_count && strcmp(reader->words[word], "CPU"); word++)
		err = add_column(reader, reader->words[word]);
	return err ? err : read_tails(reader, word);
}

/* ---- Rows ---- */

static int read_cell(struct reader *reader, int row, int column)
{
	struct smi *smi = reader->smi;
	struct smi_cell *cell = &smi->cells[row][column], *mirror = &smi->cells[column][row];
	const char *text = word_at(reader, column + 1), *label = smi->devices[column].label;

	if (!is_distance(cell, text))
		return refuse(reader, "column %s: \"%.32s\" is no distance", label, text);
	if ((row == column) != (cell->distance == RD_SAME))
		return refuse(reader, "column %s: %s, though X stands for the device itself", label,
			text);
	if (cell->distance == RD_NVLINK && (row >= smi->gpu_count || column >= smi->gpu_count))
		return refuse(reader, "column %s: %s, though a NIC has no NVLink", label, text);
	if (column < row &&
		(cell->distance != mirror->distance || cell->nvlinks != mirror->nvlinks))
		return refuse(reader, "column %s: %s, but line %d has another distance", label,
			text, smi->devices[column].line);
	return 0;
}

/* Several NUMA nodes, as in "0-1", count as none. */
static int read_numa(const struct reader *reader, const char *title, const char *text, int *numa)
{
	struct rd_cpus several;

	*numa = number_of(text, RD_CPU_MAX);
	if (*numa >= 0 || !strcmp(text, "N/A") || (*text && rd_cpus_read(&several, text)))
		return 0;
	return refuse(reader, "%s: \"%.32s\" is no NUMA node", title, text);
}

static int read_tail(struct reader *reader, struct smi_device *device, int tail, const char *text)
{
	if (tail == NUMA)
		return read_numa(reader, "NUMA Affinity", text, &device->numa);
	if (tail == MEMORY_NUMA)
		return read_numa(reader, "GPU NUMA ID", text, &device->memory_numa);
	if (strcmp(text, "N/A") && !rd_cpus_read(&device->cpus, text))
		return refuse(reader, "CPU Affinity: \"%.32s\" is no list of CPUs", text);
	return 0;
}

static int read_row(struct reader *reader)
{
	struct smi *smi = reader->smi;
	int row = reader->rows++, word = smi->count + 1, err = 0;
	struct smi_device *device = &smi->devices[row];

	device->line = reader->line;
	if (strcmp(word_at(reader, 0), device->label))
		return refuse(reader, "\"%.32s\" where the row of %s is due", word_at(reader, 0),
			device->label);
	for (int column = 0; !err && column < smi->count; column++)
		err = read_cell(reader, row, column);
	for (int tail = 0; !err && tail < TAILS && word < reader->word_count; tail++)
		if (reader->tails[tail])
			err = read_tail(reader, device, tail, reader->words[word++]);
	return !err && word < reader->word_count
		       ? refuse(reader, "\"%.32s\" lies behind the last column",
				 reader->words[word])
		       : err;
}

/* ---- The legend ---- */

/* "NIC0: mlx5_0". */
static int read_name(struct reader *reader)
{
	struct smi *smi = reader->smi;
	const char *label = word_at(reader, 0), *name = word_at(reader, 1);
	size_t length = strlen(label);

	for (int i = smi->gpu_count; i < smi->count && length > 0; i++) {
		if (label[length - 1] != ':' || strlen(smi->devices[i].label) != length - 1 ||
			strncmp(smi->devices[i].label, label, length - 1))
			continue;
		if (!*name || strlen(name) >= RD_NAME_SIZE)
			return refuse(reader, "%s has no name, or one that is too long", label);
		strcpy(smi->devices[i].name, name);
	}
	return 0;
}

int topo_smi_read(struct smi *smi, const char *file, char *text, size_t size)
{
	struct reader reader = { .smi = smi, .next = text };
	int err;

	*smi = (struct smi){ .file = file };
	drop_escapes(text, size);
	err = read_header(&reader);
	while (!err && reader.rows < smi->count) {
		bool more = next_line(&reader);
		if (more && reader.word_count == 0)
			continue;
		err = more ? read_row(&reader)
			   : refuse(&reader, "the text ends before the row of %s",
				     smi->devices[reader.rows].label);
	}
	while (!err && next_line(&reader))
		err = is_header(&reader)
			      ? refuse(&reader, "the matrix of another host: a file has one")
			      : read_name(&reader);
	return err;
}

/* ---- Topologies ---- */

int topo_smi_parse(struct rd_topology *topology, const char *file, char *text, size_t size)
{
	struct smi *smi = malloc(sizeof(*smi));
	int err = smi ? rd_topology_init(topology, 1)
		      : rd_fail(RONDO_MEMORY, "no memory to read %s", file);

	if (!err) {
		err = topo_smi_read(smi, file, text, size);
		if (!err)
			err = topo_smi_host(smi, &topology->hosts[0]);
		if (err)
			rd_topology_finish(topology);
	}
	free(smi);
	return err;
}
