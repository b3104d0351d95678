/* The messages of rondo-run's agents on the wire: those that are sent arrive, and no others do. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/control_message.h"
#include "net/codec.h"
#include "run/nodes/message.h"

#include "run_messages.h"

Test(run_message, arrives_as_it_was_sent)
{
	for (int type = MESSAGE_PING; type <= MESSAGE_LAST; type++) {
		struct message sent = longest((enum message_type)type), got;
		unsigned char data[MESSAGE_MAX], again[MESSAGE_MAX];
		size_t size = message_encode(&sent, data);

		cr_assert_eq(message_decode(&got, data, size), (long)size, "type %d", type);
		cr_assert_eq(got.type, sent.type);
		cr_assert_eq(message_encode(&got, again), size);
		cr_assert_arr_eq(again, data, size, "type %d", type);
	}
}

Test(run_message, keeps_its_values)
{
	struct message sent = longest(MESSAGE_STOP), got;
	unsigned char data[MESSAGE_MAX];
	size_t size = message_encode(&sent, data);

	cr_assert_eq(message_decode(&got, data, size), (long)size);
	cr_assert_eq(got.stop.status, -1);
	cr_assert(got.stop.failed && got.stop.at_once && got.stop.failure.by_signal);
	cr_assert_eq(got.stop.failure.pid, 4194303);
	cr_assert_eq(got.stop.failure.at_ms, INT64_C(1790000000123));
	cr_assert_eq(got.stop.failure.after_ms, INT64_C(0x123456789a));
	cr_assert_str_eq(got.stop.failure.tail, sent.stop.failure.tail);
	cr_assert_str_eq(got.stop.reason, sent.stop.reason);
}

/* However it is cut into pieces, and whatever follows it. */
Test(run_message, is_awaited_until_it_is_whole)
{
	struct message sent = longest(MESSAGE_FAILED), got;
	unsigned char data[2 * MESSAGE_MAX];
	size_t size = message_encode(&sent, data);

	memcpy(data + size, data, size);
	for (size_t part = 0; part < size; part++) {
		/* A copy of its own: a sanitizer finds each byte read behind its end. */
		unsigned char *copy = malloc(part ? part : 1);

		memcpy(copy, data, part);
		cr_assert_eq(message_decode(&got, copy, part), 0, "%zu bytes", part);
		free(copy);
	}
	cr_assert_eq(message_decode(&got, data, 2 * size), (long)size);
}

Test(run_message, of_a_foreign_protocol_is_refused_at_its_first_byte)
{
	struct message got;

	cr_assert_eq(message_decode(&got, (const unsigned char *)"S", 1), -1);
	cr_assert_eq(message_decode(&got, (const unsigned char *)"RNx", 3), -1);
	cr_assert_eq(message_decode(&got, (const unsigned char *)"GET / HTTP/1.1\r\n", 16), -1);
}

static void refused(const struct message *message)
{
	unsigned char data[MESSAGE_MAX];
	struct message got;
	size_t size = message_encode(message, data);

	cr_assert_eq(message_decode(&got, data, size), -1);
}

Test(run_message, with_a_value_out_of_range_is_refused)
{
	struct message message = longest(MESSAGE_HELLO);

	message.hello.local_size = 0;
	refused(&message);
	message = longest(MESSAGE_HELLO);
	message.hello.port = 65536;
	refused(&message);
	message = longest(MESSAGE_HELLO);
	message.hello.nodes = RANKS_MAX + 1;
	refused(&message);
	message = longest(MESSAGE_HELLO);
	message.hello.last_node = -2;
	refused(&message);
	message = longest(MESSAGE_WORLD);
	message.start.world.node = message.start.world.nodes;
	refused(&message);
	message = longest(MESSAGE_WORLD);
	message.start.world.first = message.start.world.size - 1;
	refused(&message);
	message = longest(MESSAGE_STOP);
	message.stop.failure.status = 0;
	refused(&message);
	message = longest(MESSAGE_FAILED);
	message.failed.failure.at_ms = -1;
	refused(&message);
}

/* As of a control connection, at a port that someone has mixed up. */
Test(run_message, of_another_protocol_is_refused)
{
	struct rd_control_message hello = { .kind = RD_CONTROL_HELLO,
		.hello.version = RD_WIRE_VERSION };
	unsigned char data[RD_FRAME_MAX];
	struct message got;

	cr_assert_eq(message_decode(&got, data, rd_control_encode(&hello, data)), -1);
}

/* The first version of these messages had no frame. */
Test(run_message, of_the_first_version_is_refused)
{
	struct message got;

	cr_assert_eq(message_decode(&got, (const unsigned char *)"RRA1\0\0\0\1\0\0\0\0", 12), -1);
}

Test(run_message, of_a_hello_in_another_version_the_version_is_read)
{
	struct message sent = longest(MESSAGE_HELLO), got;
	unsigned char data[MESSAGE_MAX];
	size_t size = message_encode(&sent, data);

	data[RD_FRAME_HEAD]++;
	memset(data + RD_FRAME_HEAD + 4, 0xff, size - RD_FRAME_HEAD - 4);
	cr_assert_eq(message_decode(&got, data, size), (long)size);
	cr_assert_eq(got.hello.version, MESSAGE_VERSION + 1);
}

/* They are printed: a terminal would take them for commands. */
Test(run_message, with_control_characters_loses_them)
{
	struct message sent = longest(MESSAGE_HELLO), got;
	unsigned char data[MESSAGE_MAX];
	size_t size;

	strcpy(sent.hello.host, "\033[31mred\r\a\tand\n");
	size = message_encode(&sent, data);
	cr_assert_eq(message_decode(&got, data, size), (long)size);
	cr_assert_str_eq(got.hello.host, "?[31mred???and?");
}

/* Sizes and counts in the message must not lead out of it. */
Test(run_message, that_is_damaged_does_no_harm, .timeout = 60)
{
	unsigned seed = 1;

	for (int round = 0; round < 20000; round++) {
		int types = MESSAGE_LAST + 1 - MESSAGE_PING, type = rand_r(&seed) % types;
		struct message sent = longest((enum message_type)(MESSAGE_PING + type));
		unsigned char data[MESSAGE_MAX], *copy;
		struct message got;
		size_t size = message_encode(&sent, data);
		long taken;

		for (int i = 0; i < 3; i++)
			data[4 + (size_t)rand_r(&seed) % (size - 4)] = (unsigned char)rand_r(&seed);
		copy = malloc(size);
		memcpy(copy, data, size);
		taken = message_decode(&got, copy, size);
		cr_assert_leq(taken, (long)size);
		free(copy);
		if (taken <= 0)
			continue;
		/* A message that is taken can be sent on. HELLO of another version has one
		   field. */
		size = message_encode(&got, data);
		cr_assert(size == (size_t)taken || got.type == MESSAGE_HELLO);
		cr_assert_eq(message_decode(&got, data, size), (long)size);
	}
}
