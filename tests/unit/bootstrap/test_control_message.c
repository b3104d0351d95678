#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/control_message.h"

#include "control_messages.h"

static uint32_t draw(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

Test(wire, every_note_comes_back_as_it_went)
{
	for (int kind = RD_CONTROL_HELLO; kind <= RD_CONTROL_LAST; kind++) {
		unsigned char frame[RD_FRAME_MAX];
		struct rd_control_message message, back;
		size_t size;

		fill_message(&message, (enum rd_control_kind)kind);
		size = rd_control_encode(&message, frame);
		memset(&back, 0x55, sizeof(back));
		cr_assert_eq(rd_control_decode(frame, size, &back), (int)size, "kind %d", kind);
		cr_assert_arr_eq(&back, &message, sizeof(message), "kind %d", kind);
	}
}

Test(wire, the_bytes_are_fixed)
{
	static const unsigned char expected[] = { 'R', 'N', 'D', 'O', 9, 0, 12, 0, 17, 0, 0, 0, 99,
		0, 0, 0, 0, 0, 0, 0 };
	unsigned char frame[RD_FRAME_MAX];
	struct rd_control_message message;

	fill_message(&message, RD_CONTROL_BYE);
	cr_assert_eq(rd_control_encode(&message, frame), sizeof(expected));
	cr_assert_arr_eq(frame, expected, sizeof(expected));
}

/* The bytes lie at the end of a block of their own, so that a sanitizer reports reads beyond it. */
static int get_exactly(const unsigned char *frame, size_t size, struct rd_control_message *message)
{
	unsigned char *copy = malloc(size ? size : 1);
	int took;

	memcpy(copy, frame, size);
	took = rd_control_decode(copy, size, message);
	free(copy);
	return took;
}

Test(wire, a_note_that_has_not_arrived_whole_is_waited_for)
{
	for (int kind = RD_CONTROL_HELLO; kind <= RD_CONTROL_LAST; kind++) {
		unsigned char frame[RD_FRAME_MAX];
		struct rd_control_message message;
		size_t size;

		fill_message(&message, (enum rd_control_kind)kind);
		size = rd_control_encode(&message, frame);
		for (size_t cut = 0; cut < size; cut++)
			cr_assert_eq(get_exactly(frame, cut, &message), 0, "kind %d cut at %zu",
				kind, cut);
	}
}

Test(wire, a_note_that_claims_another_length_is_refused)
{
	for (int kind = RD_CONTROL_HELLO; kind <= RD_CONTROL_LAST; kind++) {
		unsigned char frame[RD_FRAME_MAX + 1] = { 0 };
		struct rd_control_message message;
		size_t size;

		fill_message(&message, (enum rd_control_kind)kind);
		size = rd_control_encode(&message, frame);
		for (size_t claim = 0; claim <= size - 8 + 1; claim++) {
			frame[6] = (unsigned char)claim;
			frame[7] = (unsigned char)(claim >> 8);
			if (claim != size - 8)
				cr_assert_eq(get_exactly(frame, 8 + claim, &message),
					RONDO_PROTOCOL, "kind %d as %zu bytes", kind, claim);
		}
	}
}

Test(wire, a_card_that_is_too_large_is_refused)
{
	unsigned char frame[RD_FRAME_MAX] = { 0 };
	struct rd_control_message message;
	size_t size, claimed;

	fill_message(&message, RD_CONTROL_HELLO);
	memset(&message.hello.identity.cards[1], 0, sizeof(message.hello.identity.cards[1]));
	size = rd_control_encode(&message, frame);
	/* The one card left, of RD_CARD_MAX bytes, ends the frame: it grows by one. */
	claimed = size + 1 - 8;
	frame[6] = (unsigned char)claimed;
	frame[7] = (unsigned char)(claimed >> 8);
	frame[size - RD_CARD_MAX - 2]++;
	cr_assert_eq(get_exactly(frame, size + 1, &message), RONDO_PROTOCOL);
	frame[size - RD_CARD_MAX - 2]--;
	claimed--;
	frame[6] = (unsigned char)claimed;
	frame[7] = (unsigned char)(claimed >> 8);
	cr_assert_eq(get_exactly(frame, size, &message), (int)size);
}

static bool is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static void check_identity(const struct rd_identity *identity)
{
	const struct rd_member *member = &identity->member;

	cr_assert(is_terminated(member->place.host_name, RD_HOST_SIZE));
	cr_assert(is_terminated(member->place.host_id, RD_HOST_SIZE));
	cr_assert(is_terminated(member->place.nic, RD_NIC_SIZE));
	for (int i = 0; i < RD_TRANSPORTS_MAX; i++) {
		cr_assert(is_terminated(identity->cards[i].transport, 16));
		cr_assert_leq(identity->cards[i].size, RD_CARD_MAX);
	}
}

/* The ranges that rd_control_decode() promises. */
static void check_valid(const struct rd_control_message *message)
{
	if (message->kind == RD_CONTROL_HELLO)
		check_identity(&message->hello.identity);
	else if (message->kind == RD_CONTROL_TABLE)
		cr_assert(message->table.part.size <= RD_TABLE_PART_BYTES &&
			  message->table.part.count > 0);
	else if (message->kind == RD_CONTROL_REPORT)
		cr_assert(message->report.error < 0 && message->report.culprit >= -1 &&
			  is_terminated(message->report.reason, RD_REASON_SIZE));
	else if (message->kind == RD_CONTROL_VERDICT)
		cr_assert(message->verdict.error < 0 &&
			  is_terminated(message->verdict.reason, RD_REASON_SIZE));
	else if (message->kind == RD_CONTROL_STRAGGLERS)
		cr_assert(message->stragglers.first < RD_SIZE_MAX && message->stragglers.size > 0 &&
			  message->stragglers.size <= RD_STRAGGLERS_SIZE);
	else if (message->kind == RD_CONTROL_LEFT)
		cr_assert(message->left.rank >= 0);
}

Test(wire, flipped_bits_never_get_past_the_checks, .timeout = 60)
{
	uint32_t seed = 1;

	for (int kind = RD_CONTROL_HELLO; kind <= RD_CONTROL_LAST; kind++) {
		unsigned char frame[RD_FRAME_MAX];
		struct rd_control_message message;
		size_t size;

		fill_message(&message, (enum rd_control_kind)kind);
		size = rd_control_encode(&message, frame);
		for (size_t bit = 0; bit < 8 * size; bit++) {
			size_t second = draw(&seed) % (8 * size);
			int took;

			frame[bit / 8] ^= (unsigned char)(1 << bit % 8);
			took = get_exactly(frame, size, &message);
			cr_assert(took == RONDO_PROTOCOL || (took >= 0 && took <= (int)size));
			cr_assert(bit >= 32 || took == RONDO_PROTOCOL);
			if (took > 0)
				check_valid(&message);
			frame[second / 8] ^= (unsigned char)(1 << second % 8);
			if (get_exactly(frame, size, &message) > 0)
				check_valid(&message);
			frame[second / 8] ^= (unsigned char)(1 << second % 8);
			frame[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
	}
}

Test(wire, what_is_no_note_is_refused_at_its_first_byte)
{
	struct rd_control_message message;

	cr_assert_eq(
		get_exactly((const unsigned char *)"GET / HTTP/1.1", 1, &message), RONDO_PROTOCOL);
	cr_assert_eq(get_exactly((const unsigned char *)"RND ", 4, &message), RONDO_PROTOCOL);
	cr_assert_eq(
		get_exactly((const unsigned char *)"RNDO\0\0\0\0", 8, &message), RONDO_PROTOCOL);
	cr_assert_eq(get_exactly((const unsigned char *)"RNDO\3\0\xff\xff", 8, &message),
		RONDO_PROTOCOL);
}

Test(wire, control_characters_do_not_reach_a_terminal)
{
	unsigned char frame[RD_FRAME_MAX];
	struct rd_control_message message;

	fill_message(&message, RD_CONTROL_VERDICT);
	strcpy(message.verdict.reason, "a\033[2Jb\nc");
	cr_assert_gt(rd_control_decode(frame, rd_control_encode(&message, frame), &message), 0);
	cr_assert_str_eq(message.verdict.reason, "a?[2Jb?c");
}

/* As version 16 wrote it, and whatever follows. */
Test(wire, of_a_hello_in_another_version_the_rank_is_read)
{
	static const unsigned char frame[] = { 'R', 'N', 'D', 'O', 1, 0, 15, 0, 16, 0, 0, 0, 3, 0,
		0, 0, 4, 0, 0, 0, 0xff, 0xff, 0xff };
	struct rd_control_message message;

	cr_assert_eq(get_exactly(frame, sizeof(frame), &message), (int)sizeof(frame));
	cr_assert_eq(message.hello.version, 16);
	cr_assert_eq(message.hello.rank, 3);
	cr_assert_eq(message.hello.size, 4);
}
