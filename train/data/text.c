/*
 * Text of any kind, byte by byte: a token is a byte. Sample i is a window of T + 1 bytes from byte
 * i T on: the first T are the input, and the last T the labels, so that each byte but the first is
 * a label once. Bytes behind the last whole window are left out.
 */
#include <sys/stat.h>

#include "train/base/fail.h"
#include "train/data/data.h"

/* The first byte of the test part: the last tenth, unless it has a file of its own. */
static size_t test_start(const struct content *content)
{
	return content->size - content->size / 10;
}

static int open_text(struct data *data, const struct data_source *source, enum data_part part)
{
	struct content *content = &data->contents[0];
	bool apart = source->test_path != NULL;
	const char *path = part == DATA_TEST && apart ? source->test_path : source->path;
	struct stat about;
	int err = !stat(path, &about) && S_ISDIR(about.st_mode)
			  ? data_open_file(content, path, data_text.files[0])
			  : content_open(content, path);
	if (err)
		return err;
	size_t split = apart ? content->size : test_start(content);
	size_t first = part == DATA_TEST && !apart ? split : 0;
	size_t end = part == DATA_TEST ? content->size : split;
	if (!content->size)
		return fail("%s: is empty: a window of %zu bytes is needed from byte 0",
			content->path, source->window + 1);
	if (end - first < source->window + 1)
		return fail("%s: ends too early, at byte %zu%s: the text to %s, from byte %zu to "
			    "%zu, is shorter than a window of %zu bytes",
			content->path, content->size, content_unit(content),
			part == DATA_TRAIN ? "train on" : "test on", first, end,
			source->window + 1);
	data->first = first;
	data->count = (end - first - 1) / source->window;
	data->input_count = data->label_count = source->window;
	data->classes = 256;
	return 0;
}

static void gather_text(
	const struct data *data, const uint32_t *picks, size_t count, void *inputs, int32_t *labels)
{
	size_t window = data->input_count;
	int32_t *tokens = inputs;
	for (size_t i = 0; i < count; i++, tokens += window, labels += window) {
		const uint8_t *bytes = data->contents[0].bytes + data->first + picks[i] * window;
		for (size_t t = 0; t < window; t++)
			tokens[t] = bytes[t];
		for (size_t t = 0; t < window; t++)
			labels[t] = bytes[t + 1];
	}
}

const struct data_kind data_text = {
	.name = "text",
	.files = { "text.txt" },
	.open = open_text,
	.gather = gather_text,
};
