/*
 * TensorBoard's event files, by a decoder of the test's own: it reads any protocol buffer, and
 * computes CRC-32C from a table.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/metrics/metrics.h"
#include "train/scratch.h"

TestSuite(tensorboard, .init = scratch_make, .fini = scratch_remove, .timeout = 60);

static uint32_t crc32c(const unsigned char *bytes, size_t size)
{
	static uint32_t table[256];
	uint32_t crc = 0xffffffff;
	for (uint32_t i = 0; i < 256 && !table[255]; i++) {
		uint32_t value = i;
		for (int bit = 0; bit < 8; bit++)
			value = value & 1 ? (value >> 1) ^ 0x82f63b78 : value >> 1;
		table[i] = value;
	}
	for (size_t i = 0; i < size; i++)
		crc = table[(crc ^ bytes[i]) & 0xff] ^ (crc >> 8);
	return crc ^ 0xffffffff;
}

/* ---- Fields of a message ---- */

struct field {
	uint64_t number, type, value; /* value: or the size of bytes */
	const unsigned char *bytes;
};

static uint64_t take(const unsigned char **at, int size)
{
	uint64_t value = 0;
	for (int i = size; i-- > 0;)
		value = value << 8 | (*at)[i];
	*at += size;
	return value;
}

static uint64_t take_varint(const unsigned char **at)
{
	uint64_t value = 0;
	for (int shift = 0;; shift += 7) {
		unsigned char byte = *(*at)++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
}

static struct field take_field(const unsigned char **at)
{
	uint64_t key = take_varint(at);
	struct field field = { .number = key >> 3, .type = key & 7 };
	switch (field.type) {
	case 0:
		field.value = take_varint(at);
		break;
	case 1:
		field.value = take(at, 8);
		break;
	case 2:
		field.value = take_varint(at);
		field.bytes = *at;
		*at += field.value;
		break;
	case 5:
		field.value = take(at, 4);
		break;
	default:
		cr_assert_fail("wire type %d", (int)field.type);
	}
	return field;
}

/* ---- Events, as text ---- */

static void print_value(FILE *out, struct field message)
{
	const unsigned char *at = message.bytes, *end = at + message.value;
	while (at < end) {
		struct field field = take_field(&at);
		uint32_t bits = (uint32_t)field.value;
		float number;
		memcpy(&number, &bits, sizeof(number));
		if (field.number == 1)
			fprintf(out, " %.*s", (int)field.value, (const char *)field.bytes);
		else if (field.number == 2 && field.type == 5)
			fprintf(out, "=%g", number);
		else
			fprintf(out, " ?");
	}
	cr_assert_eq(at, end);
}

static void print_summary(FILE *out, struct field message)
{
	const unsigned char *at = message.bytes, *end = at + message.value;
	while (at < end) {
		struct field field = take_field(&at);
		cr_assert_eq(field.number, 1);
		print_value(out, field);
	}
	cr_assert_eq(at, end);
}

static void print_event(FILE *out, const unsigned char *at, size_t size)
{
	const unsigned char *end = at + size;
	double wall_time_s = 0;
	uint64_t step = 0;
	while (at < end) {
		struct field field = take_field(&at);
		if (field.number == 1 && field.type == 1)
			memcpy(&wall_time_s, &field.value, sizeof(wall_time_s));
		else if (field.number == 2 && field.type == 0)
			step = field.value;
		else if (field.number == 3 && field.type == 2)
			fprintf(out, "version %.*s", (int)field.value, (const char *)field.bytes);
		else if (field.number == 7 && field.type == 2)
			fprintf(out, "%llu: session %d %d %d", (unsigned long long)step,
				(int)field.value, field.bytes[0], field.bytes[1]);
		else if (field.number == 5 && field.type == 2) {
			fprintf(out, "%llu:", (unsigned long long)step);
			print_summary(out, field);
		} else
			fprintf(out, " ?");
	}
	cr_assert_eq(at, end);
	cr_assert(wall_time_s > 1.7e9);
	fputc('\n', out);
}

static uint32_t masked(const unsigned char *bytes, size_t size)
{
	uint32_t crc = crc32c(bytes, size);
	return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

/* All events of the only file in a directory, a line for each; free() it. */
static char *read_events(const char *dir)
{
	static unsigned char bytes[1 << 16];
	char name[1024] = "", *text;
	size_t text_size;
	DIR *entries = opendir(dir);
	for (struct dirent *entry; entries && (entry = readdir(entries));)
		if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0)
			snprintf(name, sizeof(name), "%s/%s", dir, entry->d_name);
	cr_assert(entries && *name);
	closedir(entries);
	FILE *in = fopen(name, "rb"), *out = open_memstream(&text, &text_size);
	size_t size = fread(bytes, 1, sizeof(bytes), in);
	fclose(in);
	const unsigned char *at = bytes;
	while (at < bytes + size) {
		const unsigned char *head = at;
		uint64_t event_size = take(&at, 8);
		cr_assert_eq(take(&at, 4), masked(head, 8));
		print_event(out, at, event_size);
		const unsigned char *event = at;
		at += event_size;
		cr_assert_eq(take(&at, 4), masked(event, event_size));
	}
	cr_assert_eq(at, bytes + size);
	fclose(out);
	return text;
}

static char *write_events(const struct metrics_start *start)
{
	const struct totals training = { 160, 16, 64 }, test = { 30, 75, 100 };
	struct metrics_files files = { .tensorboard = scratch_path("runs/one") };
	struct metrics *metrics;
	cr_assert_eq(metrics_create(&metrics, &files, start), 0, "%s", failure());
	metrics_epoch(metrics, 2, 64000);
	metrics_step(metrics, 1000, 32000, &training, 500);
	metrics_test(metrics, 2000, 64000, &test);
	metrics_destroy(metrics);
	return read_events(scratch_path("runs/one"));
}

Test(tensorboard, the_checksum_is_that_of_rfc_3720)
{
	unsigned char zeros[32] = { 0 };
	cr_assert_eq(crc32c((const unsigned char *)"123456789", 9), 0xe3069283);
	cr_assert_eq(crc32c(zeros, 32), 0x8a9136aa);
}

Test(tensorboard, events_hold_the_rows)
{
	char *text = write_events(&(struct metrics_start){ 0 });
	const char *expected =
		"version brain.Event:2\n0: session 2 8 1\n"
		"1000: Loss/train=2.5 Accuracy/train=0.25 Throughput/samples per second=500\n";
	cr_assert_eq(strncmp(text, expected, strlen(expected)), 0, "%s", text);
	cr_assert(strstr(text, "\n2000: Loss/test=0.3 Accuracy/test=0.75\n"), "%s", text);
	free(text);
}

Test(tensorboard, a_resumed_run_replaces_the_points_behind_its_checkpoint)
{
	char *text = write_events(&(struct metrics_start){ true, 1000, 64000 });
	cr_assert(strstr(text, "\n1001: session 2 8 1\n"), "%s", text);
	free(text);
}
