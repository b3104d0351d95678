/* The table of members, encoded and decoded part by part. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/member_table.h"

#define MOST 600

static struct rd_identity members[MOST];
static struct rd_member back[MOST];
static struct rd_cards cards;
static uint32_t seed;

static uint32_t draw(uint32_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

static void draw_bytes(void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((unsigned char *)bytes)[i] = (unsigned char)draw(256);
}

static void draw_text(char *text, size_t size)
{
	size_t length = draw((uint32_t)size);

	for (size_t i = 0; i < length; i++)
		text[i] = (char)('a' + draw(26));
}

/* Cards of random sizes; all of them are as long as can be where they are `longest`. */
static void draw_cards(struct rd_identity *member, bool longest)
{
	int count = longest ? RD_TRANSPORTS_MAX : (int)draw(RD_TRANSPORTS_MAX + 1);

	for (int i = 0; i < count; i++) {
		struct rd_card *card = &member->cards[i];

		memset(card->transport, 'a' + i, longest ? sizeof(card->transport) - 1 : 1);
		card->size = (uint16_t)(longest ? RD_CARD_MAX : draw(RD_CARD_MAX + 1));
		draw_bytes(card->bytes, card->size);
	}
}

static struct rd_identity draw_member(bool longest)
{
	struct rd_identity drawn = { .member.place = { .numa_node = -1, .core = (int)draw(64) } };
	struct rd_member *member = &drawn.member;

	draw_text(member->place.host_name, longest ? RD_HOST_SIZE : 8);
	draw_text(member->place.host_id, longest ? RD_HOST_SIZE : 30);
	draw_text(member->place.nic, RD_NIC_SIZE);
	member->place.pid = (int)draw(1 << 22);
	member->lineage.origin = (int)draw(MOST);
	member->lineage.port = draw(1 << 16);
	draw_cards(&drawn, longest);
	return drawn;
}

static struct rd_table_writer write_all(int count)
{
	struct rd_table_writer writer = { .parts = NULL };

	for (int i = 0; i < count; i++)
		cr_assert_eq(rd_table_write(&writer, &members[i]), 0);
	return writer;
}

/* Each part in a block of its own size, so that a sanitizer reports reads beyond it. */
static int read_exactly(
	struct rd_table_reader *reader, const struct rd_table_part *part, uint32_t count)
{
	size_t size = offsetof(struct rd_table_part, bytes) + part->size;
	struct rd_table_part *copy = malloc(size);
	int err;

	memcpy(copy, part, size);
	err = rd_table_read(reader, copy, back, &cards, count);
	free(copy);
	return err;
}

static int read_all(const struct rd_table_writer *writer, int count)
{
	struct rd_table_reader reader = { .count = 0 };

	rd_cards_finish(&cards);
	for (int i = 0; i < writer->part_count; i++)
		if (read_exactly(&reader, &writer->parts[i], (uint32_t)count))
			return RONDO_PROTOCOL;
	cr_expect_eq(reader.count, (uint32_t)count);
	return 0;
}

static bool has_cards(int member)
{
	struct rd_card none = { .size = 0 }, card;

	for (int i = 0; i < RD_TRANSPORTS_MAX; i++) {
		bool there = rd_cards_at(&cards, member, i, &card);

		if (memcmp(there ? &card : &none, &members[member].cards[i], sizeof(card)) != 0)
			return false;
	}
	return true;
}

static void expect_round_trip(int count)
{
	struct rd_table_writer writer = write_all(count);

	memset(back, 0x55, sizeof(back));
	cr_assert_eq(read_all(&writer, count), 0);
	for (int i = 0; i < count; i++)
		cr_assert(
			memcmp(&back[i], &members[i].member, sizeof(back[i])) == 0 && has_cards(i),
			"member %d", i);
	free(writer.parts);
}

Test(member_table, comes_back_as_it_went, .timeout = 60)
{
	for (int round = 0; round < 20; round++) {
		int count = 1 + (int)draw(100);

		for (int i = 0; i < count; i++)
			members[i] = i > 0 && draw(2) ? members[i - 1] : draw_member(draw(10) == 0);
		expect_round_trip(count);
	}
}

/* Nothing is as before, or every third byte alone is. */
Test(member_table, has_room_for_the_longest_members)
{
	for (int i = 0; i < 20; i++)
		members[i] = draw_member(true);
	for (int i = 1; i < 20; i += 2)
		for (int card = 0; card < RD_TRANSPORTS_MAX; card++)
			for (int k = 0; k < RD_CARD_MAX; k += 3)
				members[i].cards[card].bytes[k] =
					members[i - 1].cards[card].bytes[k];
	expect_round_trip(20);
}

/* Bytes that the members of a host share travel once: here, all but two. */
Test(member_table, carries_a_host_once)
{
	struct rd_table_writer writer;

	seed = 1;
	members[0] = draw_member(true);
	for (int i = 1; i < 500; i++) {
		members[i] = members[0];
		members[i].member.place.pid += i;
	}
	writer = write_all(500);
	/* The first; and of each other, one run of two bytes, and the three before them. */
	cr_expect_leq(writer.part_count, 1 + 500 * 5 / RD_TABLE_PART_BYTES + 1);
	cr_expect_eq(read_all(&writer, 500), 0);
	free(writer.parts);
}

Test(member_table, refuses_parts_out_of_order_and_members_too_many)
{
	struct rd_table_reader reader = { .count = 0 };
	struct rd_table_writer writer;

	for (int i = 0; i < 4; i++)
		members[i] = draw_member(true);
	writer = write_all(4);
	cr_assert_geq(writer.part_count, 2);
	cr_expect_eq(read_exactly(&reader, &writer.parts[1], 4), RONDO_PROTOCOL);
	cr_expect_eq(read_exactly(&reader, &writer.parts[0], 4), 0);
	cr_expect_eq(read_exactly(&reader, &writer.parts[0], 4), RONDO_PROTOCOL);
	cr_expect_eq(read_all(&writer, 3), RONDO_PROTOCOL);
	free(writer.parts);
}

/* A reader takes no byte beyond its part, and stores no member out of range. */
Test(member_table, survives_bytes_that_make_no_sense, .timeout = 60)
{
	struct rd_table_writer writer;

	for (int i = 0; i < 20; i++)
		members[i] = i % 4 ? members[i - 1] : draw_member(false);
	writer = write_all(20);
	for (int round = 0; round < 20000; round++) {
		struct rd_table_reader reader = { .count = 0 };
		struct rd_table_part part = writer.parts[0];
		struct rd_card card;

		rd_cards_finish(&cards);
		part.bytes[draw(part.size)] ^= (unsigned char)(1 + draw(255));
		if (draw(2))
			part.size = (uint16_t)draw(part.size + 1u);
		if (read_exactly(&reader, &part, 20))
			continue;
		for (uint32_t i = 0; i < reader.count; i++) {
			cr_assert(memchr(back[i].place.host_name, '\0', RD_HOST_SIZE));
			cr_assert_leq(back[i].lineage.port, UINT16_MAX);
			for (int k = 0; rd_cards_at(&cards, (int)i, k, &card); k++)
				cr_assert_leq(card.size, RD_CARD_MAX);
		}
	}
	free(writer.parts);
}
