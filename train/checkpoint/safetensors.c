#include "train/checkpoint/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "train/base/fail.h"
#include "train/base/hash.h"

/* The standard's bound. */
#define HEADER_MAX 100000000
#define CHECKSUM_DIGITS 16

static const char checksum_key[] = "\"checksum\":\"";

/* ---- Writing ---- */

static void print_tensor(FILE *out, const struct stored_tensor *tensor, size_t *offset)
{
	size_t end = *offset + tensor->count * sizeof(float);
	fprintf(out, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[", tensor->name);
	for (int d = 0; d < tensor->dims; d++)
		fprintf(out, "%s%d", d ? "," : "", tensor->shape[d]);
	fprintf(out, "],\"data_offsets\":[%zu,%zu]}", *offset, end);
	*offset = end;
}

/* The header with a checksum of zeros, padded with spaces to a multiple of 8. */
static int make_header(const struct stored *stored, char **header, size_t *size)
{
	size_t offset = 0;
	FILE *out = open_memstream(header, size);
	if (!out)
		return fail("out of memory for the names of tensors");
	fprintf(out, "{\"__metadata__\":{\"format\":\"pt\",%s%0*d\"", checksum_key, CHECKSUM_DIGITS,
		0);
	for (int i = 0; i < stored->text_count; i++)
		fprintf(out, ",\"%s\":\"%s\"", stored->texts[i].key, stored->texts[i].value);
	fprintf(out, "}");
	for (int t = 0; t < stored->tensor_count; t++)
		print_tensor(out, &stored->tensors[t], &offset);
	fprintf(out, "}");
	while (ftell(out) % 8)
		fputc(' ', out);
	bool failed = ferror(out);
	if (fclose(out) || failed) {
		free(*header);
		return fail("out of memory for the names of tensors");
	}
	return 0;
}

static uint64_t hash_header(uint64_t size, const char *header)
{
	uint64_t hash = hash_bytes(HASH_START, &size, sizeof(size));
	return hash_bytes(hash, header, size);
}

/* Replaces the zeros of the checksum. */
static void sign(char *header, uint64_t hash)
{
	char digits[CHECKSUM_DIGITS + 1];
	snprintf(digits, sizeof(digits), "%016" PRIx64, hash);
	memcpy(strstr(header, checksum_key) + strlen(checksum_key), digits, CHECKSUM_DIGITS);
}

int safetensors_write(const char *path, FILE *file, const struct stored *stored)
{
	char *header;
	size_t length;
	int err = make_header(stored, &header, &length);
	if (err)
		return err;
	uint64_t size = length, hash = hash_header(size, header);
	for (int t = 0; t < stored->tensor_count; t++)
		hash = hash_bytes(
			hash, stored->tensors[t].values, stored->tensors[t].count * sizeof(float));
	sign(header, hash);
	bool written =
		fwrite(&size, sizeof(size), 1, file) == 1 && fwrite(header, 1, size, file) == size;
	for (int t = 0; written && t < stored->tensor_count; t++)
		written = fwrite(stored->tensors[t].values, sizeof(float), stored->tensors[t].count,
				  file) == stored->tensors[t].count;
	free(header);
	return written ? 0 : fail("%s: cannot write: %s", path, strerror(errno));
}

/* ---- Reading: the part of JSON that headers have ---- */

struct parser {
	const char *path;
	const char *text, *at, *end;
	struct stored *stored;
	size_t data_size; /* bytes behind the header */
	int err;
};

static bool complain(struct parser *parser, const char *wanted)
{
	if (!parser->err)
		parser->err = fail("%s: is damaged: expected %s at byte %td", parser->path, wanted,
			parser->at - parser->text + (ptrdiff_t)sizeof(uint64_t));
	return false;
}

static bool complain_of_tensor(struct parser *parser, const char *name, const char *reason)
{
	if (!parser->err)
		parser->err = fail("%s: is damaged: tensor %s %s", parser->path, name, reason);
	return false;
}

static void skip_spaces(struct parser *parser)
{
	while (parser->at < parser->end && strchr(" \t\r\n", *parser->at) && *parser->at)
		parser->at++;
}

/* Whether this character is next; takes it. */
static bool take(struct parser *parser, char character)
{
	skip_spaces(parser);
	if (parser->at == parser->end || *parser->at != character)
		return false;
	parser->at++;
	return true;
}

static bool expect(struct parser *parser, char character)
{
	char wanted[4] = { '\'', character, '\'', 0 };
	return take(parser, character) || complain(parser, wanted);
}

/* A string of fewer than `size` bytes, without escapes. */
static bool take_string(struct parser *parser, char *string, size_t size)
{
	size_t length = 0;
	if (!expect(parser, '"'))
		return false;
	while (parser->at < parser->end && *parser->at != '"') {
		unsigned char character = *parser->at;
		if (character < ' ' || character == '\\' || length + 1 >= size)
			return complain(parser, "a plain short string");
		string[length++] = *parser->at++;
	}
	string[length] = 0;
	return expect(parser, '"');
}

static bool take_number(struct parser *parser, uint64_t *number)
{
	skip_spaces(parser);
	if (parser->at == parser->end || *parser->at < '0' || *parser->at > '9')
		return complain(parser, "a number");
	for (*number = 0; parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9';
		parser->at++) {
		if (*number > (UINT64_MAX >> 8))
			return complain(parser, "a number of at most 17 digits");
		*number = 10 * *number + (*parser->at - '0');
	}
	return true;
}

/* [a, b, ...]: up to `most` numbers. */
static bool take_numbers(struct parser *parser, uint64_t *numbers, int most, int *count)
{
	*count = 0;
	if (!expect(parser, '['))
		return false;
	if (take(parser, ']'))
		return true;
	do {
		if (*count == most)
			return complain(parser, "the end of the list");
		if (!take_number(parser, &numbers[(*count)++]))
			return false;
	} while (take(parser, ','));
	return expect(parser, ']');
}

static bool take_metadata(struct parser *parser)
{
	char key[STORED_KEY], *value = malloc(STORED_VALUE);
	bool well = value && expect(parser, '{');
	if (!value)
		parser->err = fail("out of memory");
	if (well && take(parser, '}')) {
		free(value);
		return true;
	}
	do {
		well = well && take_string(parser, key, sizeof(key)) && expect(parser, ':') &&
		       take_string(parser, value, STORED_VALUE);
		if (well) {
			parser->err = stored_set(parser->stored, key, value);
			well = !parser->err;
		}
	} while (well && take(parser, ','));
	free(value);
	return well && expect(parser, '}');
}

/* Checks that the shape fills the tensor's bytes, and that these lie behind the header. */
static bool add_tensor(struct parser *parser, const char *name, const uint64_t *shape, int dims,
	const uint64_t *offsets)
{
	struct tensor tensor = { .dims = dims, .split = -1 };
	uint64_t count = 1;
	for (int d = 0; d < dims; d++) {
		if (shape[d] > INT32_MAX || (shape[d] && count > parser->data_size / shape[d]))
			return complain_of_tensor(parser, name, "has more values than the file");
		tensor.shape[d] = (int)shape[d];
		count *= shape[d];
	}
	if (offsets[0] > offsets[1] || offsets[1] > parser->data_size || offsets[0] % 4 ||
		offsets[1] - offsets[0] != count * sizeof(float))
		return complain_of_tensor(parser, name,
			"lies outside of the file, or has other bytes than its shape");
	tensor.count = count;
	float *place = parser->stored->memory + offsets[0] / sizeof(float);
	parser->err = stored_add(parser->stored, name, &tensor, place);
	return !parser->err;
}

static bool take_tensor(struct parser *parser, const char *name)
{
	char key[STORED_KEY], type[8] = "";
	uint64_t shape[TENSOR_DIMS], offsets[2];
	int dims = -1, count = 0;
	if (!expect(parser, '{'))
		return false;
	do {
		if (!take_string(parser, key, sizeof(key)) || !expect(parser, ':'))
			return false;
		bool well = !strcmp(key, "dtype") ? take_string(parser, type, sizeof(type))
			    : !strcmp(key, "shape")
				    ? take_numbers(parser, shape, TENSOR_DIMS, &dims)
			    : !strcmp(key, "data_offsets")
				    ? take_numbers(parser, offsets, 2, &count)
				    : complain(parser, "dtype, shape or data_offsets");
		if (!well)
			return false;
	} while (take(parser, ','));
	if (strcmp(type, "F32") || dims < 0 || count != 2)
		return complain(parser, "an F32 tensor with shape and data_offsets");
	return expect(parser, '}') && add_tensor(parser, name, shape, dims, offsets);
}

static bool take_header(struct parser *parser)
{
	char name[STORED_NAME];
	if (!expect(parser, '{'))
		return false;
	if (!take(parser, '}')) {
		do {
			if (!take_string(parser, name, sizeof(name)) || !expect(parser, ':'))
				return false;
			if (!(strcmp(name, "__metadata__") ? take_tensor(parser, name)
							   : take_metadata(parser)))
				return false;
		} while (take(parser, ','));
		if (!expect(parser, '}'))
			return false;
	}
	skip_spaces(parser);
	return parser->at == parser->end || complain(parser, "the end of the header");
}

/* ---- Reading ---- */

/* Compares the checksum, in whose place it writes zeros. */
static int check_sum(const char *path, char *header, uint64_t size, const struct stored *stored,
	size_t data_size)
{
	const char *claimed = stored_get(stored, "checksum");
	char digits[CHECKSUM_DIGITS + 1];
	char *place = strstr(header, checksum_key);
	if (!claimed)
		return 0;
	/* A header may have the key twice: the place must hold the claimed digits. */
	if (!place || strlen(claimed) != CHECKSUM_DIGITS ||
		strncmp(place + strlen(checksum_key), claimed, CHECKSUM_DIGITS))
		return fail("%s: is damaged: its checksum has another form", path);
	memset(place + strlen(checksum_key), '0', CHECKSUM_DIGITS);
	uint64_t hash = hash_bytes(hash_header(size, header), stored->memory, data_size);
	snprintf(digits, sizeof(digits), "%016" PRIx64, hash);
	return strcmp(digits, claimed) ? fail("%s: is damaged: its checksum is wrong", path) : 0;
}

/* Reads the header, which ends with a 0, and the values; their sizes follow from the file's. */
static int read_parts(const char *path, FILE *file, char **header, uint64_t *size,
	struct stored *stored, size_t *data_size)
{
	struct stat about;
	if (fstat(fileno(file), &about))
		return fail("%s: %s", path, strerror(errno));
	uint64_t file_size = about.st_size;
	if (fread(size, sizeof(*size), 1, file) != 1)
		return fail("%s: is too short for a checkpoint", path);
	if (*size > HEADER_MAX || *size > file_size - sizeof(*size))
		return fail("%s: is damaged, cut off, or no checkpoint: its header has %" PRIu64
			    " bytes, the file %" PRIu64,
			path, *size, file_size);
	*data_size = file_size - sizeof(*size) - *size;
	*header = calloc(1, *size + 1);
	stored->memory = malloc(*data_size + 1);
	if (!*header || !stored->memory)
		return fail("%s: out of memory for %zu bytes", path, *data_size);
	if (fread(*header, 1, *size, file) != *size ||
		fread(stored->memory, 1, *data_size, file) != *data_size)
		return fail("%s: is cut off", path);
	return 0;
}

int safetensors_read(const char *path, FILE *file, struct stored *stored)
{
	char *header = NULL;
	uint64_t size;
	size_t data_size = 0;
	stored_init(stored);
	int err = read_parts(path, file, &header, &size, stored, &data_size);
	if (!err) {
		struct parser parser = {
			.path = path,
			.text = header,
			.at = header,
			.end = header + size,
			.stored = stored,
			.data_size = data_size,
		};
		err = take_header(&parser) ? 0 : parser.err;
	}
	if (!err)
		err = check_sum(path, header, size, stored, data_size);
	free(header);
	if (err)
		stored_finish(stored);
	return err;
}
