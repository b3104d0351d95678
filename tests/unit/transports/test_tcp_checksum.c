/* ctest label: instructions */
/* Checksums of tcp: bytes that change on the way are found before the message is used. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/crc32c.h"
#include "tcp/fakes.h"

#define HEADER 40
#define LONG 50000

/* The wire format, written a second time. */
struct checked_header {
	struct header header;
	uint32_t payload_crc, crc;
};

static size_t checked_message(unsigned char *bytes, unsigned number, size_t size)
{
	struct checked_header checked = {
		.header = { (uint32_t)size, 0x6f640000u + (number & 0xffff), tag_of(number) },
	};

	cr_assert_eq(sizeof(checked), HEADER);
	fill_bytes(bytes + HEADER, size, number);
	checked.payload_crc = rd_crc32c(0, bytes + HEADER, size);
	checked.crc = rd_crc32c(0, &checked, HEADER - 4);
	memcpy(bytes, &checked, HEADER);
	return HEADER + size;
}

static void open_checked(struct staged *staged)
{
	rank_checksums = true;
	staged_open(staged);
}

Test(tcp_checksum, a_message_carries_its_own, .timeout = 60)
{
	static const size_t sizes[] = { 0, 8, 100, 5000, LONG };
	unsigned char *bytes = malloc(HEADER + LONG), *expected = malloc(HEADER + LONG);
	unsigned char *memory = malloc(LONG);
	struct staged staged;

	open_checked(&staged);
	/* Committed and sent from memory, by turns. */
	for (unsigned number = 0; number < 10; number++) {
		size_t size = sizes[number / 2], all = checked_message(expected, number, size);
		struct rd_link *link = staged.rank.link;
		struct rd_tag tag = tag_of(number);

		memcpy(memory, expected + HEADER, size);
		cr_assert(number % 2 ? link->ops->send(link, &tag, memory, size)
				     : try_send(link, number, size));
		fake_read(staged.fd, &staged.rank, bytes, all);
		cr_assert_eq(memcmp(bytes, expected, all), 0, "message %u", number);
	}
	staged_close(&staged);
	free(bytes);
	free(expected);
	free(memory);
}

/* Receives until the link fails. No message may come. */
static void expect_damage(struct staged *staged, void *into, size_t size, const char *part)
{
	struct rd_link *link = staged->rank.link;
	struct sockaddr_in address = fake_address(staged->fd);
	struct rd_message message;
	char path[64];

	AWAIT(link->error, cr_assert(!link->ops->recv(link, into, size, &message));
		rank_advance(&staged->rank));
	cr_assert_eq(link->error, RONDO_PROTOCOL, "%s", link->reason);
	snprintf(path, sizeof(path),
		"(tcp channel 0, 127.0.0.1:%d to 127.0.0.1:", ntohs(address.sin_port));
	cr_assert(strstr(link->reason, "sent rank 0 "), "%s", link->reason);
	cr_assert(strstr(link->reason, part), "%s", link->reason);
	cr_assert(strstr(link->reason, path), "%s", link->reason);
	cr_assert(!link->ops->recv(link, into, size, &message));
	staged_close(staged);
}

/* Messages 0 and 1, of which the second has a flipped bit in that byte. `size` of them is 1000. */
static void flip_in_short(size_t byte, bool lands)
{
	unsigned char bytes[2 * (HEADER + 1000)], into[1000];
	size_t first = checked_message(bytes, 0, 1000);
	struct staged staged;

	checked_message(bytes + first, 1, 1000);
	bytes[first + byte] ^= (unsigned char)(1 << byte % 8);
	open_checked(&staged);
	fake_write(staged.fd, bytes, sizeof(bytes));
	rank_recv(&staged.rank, 0, 1000, lands ? into : NULL, 1000);
	expect_damage(&staged, lands ? into : NULL, 1000,
		byte < HEADER ? "a header of message 1 with CRC " : "rank 0 message 1 with CRC ");
}

Test(tcp_checksum, a_flipped_bit_in_a_short_message_is_found_and_named, .timeout = 120)
{
	for (size_t byte = 0; byte < HEADER + 1000; byte += byte < HEADER + 20 ? 1 : 61)
		flip_in_short(byte, byte % 2);
	flip_in_short(HEADER + 999, true);
}

Test(tcp_checksum, a_flipped_bit_in_a_long_message_is_found_and_named, .timeout = 120)
{
	unsigned char *bytes = malloc(HEADER + LONG), *into = malloc(LONG);

	for (size_t byte = 0; byte < HEADER + LONG; byte += byte < HEADER ? 3 : 4999) {
		struct staged staged;

		checked_message(bytes, 0, LONG);
		bytes[byte] ^= 0x80;
		open_checked(&staged);
		/* A place for it is known before it comes, or there is none. */
		cr_assert(!rank_has_message(&staged.rank));
		fake_write(staged.fd, bytes, HEADER + LONG);
		expect_damage(&staged, byte % 2 ? into : NULL, LONG, " 0 with CRC ");
	}
	free(bytes);
	free(into);
}

/* The size is not trusted: a rank would wait for bytes that never come. */
Test(tcp_checksum, a_flipped_bit_in_a_size_is_found_before_more_bytes_come, .timeout = 60)
{
	unsigned char bytes[HEADER + 8];
	struct staged staged;

	checked_message(bytes, 0, 8);
	bytes[1] ^= 0x10; /* 4104 bytes */
	open_checked(&staged);
	fake_write(staged.fd, bytes, sizeof(bytes));
	expect_damage(&staged, NULL, 0, "a header of message 0 with CRC ");
}

Test(tcp_checksum, two_ranks_exchange_messages_of_all_sizes, .timeout = 60)
{
	unsigned char *into = malloc(PIECE);
	struct pair pair;

	rank_checksums = true;
	pair_open(&pair, "127.0.0.1");
	for (unsigned key = 0; key < 300; key++) {
		size_t size = size_of(key, PIECE);

		cr_assert(try_send(pair.zero.link, key, size));
		rank_recv(&pair.one, key, size, key % 2 ? into : NULL, size);
	}
	pair_close(&pair);
	free(into);
}
