/*
 * TensorBoard's event files: records of TFRecord, each a protocol buffer of type Event.
 *
 * A record: the data's size as u64, the masked CRC of these 8 bytes, the data, its masked CRC; all
 * little-endian (TensorFlow: "TFRecord and tf.train.Example"). The CRC is CRC-32C (RFC 3720), in
 * which errors and rotations of records do not cancel: ((crc >> 15) | (crc << 17)) + 0xa282ead8.
 *
 * Messages, with the numbers of their fields (tensorboard/compat/proto/event.proto, summary.proto):
 *   Event: wall_time = 1 (double), step = 2 (int64), file_version = 3 (string), summary = 5,
 *          session_log = 7
 *   Summary: value = 1 (repeated). Its Value: tag = 1 (string), simple_value = 2 (float)
 *   SessionLog: status = 1 (START = 1)
 */
#include <string.h>
#include <time.h>

#include "train/metrics/row.h"

/* ---- Protocol buffers ---- */

enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* A message under construction. Ours have at most 200 bytes. */
struct message {
	unsigned char bytes[512];
	size_t size;
};

static void put_little_endian(struct message *message, uint64_t value, int size)
{
	for (int i = 0; i < size; i++)
		message->bytes[message->size++] = value >> (8 * i);
}

static void put_varint(struct message *message, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		message->bytes[message->size++] = 0x80 | (value & 0x7f);
	message->bytes[message->size++] = value;
}

static void put_key(struct message *message, int field, enum wire_type type)
{
	put_varint(message, (uint64_t)field << 3 | type);
}

static void put_number(struct message *message, int field, uint64_t value)
{
	put_key(message, field, VARINT);
	put_varint(message, value);
}

static void put_double(struct message *message, int field, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	put_key(message, field, FIXED64);
	put_little_endian(message, bits, sizeof(bits));
}

static void put_float(struct message *message, int field, float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	put_key(message, field, FIXED32);
	put_little_endian(message, bits, sizeof(bits));
}

static void put_bytes(struct message *message, int field, const void *bytes, size_t size)
{
	put_key(message, field, BYTES);
	put_varint(message, size);
	memcpy(message->bytes + message->size, bytes, size);
	message->size += size;
}

/* ---- Records ---- */

static uint32_t masked_crc(const unsigned char *bytes, size_t size)
{
	uint32_t crc = ~0u;
	for (size_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	crc = ~crc;
	return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void write_record(FILE *out, const struct message *event)
{
	struct message head = { .size = 0 }, tail = { .size = 0 };
	put_little_endian(&head, event->size, 8);
	put_little_endian(&head, masked_crc(head.bytes, 8), 4);
	put_little_endian(&tail, masked_crc(event->bytes, event->size), 4);
	fwrite(head.bytes, 1, head.size, out);
	fwrite(event->bytes, 1, event->size, out);
	fwrite(tail.bytes, 1, tail.size, out);
}

/* ---- Events ---- */

static void put_value(struct message *summary, const char *tag, double value)
{
	struct message message = { .size = 0 };
	put_bytes(&message, 1, tag, strlen(tag));
	put_float(&message, 2, (float)value);
	put_bytes(summary, 1, message.bytes, message.size);
}

static void write_row(FILE *out, const struct metrics_row *row)
{
	struct message summary = { .size = 0 }, event = { .size = 0 };
	put_value(&summary, row->test ? "Loss/test" : "Loss/train", row->loss);
	put_value(&summary, row->test ? "Accuracy/test" : "Accuracy/train", row->accuracy);
	if (!row->test)
		put_value(&summary, "Throughput/samples per second", row->sample_tp);
	put_double(&event, 1, row->time_s);
	put_number(&event, 2, row->step);
	put_bytes(&event, 5, summary.bytes, summary.size);
	write_record(out, &event);
}

/*
 * A start makes TensorBoard drop the points of earlier files in the directory from this step on.
 * The test at the step of a checkpoint stays, so a resumed run starts one later.
 */
static void write_head(FILE *out, const struct metrics_start *start)
{
	static const char version[] = "brain.Event:2";
	struct message first = { .size = 0 }, second = { .size = 0 }, log = { .size = 0 };
	double now_s = (double)time(NULL);
	put_double(&first, 1, now_s);
	put_bytes(&first, 3, version, strlen(version));
	write_record(out, &first);
	put_double(&second, 1, now_s);
	put_number(&second, 2, start->resumed ? start->step + 1 : 0);
	put_number(&log, 1, 1);
	put_bytes(&second, 7, log.bytes, log.size);
	write_record(out, &second);
}

const struct metrics_format tensorboard_format = { .write_head = write_head,
	.write_row = write_row };
