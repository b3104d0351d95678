/*
 * The messages of control connections: a stream of frames, each of which is encoded again. The same
 * bytes come by a connection to a rank's listener, too, which finds their owner by the greeting.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "bootstrap/control_message.h"
#include "bootstrap/listener.h"
#include "control_messages.h"
#include "fuzz.h"
#include "net/codec.h"

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

/* ---- A greeting ------------------------------------------------------------------------------ */

static struct rd_listener *listener;
static struct rd_arrivals *hellos, *known;
static struct sockaddr_un place = { .sun_family = AF_UNIX }; /* the kernel names it */
static socklen_t place_size = sizeof(place);

#define KNOWN UINT64_MAX /* the lineage of fill_message() */

static void open_listener(void)
{
	struct rd_settings settings = { .size = 2, .channels = 1 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	FUZZ_CHECK(bind(fd, (struct sockaddr *)&place, sizeof(place.sun_family)) == 0);
	FUZZ_CHECK(listen(fd, 8) == 0);
	FUZZ_CHECK(getsockname(fd, (struct sockaddr *)&place, &place_size) == 0);
	FUZZ_CHECK(rd_listener_create(&listener, &settings) == 0);
	FUZZ_CHECK(rd_door_listen(listener->door, fd) == 0);
	hellos = rd_arrivals_open(listener, RD_ARRIVALS_TCP, 0, 4, -1);
	known = rd_arrivals_open(listener, RD_ARRIVALS_LINEAGE, KNOWN, 4, -1);
	FUZZ_CHECK(hellos && known);
}

/* Takes the next one. Its greeting is the start of what it has sent. */
static bool has_come(struct rd_arrivals *arrivals, const uint8_t *data, size_t size)
{
	struct rd_arrival *arrival = rd_arrivals_take(arrivals);

	if (!arrival)
		return false;
	FUZZ_CHECK(arrival->greeting_size <= size);
	FUZZ_CHECK(memcmp(arrival->greeting, data, arrival->greeting_size) == 0);
	rd_wire_close(&arrival->wire);
	free(arrival);
	return true;
}

/* By a model of its own: whose the connection is, and what it is answered. */
static void greet(const uint8_t *data, size_t size)
{
	static struct rd_control_message message;
	unsigned char answer[RD_FRAME_MAX];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t sent = size < 4096 ? size : 4096;
	bool is_hello = size >= RD_HELLO_SIZE && data[0] == RD_HELLO_FIRST;
	bool gathers = size && data[0] != RD_HELLO_FIRST &&
		       rd_control_decode(data, size, &message) > 0 &&
		       message.kind == RD_CONTROL_GATHER && message.gather.lineage;
	bool is_here = gathers && message.gather.lineage == KNOWN;
	ssize_t got;

	if (!listener)
		open_listener();
	FUZZ_CHECK(connect(fd, (struct sockaddr *)&place, place_size) == 0);
	FUZZ_CHECK(send(fd, data, sent, MSG_NOSIGNAL) == (ssize_t)sent);
	rd_listener_serve(listener, rd_clock_ms());
	got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
	FUZZ_CHECK(has_come(hellos, data, size) == is_hello);
	/* One that asks is never taken. */
	FUZZ_CHECK(has_come(known, data, size) == (is_here && message.gather.origin >= 0));
	FUZZ_CHECK((got > 0) == (gathers && !is_here));
	if (got > 0)
		FUZZ_CHECK(rd_control_decode(answer, (size_t)got, &message) == got &&
			   message.kind == RD_CONTROL_LEFT);
	close(fd);
	/* The listener closes its end, too, if it still waits for bytes. */
	rd_listener_serve(listener, rd_clock_ms());
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

#define TRUNK 0x7103 /* the kind of a trunk's first frame (net/trunk.c) */

static size_t seed_trunk(uint8_t *bytes)
{
	struct rd_codec codec = rd_frame_write(bytes, RD_FRAME_MAX);
	uint64_t job = 17;

	rd_codec_u64(&codec, &job);
	return rd_frame_end(&codec, bytes, TRUNK);
}

static size_t seed_gather(uint8_t *bytes, uint64_t lineage, int origin)
{
	static struct rd_control_message message;

	fill_message(&message, RD_CONTROL_GATHER);
	message.gather.lineage = lineage;
	message.gather.origin = origin;
	return rd_control_encode(&message, bytes);
}

/* A hello of tcp, one that lacks a byte, a trunk's first frame, and GATHERs. */
static size_t seed_greeting(int number, uint8_t *bytes)
{
	memset(bytes, 0, RD_HELLO_SIZE);
	bytes[0] = RD_HELLO_FIRST;
	switch (number) {
	case 0:
		return RD_HELLO_SIZE;
	case 1:
		return RD_HELLO_SIZE - 1;
	case 2:
		return seed_trunk(bytes);
	case 3:
		return seed_gather(bytes, KNOWN, 0);
	case 4:
		return seed_gather(bytes, KNOWN, -1);
	case 5:
		return seed_gather(bytes, KNOWN - 1, 0);
	default:
		return 0;
	}
}

size_t fuzz_seed(int number, uint8_t bytes[FUZZ_SEED_MAX])
{
	static struct rd_control_message message;
	int kind = RD_CONTROL_HELLO + number;

	if (kind > RD_CONTROL_LAST)
		return seed_greeting(kind - RD_CONTROL_LAST - 1, bytes);
	fill_message(&message, (enum rd_control_kind)kind);
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

	greet(data, size);
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
