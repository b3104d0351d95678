#include "chakra_node.h"

#include "base/descriptor.h"
#include "base/error.h"

#ifndef RD_HAS_PROTOBUF_C
static int fail_without(void)
{
	return rd_fail(RONDO_UNSUPPORTED,
		"this rondo-plan was built without protobuf-c, which reads and writes Chakra's "
		"traces (Debian: libprotobuf-c-dev, protobuf-c-compiler)");
}

int chakra_begin(FILE *out)
{
	(void)out;
	return fail_without();
}

int chakra_put(const struct chakra_node *node, FILE *out)
{
	(void)node;
	(void)out;
	return fail_without();
}

int chakra_read(const char *path, chakra_take *take, void *context)
{
	(void)path;
	(void)take;
	(void)context;
	return fail_without();
}
#else
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "chakra.pb-c.h"

#define MESSAGE_MAX (16 << 20) /* bytes; some take 30 times as much memory once they are decoded */
#define VERSION "0.0.4" /* that the schema's own generator writes */
#define ATTRIBUTES_MAX 8

/* ---- Writing -------------------------------------------------------------------------------- */

struct sink {
	ProtobufCBuffer buffer; /* first: append() gets a pointer to it */
	FILE *out;
};

static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *bytes)
{
	struct sink *sink = (struct sink *)buffer;

	fwrite(bytes, 1, size, sink->out);
}

static void put_message(const ProtobufCMessage *message, FILE *out)
{
	struct sink sink = { { append }, out };
	size_t left = protobuf_c_message_get_packed_size(message);

	for (; left > 0x7f; left >>= 7)
		fputc((int)(left & 0x7f) | 0x80, out);
	fputc((int)left, out);
	protobuf_c_message_pack_to_buffer(message, &sink.buffer);
}

int chakra_begin(FILE *out)
{
	Chakra__Metadata metadata = CHAKRA__METADATA__INIT;

	metadata.version = VERSION;
	put_message(&metadata.base, out);
	return 0;
}

/* Attributes of a node that is written. */
struct attributes {
	Chakra__Attribute list[ATTRIBUTES_MAX], *pointers[ATTRIBUTES_MAX];
	size_t count;
};

static Chakra__Attribute *add(
	struct attributes *attributes, char *name, Chakra__Attribute__ValueCase value_case)
{
	Chakra__Attribute *attribute = &attributes->list[attributes->count];

	chakra__attribute__init(attribute);
	attribute->name = name;
	attribute->value_case = value_case;
	attributes->pointers[attributes->count++] = attribute;
	return attribute;
}

/* Readers want these types: ETFeeder's first version takes no other. */
static void add_32(struct attributes *attributes, char *name, int64_t value)
{
	if (value >= 0)
		add(attributes, name, CHAKRA__ATTRIBUTE__VALUE_INT32_VAL)->int32_val =
			(int32_t)value;
}

static void add_64(struct attributes *attributes, char *name, int64_t value)
{
	if (value >= 0)
		add(attributes, name, CHAKRA__ATTRIBUTE__VALUE_INT64_VAL)->int64_val = value;
}

static void add_all(struct attributes *attributes, const struct chakra_node *node)
{
	/* Without it, a node is of the CPU, and ASTRA-sim communicates on devices alone. */
	add(attributes, "is_cpu_op", CHAKRA__ATTRIBUTE__VALUE_BOOL_VAL)->bool_val = false;
	add_64(attributes, "comm_type", node->comm_type);
	add_64(attributes, "comm_size", node->comm_size);
	add_32(attributes, "comm_src", node->comm_src);
	add_32(attributes, "comm_dst", node->comm_dst);
	add_32(attributes, "comm_tag", node->comm_tag);
	if (node->group)
		add(attributes, "pg_name", CHAKRA__ATTRIBUTE__VALUE_STRING_VAL)->string_val =
			(char *)node->group;
	if (node->tensor_size < 0)
		return;
	add_64(attributes, "num_ops", node->tensor_size / 4);
	add(attributes, "tensor_size", CHAKRA__ATTRIBUTE__VALUE_UINT64_VAL)->uint64_val =
		(uint64_t)node->tensor_size;
}

