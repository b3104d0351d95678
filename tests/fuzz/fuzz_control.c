/* The messages of control connections: a stream of frames, each of which is encoded again. */
#include "bootstrap/control_message.h"
#include "control_messages.h"
#include "fuzz.h"

static bool is_printable(const char *text, size_t size)
{
	size_t length = strnlen(text, size);

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 127)
			return false;
	return length < size;
}

/* A message that was decoded is encoded to a frame that decodes to the same. */
static void round_trip(struct rd_control_message *message)
{
	static struct rd_control_message again;
	unsigned char first[RD_FRAME_MAX], second[RD_FRAME_MAX];
	size_t size = rd_control_encode(message, first);

	FUZZ_CHECK(size <= RD_FRAME_MAX);
	/* A HELLO of another version has three fields alone; its encoding has them, too. */
	FUZZ_CHECK(rd_control_decode(first, size, &again) == (int)size);
	FUZZ_CHECK(rd_control_encode(&again, second) == size);
	FUZZ_CHECK(memcmp(first, second, size) == 0);
}

#define MEMBERS 64

/* As the first part that comes. */
static void check_table(const struct rd_table_part *part)
{
	static struct rd_member members[MEMBERS];
	struct rd_table_reader reader = { .count = 0 };
	struct rd_cards cards = { .count = 0 };
	struct rd_card card;

	FUZZ_CHECK(part->size <= RD_TABLE_PART_BYTES);
	if (!rd_table_read(&reader, part, members, &cards, MEMBERS))
		for (int rank = 0; rank < (int)reader.count; rank++)
			for (int i = 0; rd_cards_at(&cards, rank, i, &card); i++)
				FUZZ_CHECK(card.size <= RD_CARD_MAX);
	rd_cards_finish(&cards);
}

static void check_message(const struct rd_control_message *message)
{
	switch (message->kind) {
	case RD_CONTROL_REPORT:
		FUZZ_CHECK(message->report.error < 0 && message->report.culprit >= -1);
		FUZZ_CHECK(is_printable(message->report.reason, RD_REASON_SIZE));
		return;
	case RD_CONTROL_VERDICT:
		FUZZ_CHECK(message->verdict.error < 0);
		FUZZ_CHECK(is_printable(message->verdict.reason, RD_REASON_SIZE));
		return;
	case RD_CONTROL_STRAGGLERS:
		FUZZ_CHECK(message->stragglers.size > 0);
		FUZZ_CHECK(message->stragglers.size <= RD_STRAGGLERS_SIZE);
		return;
	case RD_CONTROL_LINK_FAILED:
		FUZZ_CHECK(message->link_failed.low < message->link_failed.high);
		return;
	case RD_CONTROL_OPEN:
		FUZZ_CHECK(message->open.count > 0 && message->open.count <= RD_OPEN_MOST);
		return;
	case RD_CONTROL_TABLE:
		check_table(&message->table.part);
		return;
	default:
		return;
	}
}

size_t fuzz_seed(int number, uint8_t bytes[FUZZ_SEED_MAX])
{
	static struct rd_control_message message;

	if (RD_CONTROL_HELLO + number > RD_CONTROL_LAST)
		return 0;
	fill_message(&message, (enum rd_control_kind)(RD_CONTROL_HELLO + number));
	return rd_control_encode(&message, bytes);
}

static rd_control_kinds decoded; /* whole, and of today's version */

void fuzz_check_corpus(void)
{
	for (int kind = RD_CONTROL_HELLO; kind <= RD_CONTROL_LAST; kind++)
		if (!(decoded & rd_control_bit((enum rd_control_kind)kind)))
			fprintf(stderr, "no input has a message of kind %d\n", kind);
	FUZZ_CHECK(
		decoded == rd_control_bit(RD_CONTROL_LAST + 1) - rd_control_bit(RD_CONTROL_HELLO));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rd_control_message message;
	int taken;

	while (size > 0 && (taken = rd_control_decode(data, size, &message)) > 0) {
		FUZZ_CHECK((size_t)taken <= size);
		check_message(&message);
		round_trip(&message);
		if (message.kind != RD_CONTROL_HELLO || message.hello.version == RD_WIRE_VERSION)
			decoded |= rd_control_bit(message.kind);
		data += taken;
		size -= (size_t)taken;
	}
	return 0;
}