int chakra_put(const struct chakra_node *node, FILE *out)
{
	struct attributes attributes = { .count = 0 };
	Chakra__Node message = CHAKRA__NODE__INIT;

	add_all(&attributes, node);
	message.id = node->id;
	message.name = (char *)node->name;
	message.type = node->type;
	message.ctrl_deps = (uint64_t *)node->ctrl_deps;
	message.n_ctrl_deps = node->ctrl_dep_count;
	message.data_deps = (uint64_t *)node->data_deps;
	message.n_data_deps = node->data_dep_count;
	message.duration_micros = node->duration_us;
	message.attr = attributes.pointers;
	message.n_attr = attributes.count;
	put_message(&message.base, out);
	return 0;
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* A value that is no whole number, or beyond INT64_MAX, is as none. */
static int64_t whole_of(const Chakra__Attribute *attribute)
{
	switch (attribute->value_case) {
	case CHAKRA__ATTRIBUTE__VALUE_INT32_VAL:
		return attribute->int32_val;
	case CHAKRA__ATTRIBUTE__VALUE_INT64_VAL:
		return attribute->int64_val;
	case CHAKRA__ATTRIBUTE__VALUE_UINT32_VAL:
		return attribute->uint32_val;
	case CHAKRA__ATTRIBUTE__VALUE_UINT64_VAL:
		return (int64_t)attribute->uint64_val;
	default:
		return -1;
	}
}

static void take_attribute(struct chakra_node *node, const Chakra__Attribute *attribute)
{
	const struct {
		const char *name;
		int64_t *value;
	} wholes[] = { { "comm_type", &node->comm_type }, { "comm_size", &node->comm_size },
		{ "comm_src", &node->comm_src }, { "comm_dst", &node->comm_dst },
		{ "comm_tag", &node->comm_tag }, { "tensor_size", &node->tensor_size } };

	for (size_t i = 0; i < sizeof(wholes) / sizeof(*wholes); i++)
		if (strcmp(attribute->name, wholes[i].name) == 0)
			*wholes[i].value = whole_of(attribute);
	if (strcmp(attribute->name, "pg_name") == 0 &&
		attribute->value_case == CHAKRA__ATTRIBUTE__VALUE_STRING_VAL)
		node->group = attribute->string_val;
}

static int take_node(const Chakra__Node *message, chakra_take *take, void *context)
{
	struct chakra_node node = CHAKRA_NODE;

	node.id = message->id;
	node.name = message->name;
	node.type = message->type;
	node.ctrl_deps = message->ctrl_deps;
	node.ctrl_dep_count = message->n_ctrl_deps;
	node.data_deps = message->data_deps;
	node.data_dep_count = message->n_data_deps;
	node.duration_us = message->duration_micros;
	for (size_t i = 0; i < message->n_attr; i++)
		take_attribute(&node, message->attr[i]);
	return take(context, &node);
}

struct reader {
	FILE *file;
	const char *path;
	uint8_t *bytes; /* of the message at hand */
	size_t size, room;
	long long at; /* where the message begins */
	bool ended;
};

static int refuse(const struct reader *reader, const char *reason)
{
	if (ferror(reader->file))
		return rd_fail_errno("cannot read %s", reader->path);
	return rd_fail(RONDO_INVALID, "%s: byte %lld: %s", reader->path, reader->at, reason);
}

static int read_bytes(struct reader *reader)
{
	if (reader->size > reader->room) {
		free(reader->bytes);
		reader->bytes = malloc(reader->size);
		reader->room = reader->bytes ? reader->size : 0;
	}
	if (reader->size > reader->room)
		return rd_fail(RONDO_MEMORY, "no memory to read %s", reader->path);
	if (fread(reader->bytes, 1, reader->size, reader->file) < reader->size)
		return refuse(reader, "the file was cut");
	return 0;
}

/* Reads the next message, or sets reader->ended. */
static int read_message(struct reader *reader)
{
	int byte = 0x80, count = 0;

	reader->at = ftello(reader->file);
	reader->size = 0;
	for (; byte & 0x80 && count < 4; count++) {
		byte = fgetc(reader->file);
		reader->ended = byte == EOF && count == 0 && !ferror(reader->file);
		if (reader->ended)
			return 0;
		if (byte == EOF)
			return refuse(reader, "the file was cut");
		reader->size |= (size_t)(byte & 0x7f) << 7 * count;
	}
	if (byte & 0x80 || reader->size > MESSAGE_MAX)
		return refuse(reader, "no Chakra trace: a message has more than 16 MiB");
	return read_bytes(reader);
}

static int read_metadata(struct reader *reader)
{
	int err = read_message(reader);
	Chakra__Metadata *metadata;

	if (err)
		return err;
	metadata =
		reader->ended ? NULL : chakra__metadata__unpack(NULL, reader->size, reader->bytes);
	if (!metadata)
		return refuse(reader, "no Chakra trace: it begins with no GlobalMetadata");
	chakra__metadata__free_unpacked(metadata, NULL);
	return 0;
}

static int read_nodes(struct reader *reader, chakra_take *take, void *context)
{
	int err = read_message(reader);

	while (!err && !reader->ended) {
		Chakra__Node *node = chakra__node__unpack(NULL, reader->size, reader->bytes);

		if (!node)
			return refuse(reader, "this message is no node");
		err = take_node(node, take, context);
		chakra__node__free_unpacked(node, NULL);
		if (!err)
			err = read_message(reader);
	}
	return err;
}

int chakra_read(const char *path, chakra_take *take, void *context)
{
	struct reader reader = { .path = path, .file = rd_fopen(path, O_RDONLY) };
	int err;

	if (!reader.file)
		return rd_fail_errno("cannot read %s", path);
	err = read_metadata(&reader);
	if (!err)
		err = read_nodes(&reader, take, context);
	fclose(reader.file);
	free(reader.bytes);
	return err;
}
#endif
